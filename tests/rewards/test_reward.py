"""What every reward has from its base, and how rewards are put together."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int32
from recordings import SPEC, Recorded, compiled

from gobi.rewards import Nothing, Positive, Product, Reachability, Reward
from gobi.types import Transition

TIME, LONG, ENVS = 5, 50, 3


class Clock(Reward):
    """Pays the number of steps since the start, times the action less one; defines `step` alone."""

    name: str = eqx.field(static=True, default="clock")
    less: Int32[Array, ""] = eqx.field(default=1, converter=jnp.int32)

    @property
    def reads(self):
        return frozenset({self.name})

    def init(self, key, spec, num_envs):
        return {"steps": jnp.zeros(num_envs), "lessons": jnp.int32(0), "key": key, "room": 1}

    def step(self, state, transition):
        state = state | {"steps": state["steps"] + 1}
        return state, state["steps"] * (transition.action - self.less)

    def learn(self, state, key, transitions):
        return state | {"lessons": state["lessons"] + 1, "key": key}, {f"{self.name}/learned": jnp.float32(1)}

    def grow(self, state, memories):
        return state | {"room": state["room"] * 4} if self.name in memories else state


@pytest.fixture
def play() -> Transition:
    action = jnp.arange(TIME * ENVS, dtype=jnp.int32).reshape(TIME, ENVS) % 3
    nothing = jnp.zeros((TIME, ENVS))
    return Transition({}, action, {}, nothing, nothing > 0, nothing > 0)


def clock_pays(play: Transition) -> np.ndarray:
    return (1 + np.arange(TIME))[:, None] * (np.asarray(play.action) - 1.0)


def test_a_reward_with_a_step_alone_has_rollouts(play):
    reward = Clock()
    state, bonus, logged = reward.rollout(reward.init(jax.random.key(0), SPEC, ENVS), play)
    np.testing.assert_array_equal(bonus, clock_pays(play))
    np.testing.assert_array_equal(state["steps"], TIME)
    assert logged == {}


def test_a_reward_with_rollouts_alone_has_a_step(play):
    reward = Nothing()
    state, bonus = reward.step(reward.init(jax.random.key(0), SPEC, ENVS), jax.tree.map(lambda x: x[0], play))
    np.testing.assert_array_equal(bonus, np.zeros(ENVS))
    assert state == ()
    assert reward.reads == frozenset()


def test_a_product_multiplies_and_keeps_both_states(play):
    reward = Product(Clock("one"), Product(Clock("two"), Positive(Clock("three"))))
    assert reward.reads == {"one", "two", "three"}
    state = reward.init(jax.random.key(0), SPEC, ENVS)
    state, bonus, _ = reward.rollout(state, play)
    single = clock_pays(play)
    np.testing.assert_array_equal(bonus, single * single * (single > 0))
    state, logged = reward.learn(state, jax.random.key(1), play)
    assert set(logged) == {"one/learned", "two/learned", "three/learned"}
    one, (two, three) = state
    assert [int(part["lessons"]) for part in (one, two, three)] == [1, 1, 1]
    keys = {tuple(jax.random.key_data(part["key"]).tolist()) for part in (one, two, three)}
    assert len(keys) == 3


def test_only_the_named_memories_grow():
    reward = Product(Clock("one"), Positive(Clock("two")))
    state = reward.init(jax.random.key(0), SPEC, ENVS)
    one, two = reward.grow(state, frozenset({"two"}))
    assert (one["room"], two["room"]) == (1, 4)


def test_learning_nothing_and_growing_nothing_is_the_default(play):
    reward = Nothing()
    assert reward.learn((), jax.random.key(0), play) == ((), {})
    assert reward.grow((), frozenset({"episodic"})) == ()


def test_a_replayed_bonus_is_the_one_that_was_stored():
    stored = jnp.arange(4.0)
    assert Nothing().at_sampling((), jax.random.key(0), stored, batch=None)[1] is stored


def test_the_world_of_reachability_learns_through_it(play):
    class Pupil(Recorded):
        def init(self, key, spec, num_envs):
            return jnp.int32(0)

        def learn(self, ws, key, rollout):
            return ws + 1, {"world/lessons": ws.astype(jnp.float32)}

    reward = Reachability(Pupil())
    state = reward.init(jax.random.key(0), SPEC, ENVS)
    for lesson in range(2):
        state, logged = reward.learn(state, jax.random.key(1), play)
        assert logged["world/lessons"] == lesson
    assert state.world == 2


def test_reachability_tells_what_did_not_fit():
    reward = Reachability(Recorded(), capacity=2)
    views = jax.random.randint(jax.random.key(1), (LONG, ENVS, 8, 7, 7, 3), 0, 9).astype(jnp.uint8)
    seen = {"observation": views[:, :, 0], "futures": views[:, :, 1:]}
    nothing = jnp.zeros((LONG, ENVS))
    new = Transition(seen, nothing.astype(jnp.int32), seen, nothing, nothing > 0, nothing > 0)
    _, _, logged = compiled(reward.rollout)(reward.init(jax.random.key(0), SPEC, ENVS), new)
    assert logged["dropped/episodic"] > 0
    assert logged["load/episodic"] > 0.5


@pytest.mark.parametrize("grown", ["episodic", "executed"])
def test_each_memory_of_reachability_grows_by_itself(grown):
    reward = Reachability(Recorded(), skip_executed=True)
    state = reward.init(jax.random.key(0), SPEC, ENVS)
    larger = reward.grow(state, frozenset({grown, "lifelong"}))
    for name, before, after in (
        ("episodic", state.memory, larger.memory),
        ("executed", state.executed, larger.executed),
    ):
        assert after.num_slots == before.num_slots * (4 if name == grown else 1)
    assert Reachability(Recorded()).grow(state, frozenset()) is state
