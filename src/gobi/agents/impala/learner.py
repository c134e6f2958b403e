"""One IMPALA update: V-trace losses on a batch of unrolls, and steps of the optimiser."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float32, Integer, Num, PyTree

from gobi.agents import distributions
from gobi.agents.impala import optimiser
from gobi.agents.impala.vtrace import VTrace, vtrace
from gobi.agents.value_scale import ValueScale, rescaled

Metrics = dict[str, Float32[Array, ""]]

LEAST_SPREAD = 1e-3
"""Advantages that differ by less are not scaled up any further: there is nothing to learn from them."""


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
    logits:        of the policy that chose it; of a Gaussian one its outputs (see `distributions`).
    rewards:       what the step earned, bonus and clipping included.
    terminal:      nothing after this step counts for it: its discount is 0.
    carry:         what the policy remembered before the first observation.
    """

    observations: Num[Array, "states envs *shape"]
    first: Bool[Array, "states envs"]
    actions: Integer[Array, "steps envs"] | Float32[Array, "steps envs size"]
    logits: Float32[Array, "steps envs outputs"]
    rewards: Float32[Array, "steps envs"]
    terminal: Bool[Array, "steps envs"]
    carry: PyTree


class Timeouts(eqx.Module):
    """Where episodes ran out of steps, so that what would have followed can be valued.

    truncated:          the episode was cut off here, not ended by the task.
    last_observations:  what each step led to; read at truncated steps only.
    most:               how often one environment can be truncated in the unroll. An episode of n steps is not
                        truncated sooner, so ceil(steps / n) is enough, and saves valuing every step.
    """

    truncated: Bool[Array, "steps envs"]
    last_observations: Num[Array, "steps envs *shape"]
    most: int = eqx.field(static=True)


class ScaledRMSProp(optimiser.RMSProp):
    """The optimiser's state, and the scale of the policy's values: they are in units of it."""

    scale: ValueScale


def learn(
    policy: Any,
    opt_state: optimiser.RMSProp,
    unroll: Unroll,
    hyper: Hyper,
    learning_rate: float | Float32[Array, ""],
    compute_dtype: DTypeLike = jnp.float32,
    timeouts: Timeouts | None = None,
    passes: int = 1,
    standardise: bool = False,
) -> tuple[Any, optimiser.RMSProp, Metrics]:
    """One update on one batch of unrolls.

    Weights and optimiser stay float32; with `compute_dtype` bfloat16, products are taken in it. With
    `timeouts`, a truncated step's reward has the discounted value of its last observation added; such a step
    should be terminal in `unroll`. With a `ScaledRMSProp`, values are in units of its scale, which moves with
    the unroll's targets. Metrics are those of `losses`, and `gradient_norm`, before clipping; means over the
    passes.

    passes:       gradient steps; V-trace corrects for the policy moving on between them.
    standardise:  as `losses` has it.
    """
    scale = opt_state.scale if isinstance(opt_state, ScaledRMSProp) else None
    if passes > 1 or scale is not None:
        policy, scale, unroll = _before_passes(policy, scale, unroll, hyper, compute_dtype, timeouts)
        timeouts = None

    def step(state: tuple[Any, optimiser.RMSProp], _: None):
        policy, squares = state
        (_, metrics), gradients = jax.value_and_grad(losses, has_aux=True)(
            policy, unroll, hyper, compute_dtype, timeouts, scale, standardise
        )
        size = optimiser.norm(gradients)
        gradients = optimiser.clip(gradients, size, hyper.max_grad_norm)
        return optimiser.step(policy, gradients, squares, learning_rate), metrics | {"gradient_norm": size}

    state = policy, optimiser.RMSProp(opt_state.squares)
    if passes == 1:
        (policy, squares), metrics = step(state, None)
    else:
        (policy, squares), series = jax.lax.scan(step, state, length=passes)
        metrics = {name: jnp.mean(values) for name, values in series.items()}
    return policy, squares if scale is None else ScaledRMSProp(squares.squares, scale), metrics


