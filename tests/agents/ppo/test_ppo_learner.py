"""What PPO learns of a rollout: advantages, ends, noted probabilities, minibatches of environments."""

from __future__ import annotations

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ppo_cases import ENVS, STEPS, batch, learner, noted, optimiser, policy, rollout, weights

from gobi.agents.learner import Learner
from gobi.agents.ppo import PPO, Hyper
from gobi.agents.ppo.ppo import LEAST_ADVANTAGE, PPOState
from gobi.agents.ppo.return_scale import first_scale
from gobi.agents.registry import find

NUMBERS = {"discount": 0.9, "bonus_discount": 0.8, "gae_lambda": 0.7}
HYPER = Hyper(**NUMBERS)
RATE = 1e-3

act = jax.jit(lambda policy, *inputs: policy(*inputs))


@functools.partial(jax.jit, static_argnums=0)
def lesson(who, policy, rollout, hyper=HYPER, scale=None):
    """The batch that is made of a rollout."""
    state = PPOState((), scale or first_scale(ENVS))
    return who._batch(policy, state, rollout, hyper)[1]


@functools.partial(jax.jit, static_argnums=0)
def learned(who, policy, rollout, hyper=HYPER, rate=RATE, seed=0):
    key = jax.random.key(seed)
    return who.learn(policy, optimiser(policy), rollout, hyper, jnp.float32(rate), key, longest=100)


def beyond_by_hand(policy, played):
    """Values of what each step led to, by stepping the policy."""
    values, carry = [], played.carry
    for t in range(STEPS):
        _, _, carry = act(policy, played.observations[t], played.first[t], carry)
        values.append(act(policy, played.last_observations[t], jnp.zeros(ENVS, bool), carry)[1])
    return np.asarray(jnp.stack(values), np.float64)


def advantage_by_hand(rewards, values, ends, beyond, discount):
    """One environment at a time, from its last step to its first."""
    parts = np.zeros((STEPS, ENVS))
    for e in range(ENVS):
        later = 0.0
        for t in reversed(range(STEPS)):
            follows, later = (beyond[t, e], 0.0) if ends[t, e] else (values[t + 1, e], later)
            error = float(rewards[t, e]) + discount * follows - values[t, e]
            later = parts[t, e] = error + discount * NUMBERS["gae_lambda"] * later
    return parts


def values_of(policy, played):
    _, after, _ = act(policy, played.observations[-1], played.first[-1], played.next_carry)
    return np.concatenate([played.noted.values, after[None]]).astype(np.float64)


