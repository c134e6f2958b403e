"""Where no step was made (a lane that only resets) nothing is learned and nothing remembered for life."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from any_play import REWARDS, SPECS, play
from recordings import compiled

from gobi.rewards.reward import Reward
from gobi.types import Transition

KIND, TIME, ROUNDS = "numbers", 13, 3
EPISODIC = {
    "noveld": ("visited",),
    "ride": ("visits",),
    "ngu": ("memory", "held"),
    "e3b": ("inverse",),
    "ec": (".buffer", "added", ".steps", "novel"),
}
"""What belongs to an episode, and ends with it. That it does shows in what later steps are paid."""


def with_gaps(plays: Transition) -> tuple[Transition, np.ndarray]:
    """The play of one lane in which each end of an episode is followed by a reset that is no step.

    A second lane makes none at all. Also says at which times the first one plays.
    """
    done = np.asarray(plays.done)[:, 0]
    rows, real = [], []
    for t in range(len(done)):
        rows.append(t)
        real.append(True)
        if done[t] and t + 1 < len(done):
            rows.append(t + 1)
            real.append(False)
    rows, real = np.array(rows), np.array(real)
    first = jax.tree.map(lambda leaf: leaf[rows], plays)
    begins = {name: seen[rows] for name, seen in plays.before.items()}

    def at_resets(made, otherwise):
        return jnp.where(real.reshape(-1, *[1] * (made.ndim - 1)), made, otherwise)

    first = Transition(
        before=first.before,
        action=at_resets(first.action, 0),
        after=jax.tree.map(at_resets, first.after, begins),
        reward=first.reward,
        terminated=at_resets(first.terminated, True),
        truncated=first.truncated,
        real=jnp.asarray(real)[:, None],
    )
    never = eqx.tree_at(
        lambda p: (p.terminated, p.real), first, (jnp.ones_like(first.terminated), jnp.zeros_like(first.real))
    )
    # What is seen in a lane without steps must not matter.
    never = eqx.tree_at(lambda p: p.after["observation"], never, 7 - never.after["observation"])
    return jax.tree.map(lambda *lanes: jnp.concatenate(lanes, axis=1), first, never), real


def run(reward: Reward, plays: Transition, envs: int):
    """A few rollouts, each with a lesson: the state then, all bonuses, and what was logged."""
    key = jax.random.key(3)

    @compiled
    def rounds(state, plays):
        def one(state, key):
            state, bonus, logged = reward.rollout(state, plays)
            state, more = reward.learn(state, key, plays)
            return state, (bonus, logged | more)

        return jax.lax.scan(one, state, jax.random.split(key, ROUNDS))

    return rounds, *rounds(compiled(lambda: reward.init(key, SPECS[KIND], envs))(), plays)


def lifelong(name: str, state) -> dict[str, np.ndarray]:
    """The leaves of a state that outlive an episode, those of the first lane where there is one per lane."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if not any(part in jax.tree_util.keystr(path) for part in EPISODIC.get(name, ())):
            found[jax.tree_util.keystr(path)] = np.asarray(leaf)
    return found


def one_lane(name: str, path: str, leaf: np.ndarray) -> np.ndarray:
    """Of what there is for each lane, the first one's."""
    per_lane = {"ngu": ("distance", "counted", "fresh"), "noveld": ("fresh",), "ride": ("fresh",)}
    per_lane |= {"e3b": ("fresh",), "ec": ("fresh", ".episode")}
    if not path.endswith(per_lane.get(name, ())) and ".observations" not in path and ".episodes" not in path:
        return leaf
    return leaf[:, :1] if path[-1] == "s" and name == "ec" else leaf[:1]


@pytest.mark.parametrize("name", REWARDS)
def test_a_rollout_with_resets_in_it_is_as_good_as_one_without(name):
    reward, plays = REWARDS[name], play(KIND, TIME, 1, seed=4)
    gapped, real = with_gaps(plays)
    assert (~real).sum() > 0
    _, alone, (paid, told) = run(reward, plays, envs=1)
    again, among, (bonus, logged) = run(reward, gapped, envs=2)

    np.testing.assert_allclose(np.asarray(bonus)[:, real, 0], paid[..., 0], rtol=1e-3, atol=1e-4)
    assert np.isfinite(bonus).all()
    expected = lifelong(name, alone)
    assert expected
    for path, leaf in lifelong(name, among).items():
        np.testing.assert_allclose(
            one_lane(name, path, leaf), expected[path], rtol=1e-3, atol=1e-4, err_msg=path
        )
    for metric in told:
        if not metric.startswith(("load", "dropped", "ngu/distance", "ec/remembered")):
            np.testing.assert_allclose(logged[metric], told[metric], rtol=2e-3, atol=1e-4, err_msg=metric)

    # And with no step at all, everything stays to the bit.
    idle = eqx.tree_at(
        lambda p: (p.real, p.terminated), gapped, (gapped.real & False, gapped.terminated | True)
    )
    before, after = (lifelong(name, state) for state in (among, again(among, idle)[0]))
    for path in before:
        if not path.endswith("fresh"):
            np.testing.assert_array_equal(after[path], before[path], err_msg=path)


@pytest.mark.parametrize("name", ["noveld", "e3b", "re3"])
def test_to_say_that_all_steps_were_made_changes_nothing(name):
    reward, plays = REWARDS[name], play(KIND, TIME, 2)
    said = eqx.tree_at(
        lambda p: p.real, plays, jnp.ones_like(plays.terminated), is_leaf=lambda leaf: leaf is None
    )
    (_, one, paid), (_, other, too) = (run(reward, each, envs=2) for each in (plays, said))
    for silent, told in zip(jax.tree.leaves((one, paid)), jax.tree.leaves((other, too)), strict=True):
        np.testing.assert_allclose(told, silent, rtol=1e-3, atol=1e-5)


def test_weights_are_ones_and_zeros():
    plays = play(KIND, 2, 2)
    assert (plays.weights == 1).all()
    real = jnp.array([[True, False], [False, True]])
    plays = eqx.tree_at(lambda p: p.real, plays, real, is_leaf=lambda leaf: leaf is None)
    np.testing.assert_array_equal(plays.weights, np.float32([[1, 0], [0, 1]]))
