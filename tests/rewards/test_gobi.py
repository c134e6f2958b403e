"""GoBI and its ablations, composed; a rollout at a time, in pieces, step by step, and for many seeds."""

from __future__ import annotations

import algorithms
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recordings import SPEC, Recorded, compiled

from gobi.rewards import R1, R2, R3, Count, GoBI, Reward
from gobi.types import Transition
from gobi.worlds import GridModel, build

SHORT, PIECE = 60, 20


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


class Noisy:
    """GoBI as coded, with the public code's noise in its model, and calls of it that are compiled once."""

    def __init__(self, play: Transition):
        network = build("coded", noise="coded", key=jax.random.key(2))
        self.reward = GoBI(GridModel(network), skip_executed=True)
        self.play = jax.tree.map(lambda leaf: leaf[-SHORT:], play)
        self.rollout = compiled(lambda state, play: self.reward.rollout(state, play)[:2])
        self.steps = compiled(lambda state, play: jax.lax.scan(self.reward.step, state, play))

    def init(self, seed: int):
        return self.reward.init(jax.random.key(seed), SPEC, self.play.action.shape[1])

    def part(self, start: int, length: int) -> Transition:
        return jax.tree.map(lambda leaf: leaf[start : start + length], self.play)


@pytest.fixture(scope="module")
def noisy(played) -> Noisy:
    return Noisy(played)


@pytest.fixture(scope="module")
def whole(noisy):
    """State and bonuses after the whole rollout."""
    return noisy.rollout(noisy.init(seed=0), noisy.play)


def same(one, other) -> bool:
    """Whether two states are equal, apart from where in the tables the codes came to lie."""
    one, other = (eqx.tree_at(lambda s: _slots(s), state, _sorted_slots(state)) for state in (one, other))
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(bool(jnp.array_equal(_plain(a), _plain(b))) for a, b in leaves)


def _slots(state):
    reachable, counts = state
    return reachable.memory.slots, reachable.executed.slots, counts.slots


def _sorted_slots(state):
    (memory, executed, counts) = (np.asarray(slots) for slots in _slots(state))
    episode = np.asarray(state[0].memory.episode)
    live = (
        memory[..., 2] == episode[:, None, None],
        executed[..., 2] == episode[:, None, None],
        counts[..., 2] > 0,
    )
    rows = []
    for slots, used in zip((memory, executed, counts), live, strict=True):
        kept = np.where(used[..., None], slots, 0).reshape(-1, slots.shape[-1])
        rows.append(kept[np.lexsort(kept.T)])
    return tuple(rows)


def _plain(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def test_the_recorded_rollout_holds_ends_and_the_noise_matters(noisy, whole):
    assert noisy.play.done.any()
    _, other = noisy.rollout(noisy.init(seed=1), noisy.play)
    assert (whole[1] != other).any()


def test_a_rollout_pays_what_its_steps_pay(noisy, whole):
    state, bonus = noisy.steps(noisy.init(seed=0), noisy.play)
    np.testing.assert_array_equal(bonus, whole[1])
    assert same(state, whole[0])


@pytest.mark.parametrize("cuts", [(0, 20, 40), (1, 21, 40), (5, 25, 35)])
def test_a_rollout_pays_the_same_in_pieces(cuts, noisy, whole):
    """Pieces of twenty steps begin at the cuts; the steps between are played one by one."""
    state, bonuses, now = noisy.init(seed=0), [], 0
    while now < SHORT:
        fits = now in cuts and now + PIECE <= SHORT
        length = PIECE if fits else 1
        state, bonus = (noisy.rollout if fits else noisy.steps)(state, noisy.part(now, length))
        bonuses.append(np.asarray(bonus))
        now += length
    np.testing.assert_array_equal(np.concatenate(bonuses), whole[1])
    assert same(state, whole[0])


def test_seeds_side_by_side_are_paid_as_each_alone(noisy):
    pieces = [noisy.part(start, PIECE) for start in (0, PIECE)]
    states = [noisy.init(seed) for seed in (0, 1)]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *zip(states, pieces, strict=True))
    _, together = compiled(jax.vmap(lambda state, play: noisy.reward.rollout(state, play)[:2]))(*stack)
    for seed in (0, 1):
        _, alone = noisy.rollout(states[seed], pieces[seed])
        np.testing.assert_array_equal(together[seed], alone)


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