@pytest.mark.parametrize(
    ("timeouts", "bonus_ends", "core"),
    [
        ("terminal", False, "mingru"),
        ("terminal", True, "mingru"),
        ("bootstrap", False, "mingru"),
        ("bootstrap", True, "lstm"),
    ],
)
def test_advantages_and_targets_are_those_of_each_reward_with_its_own_discount_and_ends(
    timeouts, bonus_ends, core
):
    mine = policy(core)
    played = eqx.tree_at(lambda r: r.weights, rollout(mine, core), weights(5.0, 0.3))
    ours = lesson(learner(core=core, timeouts=timeouts, bonus_ends=bonus_ends), mine, played)
    values = values_of(mine, played)
    cut = np.asarray(played.truncated & ~played.terminated)[..., None] & (timeouts == "bootstrap")
    beyond = np.where(cut, beyond_by_hand(mine, played), 0.0)
    ends = np.asarray(played.done)
    task = advantage_by_hand(played.rewards, values[..., 0], ends, beyond[..., 0], 0.9)
    bonus = advantage_by_hand(played.bonus, values[..., 1], ends & bonus_ends, beyond[..., 1], 0.8)
    np.testing.assert_allclose(ours.advantages, 5 * task + 0.3 * bonus, rtol=1e-4, atol=1e-5)
    targets = np.stack([task, bonus], axis=-1) + values[:-1]
    np.testing.assert_allclose(ours.targets, targets, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(ours.log_taken, played.noted.log_taken)


def test_scaled_advantages_are_each_in_units_of_their_own_spread_before_they_are_weighted():
    mine = policy()
    played = eqx.tree_at(lambda r: r.weights, rollout(mine), weights(2.0, 0.3))
    ours = lesson(learner(scale_advantages=True), mine, played)
    values, ends, nothing = values_of(mine, played), np.asarray(played.done), np.zeros((STEPS, ENVS))
    task = advantage_by_hand(played.rewards, values[..., 0], ends, nothing, 0.9)
    bonus = advantage_by_hand(played.bonus, values[..., 1], ends & False, nothing, 0.8)
    expected = 2 * task / task.std() + 0.3 * bonus / bonus.std()
    np.testing.assert_allclose(ours.advantages, expected, rtol=1e-4, atol=1e-5)
    # Targets stay what they are worth.
    plain = lesson(learner(), mine, played)
    np.testing.assert_allclose(ours.targets, plain.targets, rtol=1e-6)


def test_advantages_that_hardly_differ_are_not_scaled_up_without_end():
    """No reward at all, and values near 0: what is left is noise."""
    mine = jax.tree.map(lambda leaf: 1e-4 * leaf, policy())
    played = eqx.tree_at(lambda r: (r.rewards, r.bonus), rollout(mine), replace_fn=jnp.zeros_like)
    ours = lesson(learner(scale_advantages=True), mine, played)
    plain = lesson(learner(), mine, played)
    np.testing.assert_allclose(ours.advantages, plain.advantages / LEAST_ADVANTAGE, rtol=1e-4)
    assert np.abs(ours.advantages).max() < 0.1


def test_large_task_rewards_are_scaled_down_and_small_ones_left_as_they_are():
    mine, played = policy(), rollout(policy())
    state = PPOState((), first_scale(ENVS), first_scale(ENVS, least=1.0))

    @jax.jit
    def batch_of(size):
        paid = eqx.tree_at(lambda r: r.rewards, played, size * played.rewards)
        return learner(scale_rewards=True)._batch(mine, state, paid, HYPER)

    (_, small, _), (kept, large, _), (_, larger, _) = map(batch_of, (0.01, 100.0, 10_000.0))
    plain = lesson(learner(), mine, eqx.tree_at(lambda r: r.rewards, played, 0.01 * played.rewards))
    np.testing.assert_allclose(small.targets, plain.targets, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(large.targets, larger.targets, rtol=1e-3, atol=1e-4)
    known, scaled = first_scale(ENVS).scaled(100 * played.rewards, played.done, HYPER.discount)
    np.testing.assert_allclose(kept.rewards.deviation, known.deviation, rtol=1e-5)
    assert float(jnp.abs(scaled).max()) < 10


def reached(who, change):
    """Where a change of the rollout changes the targets of the task and of the bonus."""
    played = rollout(policy())
    before, after = (np.asarray(lesson(who, policy(), r).targets) for r in (played, change(played)))
    return np.moveaxis(before != after, -1, 0)


def test_task_rewards_reach_back_to_the_start_of_their_episode_and_no_further():
    task, bonus = reached(learner(), lambda r: eqx.tree_at(lambda r: r.rewards, r, r.rewards.at[5:].add(1.0)))
    # Environment 0 was terminated at step 2, 1 and 2 truncated at 4, the others not at all.
    expected = np.ones((STEPS, ENVS), bool)
    expected[:3, 0] = expected[:5, 1:3] = False
    np.testing.assert_array_equal(task, expected)
    assert not bonus.any()


@pytest.mark.parametrize("bonus_ends", [False, True])
def test_the_bonus_reaches_back_over_ends_unless_it_ends_with_the_episode(bonus_ends):
    task, bonus = reached(
        learner(bonus_ends=bonus_ends), lambda r: eqx.tree_at(lambda r: r.bonus, r, r.bonus.at[5:].add(1.0))
    )
    expected = np.ones((STEPS, ENVS), bool)
    if bonus_ends:
        expected[:3, 0] = expected[:5, 1:3] = False
    np.testing.assert_array_equal(bonus, expected)
    assert not task.any()


@pytest.mark.parametrize("timeouts", ["terminal", "bootstrap"])
def test_the_last_observation_matters_only_where_the_episode_was_truncated(timeouts):
    task, _ = reached(
        learner(timeouts=timeouts),
        lambda r: eqx.tree_at(lambda r: r.last_observations, r, r.last_observations + 77),
    )
    expected = np.zeros((STEPS, ENVS), bool)
    if timeouts == "bootstrap":
        expected[3:5, 1] = expected[:5, 2] = True
    np.testing.assert_array_equal(task, expected)


def test_a_task_that_ended_as_its_time_ran_out_has_ended():
    mine = policy()
    played = rollout(mine)
    both = eqx.tree_at(lambda r: r.terminated, played, played.terminated | played.truncated)
    bootstrap, terminal = (lesson(learner(timeouts=t), mine, both) for t in ("bootstrap", "terminal"))
    np.testing.assert_array_equal(bootstrap.targets, terminal.targets)


def test_advantages_are_the_weighted_sum_of_both_but_targets_are_not_weighted():
    mine, who = policy(), learner()
    played = rollout(mine)

    def of(*pair):
        return lesson(who, mine, eqx.tree_at(lambda r: r.weights, played, weights(*pair)))

    task, bonus, both = of(1.0, 0.0), of(0.0, 1.0), of(5.0, -0.3)
    np.testing.assert_allclose(
        both.advantages, 5 * task.advantages - 0.3 * bonus.advantages, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(both.targets, task.targets)


def test_one_value_is_that_of_the_clipped_sum():
    mine = policy(values=1)
    played = eqx.tree_at(lambda r: r.weights, rollout(mine), weights(2.0, 0.5, 0.6))
    ours = lesson(learner(values="one"), mine, played)
    total = np.clip(2 * np.asarray(played.rewards) + 0.5 * np.asarray(played.bonus), -0.6, 0.6)
    values, ends = values_of(mine, played)[..., 0], np.asarray(played.done)
    expected = advantage_by_hand(total, values, ends, np.zeros((STEPS, ENVS)), 0.9)
    np.testing.assert_allclose(ours.advantages, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.targets[..., 0], expected + values[:-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("values", ["one", "two"])
def test_a_scaled_bonus_is_learned_alike_whatever_its_size(values):
    mine = policy(values=1 + (values == "two"))
    played, who = rollout(mine), learner(values=values, scale_bonus=True)
    large = eqx.tree_at(lambda r: r.bonus, played, 1000 * played.bonus)
    ours, theirs = (lesson(who, mine, r) for r in (played, large))
    np.testing.assert_allclose(ours.advantages, theirs.advantages, rtol=1e-3, atol=1e-4)
    plain = lesson(learner(values=values), mine, played)
    assert not np.allclose(ours.advantages, plain.advantages, rtol=1e-2)


def test_the_scale_of_the_bonus_is_kept_from_rollout_to_rollout():
    mine, who = policy(), learner(scale_bonus=True)
    played = rollout(mine)
    _, kept, told = learned(who, mine, played)
    scale, _ = first_scale(ENVS).scaled(played.bonus, jnp.zeros((STEPS, ENVS), bool), HYPER.bonus_discount)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), kept.scale, scale)
    np.testing.assert_allclose(told["bonus_scale"], scale.deviation, rtol=1e-5)


@pytest.mark.parametrize("core", ["mingru", "lstm"])
def test_the_first_step_on_a_rollout_finds_the_policy_where_it_acted(core):
    mine = policy(core)
    _, _, told = learned(learner(core=core), mine, rollout(mine, core))
    # All ratios are 1, and standardised advantages have no mean.
    assert abs(told["policy_loss"]) < 1e-5
    assert abs(told["kl"]) < 1e-6
    assert told["clipped"] == 0


def test_ratios_are_to_the_probabilities_that_were_noted():
    mine = policy()
    played = rollout(mine)
    further = noted(played.noted.log_taken - 0.5, played.noted.values)
    _, _, told = learned(learner(), mine, eqx.tree_at(lambda r: r.noted, played, further))
    np.testing.assert_allclose(told["kl"], np.exp(0.5) - 1.5, rtol=1e-3)
    assert told["clipped"] == 1
    assert abs(told["policy_loss"]) > 1e-2


def test_later_epochs_move_away_from_the_policy_that_acted():
    mine = policy()
    _, _, one = learned(learner(), mine, rollout(mine), rate=0.01)
    after, kept, several = learned(learner(epochs=4, minibatches=2), mine, rollout(mine), rate=0.01)
    assert several["kl"] > 10 * abs(one["kl"])
    assert kept.adam.count == 8
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), after, mine)
    assert all(far > 0.01 for far in jax.tree.leaves(moved))


@dataclasses.dataclass(frozen=True)
class Watched(PPO):
    """Tells besides how often each environment was learned from; each sees its own number."""

    def losses(self, policy, batch, hyper):
        loss, told = super().losses(policy, batch, hyper)
        seen = {
            f"env {e}": jnp.sum(batch.observations[0, :, 0] == e).astype(jnp.float32) for e in range(ENVS)
        }
        size = jnp.float32(batch.actions.shape[1])
        return loss, told | seen | {"size": size}


@pytest.mark.parametrize(("epochs", "minibatches"), [(1, 2), (1, 3), (3, 2)])
def test_every_environment_is_learned_from_once_in_each_epoch(epochs, minibatches):
    who = Watched(**vars(learner(epochs=epochs, minibatches=minibatches)))
    mine = policy()
    numbers = jnp.arange(ENVS, dtype=jnp.uint8)[None, :, None]
    played = rollout(mine)
    numbered = jnp.broadcast_to(numbers, played.observations.shape)
    _, _, told = learned(who, mine, eqx.tree_at(lambda r: r.observations, played, numbered))
    times = [float(told[f"env {e}"]) * epochs * minibatches for e in range(ENVS)]
    np.testing.assert_allclose(times, np.full(ENVS, epochs), rtol=1e-5)
    assert told["size"] == ENVS // minibatches


def test_who_is_in_which_minibatch_is_drawn_anew():
    mine, who = policy(), learner(minibatches=3)
    played = rollout(mine)
    first, again, other = (learned(who, mine, played, seed=seed)[0].heads.weight for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_some_environments_of_a_batch_keep_all_that_is_theirs():
    whole = batch(policy())
    some = whole.of(jnp.array([4, 1], jnp.int32))
    for name in ("observations", "first", "actions", "log_taken", "advantages", "targets"):
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[:, jnp.array([4, 1])])
    np.testing.assert_array_equal(some.carry.hidden, whole.carry.hidden[jnp.array([4, 1])])


def test_a_learning_rate_of_zero_moves_no_weight():
    mine = policy()
    after, _, told = learned(learner(epochs=2), mine, rollout(mine), rate=0.0)
    jax.tree.map(np.testing.assert_array_equal, after, mine)
    assert told["gradient_norm"] > 0


def test_a_sweep_is_a_vmap_axis():
    mine, who = policy(), learner()
    played = rollout(mine)
    costs, rates = jnp.array([0.0, 0.1]), jnp.array([1e-3, 1e-2])

    def at(cost, rate):
        return learned(who, mine, played, Hyper(**NUMBERS, entropy_cost=cost), rate)[0]

    together = jax.vmap(at)(costs, rates)
    for i in range(2):
        alone = at(costs[i], rates[i])
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-5), together, alone)


def test_half_precision_leaves_weights_and_moments_in_float32():
    mine = policy()
    after, kept, told = learned(learner(precision="bfloat16"), mine, rollout(mine))
    leaves = jax.tree.leaves((after, kept.adam.mu, kept.adam.nu, kept.scale, told))
    assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}


def test_what_it_logs_is_among_its_metrics():
    mine = policy()
    _, _, told = learned(learner(), mine, rollout(mine))
    assert set(learner().logs) <= told.keys()
    assert all(np.isfinite(number) for number in told.values())


def test_it_answers_the_contract_of_learners_and_is_known_by_its_name():
    assert isinstance(learner(), Learner)
    assert find("ppo").make is PPO
