"""GoBI and its ablations, composed; a rollout at a time, in pieces, step by step, and for many seeds."""

from __future__ import annotations

import algorithms
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import SPEC, Recorded, compiled

from gobi.memory import SimHash
from gobi.rewards import R1, R2, R3, Count, GoBI, Reward
from gobi.types import Transition
from gobi.worlds import GridModel, build

SHORT, PIECE, SEEDS = 60, 20, (0, 1)


@pytest.fixture(scope="module")
def growth(played) -> np.ndarray:
    return algorithms.growth(played, algorithms.public_code)


def paid(reward: Reward, play: Transition) -> np.ndarray:
    state = reward.init(jax.random.key(0), SPEC, play.action.shape[1])
    return np.asarray(compiled(lambda state, play: reward.rollout(state, play))(state, play)[1])


def test_gobi_is_growth_times_the_lifelong_count(played, growth):
    expected = growth * algorithms.lifelong(algorithms.visits(played, shared=False))
    np.testing.assert_allclose(paid(GoBI(Recorded()), played), expected, rtol=3e-7)


def test_as_written_it_is_algorithm_1_with_one_count_for_all(played):
    reward = GoBI(Recorded(tuple(range(7))), Count(shared=True), credit="departure")
    growth = algorithms.growth(played, algorithms.algorithm_1)
    expected = growth * algorithms.lifelong(algorithms.visits(played, shared=True))
    np.testing.assert_allclose(paid(reward, played), expected, rtol=3e-7)


def test_r2_asks_whether_the_memory_grew_not_by_how_much(played, growth):
    expected = (growth > 0) * algorithms.lifelong(algorithms.visits(played, shared=False))
    np.testing.assert_allclose(paid(R2(Recorded()), played), expected, rtol=3e-7)


def test_r1_and_r3_are_the_factors_alone():
    reward = GoBI(Recorded(), erase=True)
    assert R1(Recorded(), erase=True) == reward.first
    assert R3() == reward.second


def test_any_reward_can_be_the_lifelong_factor():
    other = Count(view="full_grid", shared=True)
    assert GoBI(Recorded(), other).reads == {"observation", "futures", "full_grid"}
    assert R2(Recorded(), other).second is R3(other) is other


@pytest.fixture(scope="module")
def noisy() -> Reward:
    """Reachability as coded: noise in its model, and the rule on executed actions.

    An untrained model imagines nothing twice; few bits make its views meet, so that the noise matters.
    """
    world = GridModel(build("coded", noise="coded", key=jax.random.key(2)))
    return R1(world, skip_executed=True, hash=SimHash(jax.random.key(3), (7, 7, 3), bits=9))


@pytest.fixture(scope="module")
def short(played) -> Transition:
    return jax.tree.map(lambda leaf: leaf[-SHORT:], played)


@pytest.fixture(scope="module")
def starts(noisy, short):
    return [noisy.init(jax.random.key(seed), SPEC, short.action.shape[1]) for seed in SEEDS]


@pytest.fixture(scope="module")
def whole(noisy, short, starts):
    """State and bonuses of each seed after the whole rollout."""
    rollout = compiled(lambda state, play: noisy.rollout(state, play)[:2])
    return [rollout(start, short) for start in starts]


def alike(one, other) -> bool:
    """Whether two states agree in all but where in their tables the codes came to lie."""
    return all(
        (a.used == b.used).all() and (a.episode == b.episode).all() and a.dropped == b.dropped == 0
        for a, b in ((one.memory, other.memory), (one.executed, other.executed))
    ) and bool(one.steps == other.steps and one.key == other.key and (one.begun == other.begun).all())


def test_a_rollout_with_noise_pays_what_its_steps_pay(noisy, short, starts, whole):
    assert short.done.any()
    assert (whole[0][1] != whole[1][1]).any()

    def step(state, transition):
        return noisy.step(state, transition)

    state, bonus = compiled(lambda state, play: jax.lax.scan(step, state, play))(starts[0], short)
    np.testing.assert_array_equal(bonus, whole[0][1])
    assert alike(state, whole[0][0])


def test_seeds_side_by_side_and_in_pieces_are_paid_as_each_alone(noisy, short, starts, whole):
    rollout = compiled(jax.vmap(lambda state, play: noisy.rollout(state, play)[:2], in_axes=(0, None)))
    state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    bonuses = []
    for now in range(0, SHORT, PIECE):
        piece = jax.tree.map(lambda leaf, now=now: leaf[now : now + PIECE], short)
        state, bonus = rollout(state, piece)
        bonuses.append(bonus)
    for seed in SEEDS:
        np.testing.assert_array_equal(np.concatenate(bonuses, axis=1)[seed], whole[seed][1])
        assert alike(jax.tree.map(lambda leaf, seed=seed: leaf[seed], state), whole[seed][0])


def test_no_draw_is_used_twice():
    """A world that imagines its own random bits: all of them are new, whatever the rollouts' lengths."""

    class Bits(Recorded):
        reads = frozenset()

        def imagine(self, ws, keys, views):
            drawn = jax.vmap(lambda key: jax.random.bits(key, (len(self.actions), 7, 7, 3), jnp.uint8))(keys)
            return drawn, jnp.ones(drawn.shape[:2], bool)

    reward = R1(Bits())
    time, envs = 12, 4
    still = {"observation": jnp.zeros((time, envs, 7, 7, 3), jnp.uint8)}
    nothing = jnp.zeros((time, envs))
    play = Transition(still, nothing.astype(jnp.int32), still, nothing, nothing > 0, nothing > 0)
    rollout = compiled(lambda state, play: reward.rollout(state, play))
    state, first, _ = rollout(reward.init(jax.random.key(0), SPEC, envs), play)
    _, second, _ = rollout(state, play)
    np.testing.assert_array_equal(np.concatenate([first, second]), len(reward.world.actions))
