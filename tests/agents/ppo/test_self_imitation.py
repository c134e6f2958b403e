"""Self-imitation: which rows are kept, what they returned, and what is learned of them."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ppo_cases import ENVS, SPEC, STEPS, batch, learner, policy, rollout

from gobi.agents.ppo import PPO, Hyper
from gobi.agents.ppo.ppo import ADAM, ENVS_PER_REPLAYED_ROW, PPOState
from gobi.agents.ppo.return_scale import first_scale
from gobi.agents.ppo.self_imitation import ImitationBuffer, empty_buffer, loss, returns_to_go
from gobi.errors import GobiError
from gobi.training.recipes import compact, recipe
from gobi.types import Spec

DISCOUNT = 0.9
HYPER = Hyper(discount=DISCOUNT, imitation_cost=0.5)
OFF = dataclasses.replace(HYPER, imitation_cost=jnp.float32(0))

add = jax.jit(lambda buffer, rollout: buffer.add(rollout, jnp.float32(DISCOUNT)))


def buffer(rows=8) -> ImitationBuffer:
    return empty_buffer(rows, STEPS, SPEC, policy().initial(rows))


def paid(where: dict[tuple[int, int], float], seed=0):
    """A rollout in which only these steps of these environments earn something."""
    rewards = np.zeros((STEPS, ENVS), np.float32)
    for place, reward in where.items():
        rewards[place] = reward
    return eqx.tree_at(lambda r: r.rewards, rollout(policy(), seed=seed), jnp.asarray(rewards))


def returns_by_hand(rewards, done):
    """Each step's sum over what follows, until its episode or the rollout ends."""
    returns = np.zeros(rewards.shape)
    for t in range(len(rewards)):
        for e in range(rewards.shape[1]):
            for later in range(t, len(rewards)):
                returns[t, e] += DISCOUNT ** (later - t) * rewards[later, e]
                if done[later, e]:
                    break
    return returns


def test_returns_end_with_the_episode_and_with_the_rollout():
    played = rollout(policy())
    expected = returns_by_hand(np.asarray(played.rewards, np.float64), np.asarray(played.done))
    ours = returns_to_go(played.rewards, played.done, jnp.float32(DISCOUNT))
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_rows_that_earned_something_are_kept_whole_and_no_others():
    played = paid({(3, 1): 1.0, (2, 4): 0.5, (6, 4): 0.5, (0, 5): -1.0})
    kept = add(buffer(), played)
    assert kept.count == 2
    for row, env in enumerate((1, 4)):
        np.testing.assert_array_equal(kept.observations[row], played.observations[:-1, env])
        np.testing.assert_array_equal(kept.first[row], played.first[:-1, env])
        np.testing.assert_array_equal(kept.actions[row], played.actions[:, env])
        np.testing.assert_array_equal(kept.carry.hidden[row], played.carry.hidden[env])
        expected = returns_by_hand(np.asarray(played.rewards), np.asarray(played.done))[:, env]
        np.testing.assert_allclose(kept.returns[row], expected, rtol=1e-5)
    assert not np.asarray(kept.returns[2:]).any()


def test_a_rollout_without_rewards_changes_nothing():
    before = add(buffer(), paid({(3, 1): 1.0}))
    jax.tree.map(np.testing.assert_array_equal, add(before, paid({}, seed=1)), before)


def test_the_newest_rows_take_the_place_of_the_oldest():
    kept = buffer(rows=ENVS)
    for number in range(1, 6):
        kept = add(kept, paid({(STEPS - 1, 0): float(number), (STEPS - 1, 3): number + 0.5}, seed=number))
    assert kept.count == 10
    # Rows are written round and round: 7 to 10 took the places of 1 to 4.
    np.testing.assert_allclose(kept.returns[:, -1], [4.0, 4.5, 5.0, 5.5, 3.0, 3.5], rtol=1e-6)


def test_rows_are_drawn_from_all_that_there_are_and_from_nowhere_else():
    key = jax.random.key(0)
    assert set(np.asarray(buffer().sample(key, (50,)))) == {0}
    kept = add(buffer(), paid({(1, 0): 1.0, (1, 2): 1.0, (1, 3): 1.0}))
    assert set(np.asarray(kept.sample(key, (200,)))) == {0, 1, 2}
    full = add(add(kept, paid({(1, e): 1.0 for e in range(ENVS)})), paid({(2, 0): 1.0}))
    assert set(np.asarray(full.sample(key, (400,)))) == set(range(8))


