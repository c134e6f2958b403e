"""One update: the loss against numpy, time-outs, sweeps, seeds and precision."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.impala import Hyper, Timeouts, Unroll, init_optimiser, learn, learner
from gobi.agents.networks.grid import compact
from gobi.types import Spec

SPEC = Spec("Small", (3,), "uint8", num_actions=4, max_steps=100)
STEPS, ENVS = 6, 5
RATE = 1e-3

update = jax.jit(learn, static_argnames="compute_dtype")
losses = jax.jit(learner.losses)
made = jax.jit(lambda key: compact(SPEC, key, units=12))
act = jax.jit(lambda policy, *inputs: policy(*inputs))
unrolled = jax.jit(lambda policy, *inputs: policy.unroll(*inputs))


@functools.cache
def policy():
    return made(jax.random.key(0))


@functools.cache
def unroll(seed=0):
    keys = jax.random.split(jax.random.key(seed), 6)
    first = jax.random.bernoulli(keys[0], 0.2, (STEPS + 1, ENVS))
    return Unroll(
        observations=jax.random.randint(keys[1], (STEPS + 1, ENVS, 3), 0, 9).astype(jnp.uint8),
        first=first,
        actions=jax.random.randint(keys[2], (STEPS, ENVS), 0, 4),
        logits=jax.random.normal(keys[3], (STEPS, ENVS, 4)),
        rewards=jax.random.normal(keys[4], (STEPS, ENVS)),
        terminal=first[1:],
        carry=jax.tree.map(lambda array: array + 0.3, policy().initial(ENVS)),
    )


def timeouts(truncated, most=STEPS):
    last = jax.random.randint(jax.random.key(9), (STEPS, ENVS, 3), 0, 9).astype(jnp.uint8)
    return Timeouts(jnp.asarray(truncated), last, most)


def by_hand(batch, discount=0.99, entropy_cost=0.0005, value_cost=0.5):
    """The loss in numpy, one environment and one step at a time."""
    logits, values, _ = unrolled(policy(), batch.observations, batch.first, batch.carry)
    logits, values = np.asarray(logits, np.float64), np.asarray(values, np.float64)

    def log_softmax(x):
        return x - np.log(np.sum(np.exp(x)))

    total = 0.0
    for e in range(ENVS):
        target = values[STEPS, e]
        for t in reversed(range(STEPS)):
            log_policy = log_softmax(logits[t, e])
            action = int(batch.actions[t, e])
            rho = min(
                1.0, np.exp(log_policy - log_softmax(np.asarray(batch.logits[t, e], np.float64)))[action]
            )
            gamma = 0.0 if batch.terminal[t, e] else discount
            reward, value = float(batch.rewards[t, e]), values[t, e]
            advantage = rho * (reward + gamma * target - value)
            delta = rho * (reward + gamma * values[t + 1, e] - value)
            target = value + delta + gamma * rho * (target - values[t + 1, e])
            total += -advantage * log_policy[action] + value_cost * 0.5 * (target - value) ** 2
            total += entropy_cost * np.sum(np.exp(log_policy) * log_policy)
    return total / ENVS


@pytest.mark.parametrize("numbers", [{}, {"discount": 0.8, "entropy_cost": 0.1, "value_cost": 2.0}])
def test_the_loss_is_summed_over_time_and_averaged_over_environments(numbers):
    loss, metrics = losses(policy(), unroll(), Hyper(**numbers))
    np.testing.assert_allclose(loss, by_hand(unroll(), **numbers), rtol=1e-4)
    assert metrics["loss"] == loss


def test_metrics_are_per_step_where_they_say_so():
    _, metrics = losses(policy(), unroll(), Hyper())
    logits, values, _ = unrolled(policy(), unroll().observations, unroll().first, unroll().carry)
    chances = jax.nn.softmax(logits[:-1])
    np.testing.assert_allclose(
        metrics["entropy"], -jnp.sum(chances * jnp.log(chances)) / (STEPS * ENVS), rtol=1e-4
    )
    np.testing.assert_allclose(metrics["value"], values[:-1].mean(), rtol=1e-4, atol=1e-6)
    squared = metrics["value_error"] ** 2
    np.testing.assert_allclose(metrics["value_loss"], 0.5 * squared * STEPS, rtol=1e-4)


def test_a_policy_that_acted_itself_is_on_its_policy():
    logits, _, _ = unrolled(policy(), unroll().observations, unroll().first, unroll().carry)
    own = eqx.tree_at(lambda u: u.logits, unroll(), logits[:-1])
    _, metrics = losses(policy(), own, Hyper())
    assert metrics["off_policy"] < 1e-5 < losses(policy(), unroll(), Hyper())[1]["off_policy"]


def test_time_outs_add_the_discounted_value_of_what_would_have_followed():
    """The last observation is valued one step on from the carry there, by stepping the policy by hand."""
    batch = unroll()
    truncated = np.zeros((STEPS, ENVS), bool)
    truncated[[1, 4, 5], [0, 0, 3]] = True
    cut = timeouts(truncated)
    rewards, carry = np.array(batch.rewards), batch.carry
    for t in range(STEPS):
        _, _, carry = act(policy(), batch.observations[t], batch.first[t], carry)
        _, values, _ = act(policy(), cut.last_observations[t], jnp.zeros(ENVS, bool), carry)
        rewards[t] += np.where(truncated[t], 0.9 * np.asarray(values), 0.0)
    expected, _ = losses(
        policy(), eqx.tree_at(lambda u: u.rewards, batch, jnp.asarray(rewards)), Hyper(discount=0.9)
    )
    loss, _ = losses(policy(), batch, Hyper(discount=0.9), timeouts=cut)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert not np.isclose(loss, losses(policy(), batch, Hyper(discount=0.9))[0], rtol=1e-4)


def test_no_time_outs_change_nothing():
    plain = update(policy(), init_optimiser(policy()), unroll(), Hyper(), RATE)
    none = timeouts(np.zeros((STEPS, ENVS), bool), most=1)
    with_none = update(policy(), init_optimiser(policy()), unroll(), Hyper(), RATE, timeouts=none)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), plain, with_none)


def test_valuing_only_as_many_time_outs_as_can_be_is_valuing_all():
    truncated = np.zeros((STEPS, ENVS), bool)
    truncated[[0, 2, 5, 1, 4], [0, 1, 2, 4, 4]] = True
    few, _ = losses(policy(), unroll(), Hyper(), timeouts=timeouts(truncated, most=2))
    every, _ = losses(policy(), unroll(), Hyper(), timeouts=timeouts(truncated, most=100))
    np.testing.assert_allclose(few, every, rtol=1e-5)


def test_no_gradient_flows_through_the_value_at_a_time_out():
    batch, cut = unroll(), timeouts(np.ones((STEPS, ENVS), bool))
    _, _, carries = unrolled(policy(), batch.observations, batch.first, batch.carry)
    rows = jax.tree.map(lambda array: array[:STEPS].reshape(STEPS * ENVS, -1), carries)
    _, values, _ = act(policy(), cut.last_observations.reshape(-1, 3), jnp.zeros(STEPS * ENVS, bool), rows)
    rewards = batch.rewards + 0.99 * values.reshape(STEPS, ENVS)
    fixed = eqx.tree_at(lambda u: u.rewards, batch, rewards)
    gradient = jax.jit(jax.grad(lambda *inputs, **more: learner.losses(*inputs, **more)[0]))
    ours = gradient(policy(), batch, Hyper(), timeouts=cut)
    constant = gradient(policy(), fixed, Hyper())
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), ours, constant)


def test_updates_on_one_batch_lower_its_value_loss():
    running, opt_state = policy(), init_optimiser(policy())
    seen = []
    for _ in range(30):
        running, opt_state, metrics = update(running, opt_state, unroll(), Hyper(), RATE)
        seen.append(float(metrics["value_loss"]))
    assert seen[-1] < 0.7 * seen[0]


def test_a_learning_rate_of_zero_moves_no_weight():
    after, opt_state, metrics = update(policy(), init_optimiser(policy()), unroll(), Hyper(), 0.0)
    jax.tree.map(np.testing.assert_array_equal, after, policy())
    assert metrics["gradient_norm"] > 0
    assert any(np.any(leaf > 0) for leaf in jax.tree.leaves(opt_state))


def test_gradients_are_clipped_after_their_norm_is_logged():
    states = {}
    for bound in (1e6, 0.1):
        _, states[bound], metrics = update(
            policy(), init_optimiser(policy()), unroll(), Hyper(max_grad_norm=bound), RATE
        )
        size = float(metrics["gradient_norm"])
        assert size > 1.0
    total = {bound: sum(leaf.sum() for leaf in jax.tree.leaves(state)) for bound, state in states.items()}
    np.testing.assert_allclose(total[1e6], 0.01 * size**2, rtol=1e-3)
    np.testing.assert_allclose(total[0.1], 0.01 * 0.1**2, rtol=1e-3)


def test_a_sweep_is_a_vmap_axis():
    costs, rates = jnp.array([0.0, 0.1, 1.0]), jnp.array([1e-3, 1e-4, 1e-2])
    opt_state = init_optimiser(policy())
    swept, _, metrics = jax.vmap(
        lambda c, r: update(policy(), opt_state, unroll(), Hyper(entropy_cost=c), r)
    )(costs, rates)
    for i in range(3):
        alone, _, one = update(policy(), opt_state, unroll(), Hyper(entropy_cost=costs[i]), rates[i])
        jax.tree.map(
            lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-3, atol=1e-5), swept, alone
        )
        np.testing.assert_allclose(metrics["loss"][i], one["loss"], rtol=1e-5)


def test_seeds_are_a_vmap_axis():
    keys = jax.random.split(jax.random.key(4), 2)
    policies = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(made, keys))
    unrolls = jax.tree.map(lambda *leaves: jnp.stack(leaves), unroll(1), unroll(2))
    step = jax.vmap(lambda p, o, u: update(p, o, u, Hyper(), RATE))
    together, _, _ = step(policies, jax.vmap(init_optimiser)(policies), unrolls)
    for i in range(2):
        alone = made(keys[i])
        after, _, _ = update(alone, init_optimiser(alone), unroll(1 + i), Hyper(), RATE)
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, atol=1e-5), together, after)


def test_half_precision_products_leave_weights_in_float32():
    opt_state = init_optimiser(policy())
    half, half_state, metrics = update(
        policy(), opt_state, unroll(), Hyper(), RATE, compute_dtype=jnp.bfloat16
    )
    dtypes = {leaf.dtype for leaf in jax.tree.leaves((half, half_state, metrics))}
    assert dtypes == {jnp.dtype("float32")}
    _, _, whole = update(policy(), opt_state, unroll(), Hyper(), RATE)
    for name, value in whole.items():
        np.testing.assert_allclose(metrics[name], value, rtol=0.05, atol=0.05, err_msg=name)


def test_hyper_holds_the_numbers_of_the_public_code_as_arrays():
    numbers = {name: float(value) for name, value in vars(Hyper()).items()}
    expected = {"discount": 0.99, "entropy_cost": 0.0005, "value_cost": 0.5, "max_grad_norm": 40.0}
    assert numbers == pytest.approx(expected | {"clip_rho": 1.0, "clip_c": 1.0})
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(Hyper()))
