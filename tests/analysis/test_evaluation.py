"""Evaluation: the same episodes that a plain loop plays one by one, and intervals as others compute them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import made_run
from scipy import stats

from gobi.analysis import evaluation
from gobi.envs.minigrid import numbered_levels
from gobi.envs.minigrid.state import nth
from gobi.training import trained
from gobi.training.trained import Trained


@pytest.fixture(scope="module")
def agents(tmp_path_factory) -> Trained:
    return trained.load(made_run(tmp_path_factory.mktemp("runs") / "run", seeds=(3, 4)))


def played_one_by_one(agents: Trained, seed: int, episodes: int, greedy: bool):
    """Returns and lengths of single episodes in a Python loop, with the draws that evaluation makes."""
    policy, step = jax.jit(agents.actor(seed).__call__), jax.jit(agents.env.step)
    outcomes = []
    for number in range(episodes):
        state = nth(numbered_levels(agents.env, agents.level_seed, number, 1), 0)
        key = jax.random.fold_in(jax.random.key(agents.level_seed), number)
        seen, carry = agents.env.observe(state), agents.actor(seed).initial(1)
        total, length, done = 0.0, 0, False
        while not done:
            logits, _, carry = policy(seen[None], jnp.array([length == 0]), carry)
            noise = jax.random.gumbel(jax.random.fold_in(key, length), (7,))
            action = jnp.argmax(logits[0] + (0 if greedy else noise))
            state, timestep = step(state, action)
            seen, done = timestep.observation, bool(timestep.done)
            total, length = total + float(timestep.reward), length + 1
        outcomes.append((total, length))
    return map(np.array, zip(*outcomes, strict=True))


@pytest.mark.parametrize("greedy", [False, True])
def test_episodes_are_those_of_a_plain_loop_over_single_ones(agents, greedy):
    levels = numbered_levels(agents.env, agents.level_seed, 0, 7)
    returns, lengths = evaluation.outcomes(agents, 4, levels, greedy, num_envs=3)
    expected_returns, expected_lengths = played_one_by_one(agents, 4, 7, greedy)
    np.testing.assert_array_equal(lengths, expected_lengths)
    np.testing.assert_allclose(returns, expected_returns)
    if not greedy:
        assert len(set(lengths.tolist())) > 2


def test_how_many_lanes_play_side_by_side_changes_nothing(agents):
    few, many = (evaluation.evaluate(agents, 20, num_envs=lanes) for lanes in (8, 64))
    assert few == many
    assert [score.seed for score in few.scores] == [3, 4]
    assert all(score.episodes == 20 for score in few.scores)


def test_an_evaluation_says_what_was_evaluated(agents):
    told = []
    found = evaluation.evaluate(agents, 6, greedy=True, num_envs=4, progress=lambda *n: told.append(n))
    assert (found.task, found.frames, found.policy) == ("MiniGrid-Empty-5x5-v0", 200, "greedy")
    assert found.level_seed == 3 + 2**30
    assert found.best_return is None or 0 < found.best_return <= 1
    assert told == [(4, 12), (6, 12), (10, 12), (12, 12)]


def test_a_score_counts_an_episode_with_a_return_as_solved():
    found = evaluation.score(0, [0.0, 0.5, 0.9, 0.0], [100, 50, 10, 100])
    assert (found.successes, found.success, found.mean_length) == (2, 0.5, 65.0)
    assert found.mean_return == pytest.approx(0.35)


@given(trials=st.integers(1, 2000), data=st.data())
def test_the_interval_of_a_success_rate_is_wilsons(trials, data):
    successes = data.draw(st.integers(0, trials))
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert evaluation.wilson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-7)


def test_the_interval_of_a_mean_is_the_normal_one_and_needs_two_values():
    values = np.random.default_rng(0).normal(2, 3, 50)
    low, high = stats.norm.interval(0.95, values.mean(), stats.sem(values))
    assert evaluation.normal(values) == pytest.approx((low, high))
    assert evaluation.normal(values[:1]) is None