def test_the_loss_is_that_of_numpy():
    mine = policy()
    kept = add(buffer(), paid({(5, 1): 1.0, (2, 0): 2.0, (6, 4): 0.1}))
    rows = kept.rows(jnp.array([2, 0, 1], jnp.int32))
    observations, first = jnp.swapaxes(rows.observations, 0, 1), rows.first.T
    outputs, values, _ = jax.jit(lambda *inputs: mine.unroll(*inputs))(observations, first, rows.carry)
    ours, advantage = jax.jit(loss)(outputs, values[..., 0], rows)
    chances = np.exp(np.asarray(jax.nn.log_softmax(outputs), np.float64))
    sums, gains = [], []
    for r in range(3):
        for t in range(STEPS):
            if rows.returns[r, t] > 0:
                gain = max(float(rows.returns[r, t]) - float(values[t, r, 0]), 0.0)
                gains.append(gain)
                sums.append(-np.log(chances[t, r, int(rows.actions[r, t])]) * gain)
    assert 0 < sum(gain == 0 for gain in gains) < len(gains) < 3 * STEPS
    np.testing.assert_allclose(ours, np.mean(sums), rtol=1e-4)
    np.testing.assert_allclose(advantage, np.mean(gains), rtol=1e-4)


def test_values_learn_nothing_from_what_is_replayed():
    rows = add(buffer(), paid({(5, 1): 1.0})).rows(jnp.zeros(1, jnp.int32))
    outputs, values = jnp.zeros((STEPS, 1, 4)), jnp.zeros((STEPS, 1))
    to_outputs, to_values = jax.grad(lambda o, v: loss(o, v, rows)[0], argnums=(0, 1))(outputs, values)
    assert np.abs(to_outputs).max() > 0.01
    np.testing.assert_array_equal(to_values, np.zeros((STEPS, 1)))


def losses(batch, hyper, *rows):
    return jax.jit(lambda policy: learner().losses(policy, batch, hyper, *rows))(policy())


def test_with_a_replayed_row_all_other_losses_are_as_without():
    lesson, rows = batch(policy()), add(buffer(), paid({(5, 1): 1.0})).rows(jnp.zeros(2, jnp.int32))
    plain, told = losses(lesson, HYPER)
    whole, more = losses(lesson, HYPER, rows)
    off, _ = losses(lesson, OFF, rows)
    for name in told.keys() - {"loss"}:
        np.testing.assert_allclose(more[name], told[name], rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(off, plain, rtol=1e-5)
    assert abs(whole - plain) > 1e-3
    assert more["imitation_advantage"] > 0


def test_what_is_replayed_goes_through_the_policy_from_its_own_carry_and_meets_the_tasks_value():
    mine, lesson = policy(), batch(policy())
    played = rollout(mine)
    some = eqx.tree_at(lambda r: r.carry, played, jax.tree.map(lambda part: part + 0.5, played.carry))
    kept = add(buffer(), eqx.tree_at(lambda r: r.rewards, some, jnp.ones((STEPS, ENVS))))
    rows = kept.rows(jnp.array([4, 0, 2], jnp.int32))
    outputs, values, _ = mine.unroll(jnp.swapaxes(rows.observations, 0, 1), rows.first.T, rows.carry)
    expected, advantage = loss(outputs, values[..., 0], rows)
    plain, _ = losses(lesson, HYPER)
    whole, told = losses(lesson, HYPER, rows)
    np.testing.assert_allclose(whole - plain, 0.5 * expected, rtol=1e-4)
    np.testing.assert_allclose(told["imitation_advantage"], advantage, rtol=1e-4)
    # With another carry, or the bonus's value, it would be told apart.
    blank = jax.tree.map(jnp.zeros_like, rows.carry)
    elsewhere = mine.unroll(jnp.swapaxes(rows.observations, 0, 1), rows.first.T, blank)
    for other in (loss(elsewhere[0], elsewhere[1][..., 0], rows), loss(outputs, values[..., 1], rows)):
        assert abs(other[0] - expected) > 1e-3


def learned(who, hyper, played, state):
    rate = jnp.float32(1e-2)
    learn = jax.jit(lambda policy, state: who.learn(policy, state, played, hyper, rate, KEY, longest=100))
    return learn(policy(), state)


KEY = jax.random.key(3)


def first_state(rows=8):
    return PPOState(ADAM.init(policy()), first_scale(ENVS), None, buffer(rows))


def test_an_update_keeps_its_own_rollout_and_is_pulled_towards_it():
    who = learner(epochs=4, imitation_rows=8, unroll=STEPS)
    played = paid({(6, 3): 1.0})

    def taken(policy):
        logits = policy.unroll(played.observations[:-1], played.first[:-1], played.carry)[0]
        chances = jax.nn.log_softmax(logits)
        return float(jnp.take_along_axis(chances, played.actions[..., None], -1)[:, 3].sum())

    strong = dataclasses.replace(HYPER, imitation_cost=jnp.float32(20))
    after, state, told = learned(who, strong, played, first_state())
    without, _, _ = learned(who, OFF, played, first_state())
    assert state.imitation.count == 1
    assert told["imitation_advantage"] > 0
    assert taken(after) > taken(without) + 0.3
    assert "imitation_advantage" in who.logs
    assert "imitation_advantage" not in learner().logs


def test_before_anything_was_earned_it_learns_as_without():
    with_rows = learner(imitation_rows=8, unroll=STEPS)
    played = paid({})
    ours, state, told = learned(with_rows, HYPER, played, first_state())
    plain, _, _ = learned(learner(), HYPER, played, PPOState(ADAM.init(policy()), first_scale(ENVS)))
    assert state.imitation.count == 0
    assert told["imitation_advantage"] == 0
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), ours, plain)


