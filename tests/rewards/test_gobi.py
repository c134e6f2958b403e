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
from gobi.worlds import GridModel, Nowhere, Settings, from_settings

SHORT, SEEDS = 60, (0, 1)


def paid(play: Transition, *rewards: Reward) -> list[np.ndarray]:
    """The bonuses of several rewards, compiled together: what they have in common is worked out once."""

    @compiled
    def bonuses(play):
        starts = [reward.init(jax.random.key(0), SPEC, play.action.shape[1]) for reward in rewards]
        return [reward.rollout(start, play)[1] for reward, start in zip(rewards, starts, strict=True)]

    return [np.asarray(bonus) for bonus in bonuses(play)]


def test_gobi_is_growth_times_the_lifelong_count_and_r2_asks_only_whether_it_grew(played):
    gobi, r2 = paid(played, GoBI(Recorded()), R2(Recorded()))
    growth = algorithms.growth(played, algorithms.public_code)
    lifelong = algorithms.lifelong(algorithms.visits(played, shared=False))
    np.testing.assert_allclose(gobi, growth * lifelong, rtol=3e-7)
    np.testing.assert_allclose(r2, (growth > 0) * lifelong, rtol=3e-7)


def test_as_written_it_is_algorithm_1_with_one_count_for_all(played):
    (bonus,) = paid(played, GoBI(Recorded(tuple(range(7))), Count(shared=True), credit="departure"))
    growth = algorithms.growth(played, algorithms.algorithm_1)
    np.testing.assert_allclose(
        bonus, growth * algorithms.lifelong(algorithms.visits(played, shared=True)), rtol=3e-7
    )


def test_r1_and_r3_are_the_factors_alone():
    reward = GoBI(Recorded(), erase=True)
    assert R1(Recorded(), erase=True) == reward.first
    assert R3() == reward.second


def test_without_imagination_a_view_pays_once_in_an_episode(played):
    (bonus,) = paid(played, R1(Nowhere()))
    for lane in range(bonus.shape[1]):
        seen = set()
        for step in range(len(bonus)):
            if step == 0 or played.done[step - 1, lane]:
                seen = {played.before["observation"][step, lane].tobytes()}
            view = played.after["observation"][step, lane].tobytes()
            assert bonus[step, lane] == (view not in seen)
            seen.add(view)


def test_any_reward_can_be_the_lifelong_factor():
    other = Count(view="full_grid", shared=True)
    assert GoBI(Recorded(), other).reads == {"observation", "futures", "full_grid"}
    assert R2(Recorded(), other).second is R3(other) is other


@pytest.fixture(scope="module")
def noisy() -> Reward:
    """Reachability as coded: noise in its model, and the rule on executed actions.

    Random weights imagine nothing twice; few bits make the views meet, so that the noise matters.
    """
    settings = Settings("coded", noise="coded")
    shapes = jax.eval_shape(lambda: from_settings(settings, jax.random.key(0)))
    draw = np.random.default_rng(2)
    network = jax.tree.map(lambda leaf: jnp.asarray(0.1 * draw.normal(size=leaf.shape), leaf.dtype), shapes)
    return R1(GridModel(network), skip_executed=True, hash=SimHash(jax.random.key(3), (7, 7, 3), bits=9))


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


def test_with_noise_a_rollout_pays_what_its_steps_pay_for_seeds_side_by_side_too(noisy, short, starts, whole):
    assert short.done.any()
    assert (whole[0][1] != whole[1][1]).any()

    def steps(state):
        return jax.lax.scan(lambda state, transition: noisy.step(state, transition), state, short)

    together, bonuses = compiled(jax.vmap(steps))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts))
    for seed in SEEDS:
        state = jax.tree.map(lambda leaf, seed=seed: leaf[seed], together)
        np.testing.assert_array_equal(bonuses[seed], whole[seed][1])
        assert alike(state, whole[seed][0])


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