def _before_passes(
    policy: Any,
    scale: ValueScale | None,
    unroll: Unroll,
    hyper: Hyper,
    compute_dtype: DTypeLike,
    timeouts: Timeouts | None,
) -> tuple[Any, ValueScale | None, Unroll]:
    """What all passes share: the values of time-outs, now in the rewards, and the scale moved to the targets.

    The logits become those of this unroll, so that the first pass has ratios of exactly 1.
    """
    actor = jax.tree.map(lambda leaf: leaf.astype(compute_dtype), policy)
    logits, values, carries = actor.unroll(unroll.observations, unroll.first, unroll.carry)
    if timeouts is not None:
        beyond = hyper.discount * _values_at_timeouts(actor, carries, timeouts, scale)
        unroll = eqx.tree_at(lambda u: u.rewards, unroll, unroll.rewards + beyond)
    unroll = eqx.tree_at(lambda u: u.logits, unroll, logits[:-1])
    if scale is None:
        return policy, None, unroll
    ratios = jnp.zeros_like(unroll.rewards)
    trace = _vtrace(scale.plain(values), unroll.rewards, unroll.terminal, ratios, hyper)
    moved = scale.moved(trace.targets)
    return rescaled(policy, scale, moved), moved, unroll


def losses(
    policy: Any,
    unroll: Unroll,
    hyper: Hyper,
    compute_dtype: DTypeLike = jnp.float32,
    timeouts: Timeouts | None = None,
    scale: ValueScale | None = None,
    standardise: bool = False,
) -> tuple[Float32[Array, ""], Metrics]:
    """The loss to minimise, summed over time and averaged over environments, and what to log of it.

    policy_loss   -sum advantage * log probability of the action taken
    value_loss    0.5 * sum (target - value)^2, in units of the scale, if there is one
    entropy       mean per step, in nats
    value_error   root of the mean squared difference of target and value
    value         mean value
    off_policy    mean of |ratio - 1|: how far the acting policy was from the learning one

    standardise:  advantages have mean 0 and deviation 1, and losses are means over time too, so that one
                  entropy cost fits rewards and unrolls of any size.
    """
    policy = jax.tree.map(lambda leaf: leaf.astype(compute_dtype), policy)
    logits, values, carries = policy.unroll(unroll.observations, unroll.first, unroll.carry)
    log_taken = distributions.log_probability(logits[:-1], unroll.actions)
    behaviour = distributions.log_probability(unroll.logits, unroll.actions)
    log_rhos = jax.lax.stop_gradient(log_taken) - behaviour
    rewards, deviation = unroll.rewards, 1.0
    if timeouts is not None:
        rewards = rewards + hyper.discount * _values_at_timeouts(policy, carries, timeouts, scale)
    if scale is not None:
        values, deviation = scale.plain(values), scale.deviation

    trace = _vtrace(jax.lax.stop_gradient(values), rewards, unroll.terminal, log_rhos, hyper)
    advantages, errors = trace.advantages, (trace.targets - values[:-1]) / deviation
    entropies = distributions.entropy(logits[:-1], not distributions.of_integers(unroll.actions))
    reduced = jnp.mean if standardise else _per_unroll
    if standardise:
        spread = jnp.maximum(jnp.std(advantages), LEAST_SPREAD)
        advantages = (advantages - jnp.mean(advantages)) / spread
    policy_loss = -reduced(advantages * log_taken)
    value_loss = 0.5 * reduced(jnp.square(errors))
    loss = policy_loss + hyper.value_cost * value_loss - hyper.entropy_cost * reduced(entropies)
    return loss, {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": jnp.mean(entropies),
        "value_error": deviation * jnp.sqrt(jnp.mean(jnp.square(errors))),
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


def _values_at_timeouts(
    policy: Any, carries: PyTree, timeouts: Timeouts, scale: ValueScale | None
) -> Float32[Array, "steps envs"]:
    """V of the last observation at truncated steps, one step on from the carry there; 0 elsewhere."""
    steps, envs = timeouts.truncated.shape
    most = min(timeouts.most, steps)
    # The truncated steps of each environment come first in a stable order, the earliest of them first.
    when = jnp.argsort(~timeouts.truncated, axis=0, stable=True)[:most]
    lane = jnp.broadcast_to(jnp.arange(envs), when.shape)

    def valued() -> Float32[Array, "steps envs"]:
        def rows(array):
            return array[when, lane].reshape(most * envs, *array.shape[2:])

        _, values, _ = policy(
            rows(timeouts.last_observations), jnp.zeros(most * envs, bool), jax.tree.map(rows, carries)
        )
        values = values if scale is None else scale.plain(values)
        values = jnp.where(timeouts.truncated[when, lane], values.reshape(most, envs), 0.0)
        return jax.lax.stop_gradient(jnp.zeros((steps, envs)).at[when, lane].set(values))

    if most < steps:
        return valued()
    # Where any step may be one, most unrolls have none.
    return jax.lax.cond(timeouts.truncated.any(), valued, lambda: jnp.zeros((steps, envs)))


def _per_unroll(terms: Float32[Array, "steps envs"]) -> Float32[Array, ""]:
    """Summed over time, averaged over environments."""
    return jnp.mean(jnp.sum(terms, axis=0))