def test_without_the_tasks_reward_nothing_is_imitated():
    who = learner(imitation_rows=8, unroll=STEPS)
    free = eqx.tree_at(lambda r: r.weights.extrinsic, paid({(6, 3): 1.0}), jnp.float32(0))
    ours, _, _ = learned(who, HYPER, free, first_state())
    plain, _, _ = learned(who, OFF, free, first_state())
    jax.tree.map(np.testing.assert_array_equal, ours, plain)


def test_a_rollout_in_which_all_earn_something_fills_the_buffer_and_wraps():
    kept = add(buffer(rows=8), paid({(2, 0): 1.0, (2, 1): 1.0, (2, 2): 1.0}))
    everybody = paid({(STEPS - 1, e): e + 2.0 for e in range(ENVS)}, seed=1)
    after = add(kept, everybody)
    assert after.count == 3 + ENVS
    where = [(3 + e) % 8 for e in range(ENVS)]
    np.testing.assert_allclose(after.returns[jnp.array(where), -1], np.arange(ENVS) + 2.0, rtol=1e-6)
    for env, row in enumerate(where):
        np.testing.assert_array_equal(after.observations[row], everybody.observations[:-1, env])


def test_scaled_rewards_are_kept_in_the_units_of_the_value():
    who = learner(scale_rewards=True, imitation_rows=8, unroll=STEPS)
    state = dataclasses.replace(first_state(), rewards=first_scale(ENVS, least=1.0))
    played = paid({(6, e): 500.0 for e in range(ENVS)})
    _, after, _ = learned(who, HYPER, played, state)
    assert 0 < after.imitation.returns.max() < 50


def test_actions_of_any_kind_are_kept():
    box = Spec("Box", (3,), "float32", num_actions=0, action_size=2, max_steps=100)
    assert empty_buffer(4, STEPS, box, ()).actions.shape == (4, STEPS, 2)
    assert empty_buffer(4, STEPS, SPEC, ()).actions.dtype == jnp.int32


@dataclasses.dataclass(frozen=True)
class Watched(PPO):
    """Tells besides how many rows are replayed in a gradient step."""

    def losses(self, policy, batch, hyper, replayed):
        loss, told = super().losses(policy, batch, hyper, replayed)
        return loss, told | {"replayed": jnp.float32(len(replayed.first))}


@pytest.mark.parametrize(("envs", "rows"), [(ENVS, 1), (2 * ENVS, 3)])
def test_one_row_is_replayed_beside_every_few_environments(envs, rows):
    played = paid({(5, 1): 1.0})
    twice = eqx.tree_at(
        lambda r: (r.carry, r.next_carry),
        jax.tree.map(
            lambda part: jnp.concatenate([part] * (envs // ENVS), axis=1) if part.ndim > 1 else part, played
        ),
        jax.tree.map(
            lambda part: jnp.concatenate([part] * (envs // ENVS)), (played.carry, played.next_carry)
        ),
    )
    state = dataclasses.replace(first_state(rows=16), scale=first_scale(envs))
    who = Watched(**vars(learner(imitation_rows=16, unroll=STEPS)))
    _, _, told = learned(who, HYPER, twice, state)
    assert told["replayed"] == rows == max(1, envs // ENVS_PER_REPLAYED_ROW)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"imitation_rows": 8}, "imitation_rows=8 .* num_envs=16"),
        ({"imitation_rows": -1}, "imitation_rows"),
        ({"imitation_cost": -0.1}, "imitation_cost"),
        ({"values": "one", "imitation_rows": 64}, "imitation_rows .*values=two"),
        ({"learner": "impala", "imitation_rows": 64}, "imitation_rows .* impala"),
    ],
)
def test_what_cannot_be_imitated_is_refused_in_one_line(changes, says):
    with pytest.raises(GobiError, match=says) as refusal:
        compact(recipe("KeyCorridorS3R3"), **changes)
    assert "\n" not in str(refusal.value)


def test_room_grows_with_the_environments_and_one_value_needs_none():
    assert recipe("KeyCorridorS3R3").imitation_rows == 256
    assert recipe("KeyCorridorS3R3", num_envs=512).imitation_rows == 512
    assert compact(recipe("KeyCorridorS3R3"), values="one").imitation_rows == 0
    assert compact(recipe("KeyCorridorS3R3"), extrinsic=0.0).imitation_rows == 0
