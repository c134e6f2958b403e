"""One IMPALA update: V-trace losses on a batch of unrolls, and a step of the optimiser."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float32, Integer, UInt8

from gobi.agents.impala import optimiser
from gobi.agents.impala.networks import Carry, Policy
from gobi.agents.impala.vtrace import VTrace, vtrace

Metrics = dict[str, Float32[Array, ""]]


def _float32(value) -> Array:
    return jnp.asarray(value, jnp.float32)


class Hyper(eqx.Module):
    """The numbers of the learner, as arrays: a sweep is a vmap axis, and a new value does not compile again.

    discount:       of future rewards.
    entropy_cost:   weight of the entropy in the loss.
    value_cost:     weight of the value loss.
    max_grad_norm:  gradients are scaled down to this norm.
    clip_rho:       bound of the importance ratios in V-trace's errors and policy gradient.
    clip_c:         bound of the ratios that carry errors back in time.
    """

    discount: Float32[Array, "*sweep"] = eqx.field(default=0.99, converter=_float32)
    entropy_cost: Float32[Array, "*sweep"] = eqx.field(default=0.0005, converter=_float32)
    value_cost: Float32[Array, "*sweep"] = eqx.field(default=0.5, converter=_float32)
    max_grad_norm: Float32[Array, "*sweep"] = eqx.field(default=40.0, converter=_float32)
    clip_rho: Float32[Array, "*sweep"] = eqx.field(default=1.0, converter=_float32)
    clip_c: Float32[Array, "*sweep"] = eqx.field(default=1.0, converter=_float32)


class Unroll(eqx.Module):
    """What the actors did in `steps` steps; `states` is one more than `steps`.

    observations:  what was acted on, and last what the next unroll will act on.
    first:         whether an episode begins with that observation.
    actions:       what was done.
    logits:        of the policy that chose it.
    rewards:       what the step earned, bonus and clipping included.
    terminal:      nothing after this step counts for it: its discount is 0.
    carry:         what the policy remembered before the first observation.
    """

    observations: UInt8[Array, "states envs *shape"]
    first: Bool[Array, "states envs"]
    actions: Integer[Array, "steps envs"]
    logits: Float32[Array, "steps envs actions"]
    rewards: Float32[Array, "steps envs"]
    terminal: Bool[Array, "steps envs"]
    carry: Carry


class Timeouts(eqx.Module):
    """Where episodes ran out of steps, so that what would have followed can be valued.

    truncated:          the episode was cut off here, not ended by the task.
    last_observations:  what each step led to; read at truncated steps only.
    most:               how often one environment can be truncated in the unroll. An episode of n steps is not
                        truncated sooner, so ceil(steps / n) is enough, and saves valuing every step.
    """

    truncated: Bool[Array, "steps envs"]
    last_observations: UInt8[Array, "steps envs *shape"]
    most: int = eqx.field(static=True)


def learn(
    policy: Policy,
    opt_state: optimiser.RMSProp,
    unroll: Unroll,
    hyper: Hyper,
    learning_rate: float | Float32[Array, ""],
    compute_dtype: DTypeLike = jnp.float32,
    timeouts: Timeouts | None = None,
) -> tuple[Policy, optimiser.RMSProp, Metrics]:
    """One update on one batch of unrolls.

    Weights and optimiser stay float32; with `compute_dtype` bfloat16, products are taken in it. With
    `timeouts`, a truncated step's reward has the discounted value of its last observation added; such a step
    should be terminal in `unroll`. Metrics are those of `losses`, and `gradient_norm`, before clipping.
    """
    (_, metrics), gradients = jax.value_and_grad(losses, has_aux=True)(
        policy, unroll, hyper, compute_dtype, timeouts
    )
    size = optimiser.norm(gradients)
    gradients = optimiser.clip(gradients, size, hyper.max_grad_norm)
    policy, opt_state = optimiser.step(policy, gradients, opt_state, learning_rate)
    return policy, opt_state, metrics | {"gradient_norm": size}


def losses(
    policy: Policy,
    unroll: Unroll,
    hyper: Hyper,
    compute_dtype: DTypeLike = jnp.float32,
    timeouts: Timeouts | None = None,
) -> tuple[Float32[Array, ""], Metrics]:
    """The loss to minimise, summed over time and averaged over environments, and what to log of it.

    policy_loss   -sum advantage * log probability of the action taken
    value_loss    0.5 * sum (target - value)^2
    entropy       mean per step, in nats
    value_error   root of the mean squared difference of target and value
    value         mean value
    off_policy    mean of |ratio - 1|: how far the acting policy was from the learning one
    """
    policy = jax.tree.map(lambda leaf: leaf.astype(compute_dtype), policy)
    logits, values, carries = policy.unroll(unroll.observations, unroll.first, unroll.carry)
    log_policy = jax.nn.log_softmax(logits[:-1])
    log_taken = _of(unroll.actions, log_policy)
    log_rhos = jax.lax.stop_gradient(log_taken) - _of(unroll.actions, jax.nn.log_softmax(unroll.logits))
    rewards = unroll.rewards
    if timeouts is not None:
        rewards = rewards + hyper.discount * _values_at_timeouts(policy, carries, timeouts)

    trace = _vtrace(jax.lax.stop_gradient(values), rewards, unroll.terminal, log_rhos, hyper)
    errors = trace.targets - values[:-1]
    entropies = -jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)
    policy_loss = -_per_unroll(trace.advantages * log_taken)
    value_loss = 0.5 * _per_unroll(jnp.square(errors))
    loss = policy_loss + hyper.value_cost * value_loss - hyper.entropy_cost * _per_unroll(entropies)
    return loss, {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": jnp.mean(entropies),
        "value_error": jnp.sqrt(jnp.mean(jnp.square(errors))),
        "value": jnp.mean(values[:-1]),
        "off_policy": jnp.mean(jnp.abs(jnp.expm1(log_rhos))),
    }


def _vtrace(values, rewards, terminal, log_rhos, hyper: Hyper) -> VTrace:
    """V-trace of every environment; values has one step more than the rest."""
    discounts = jnp.where(terminal, 0.0, hyper.discount)

    def one(values, rewards, discounts, log_rhos):
        return vtrace(
            values[:-1],
            values[-1],
            rewards,
            discounts,
            log_rhos,
            clip_rho=hyper.clip_rho,
            clip_c=hyper.clip_c,
            clip_pg_rho=hyper.clip_rho,
        )

    return jax.vmap(one, in_axes=1, out_axes=1)(values, rewards, discounts, log_rhos)


def _values_at_timeouts(policy: Policy, carries: Carry, timeouts: Timeouts) -> Float32[Array, "steps envs"]:
    """V of the last observation at truncated steps, one step on from the carry there; 0 elsewhere."""
    steps, envs = timeouts.truncated.shape
    most = min(timeouts.most, steps)
    # The truncated steps of each environment come first in a stable order, the earliest of them first.
    when = jnp.argsort(~timeouts.truncated, axis=0, stable=True)[:most]
    lane = jnp.broadcast_to(jnp.arange(envs), when.shape)

    def rows(array):
        return array[when, lane].reshape(most * envs, *array.shape[2:])

    _, values, _ = policy(
        rows(timeouts.last_observations), jnp.zeros(most * envs, bool), jax.tree.map(rows, carries)
    )
    values = jnp.where(timeouts.truncated[when, lane], values.reshape(most, envs), 0.0)
    return jax.lax.stop_gradient(jnp.zeros((steps, envs)).at[when, lane].set(values))


def _of(actions, log_policy):
    return jnp.take_along_axis(log_policy, actions[..., None], axis=-1)[..., 0]


def _per_unroll(terms: Float32[Array, "steps envs"]) -> Float32[Array, ""]:
    """Summed over time, averaged over environments."""
    return jnp.mean(jnp.sum(terms, axis=0))
