"""V-trace: value targets and advantages from a trajectory of another policy (IMPALA, section 4.1)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32


class VTrace(eqx.Module):
    """What V-trace makes of one trajectory.

    targets:     v_s, what the values should have been.
    advantages:  weights of the policy gradient: rho_s (r_s + discount_s v_{s+1} - V(x_s)), rho clipped.
    """

    targets: Float32[Array, " steps"]
    advantages: Float32[Array, " steps"]


def vtrace(
    values: Float32[Array, " steps"],
    bootstrap: Float32[Array, ""],
    rewards: Float32[Array, " steps"],
    discounts: Float32[Array, " steps"],
    log_rhos: Float32[Array, " steps"],
    clip_rho: float | Float32[Array, ""] = 1.0,
    clip_c: float | Float32[Array, ""] = 1.0,
    clip_pg_rho: float | Float32[Array, ""] = 1.0,
) -> VTrace:
    """V-trace of one trajectory; callers `vmap`. No gradient flows through the result.

    values:     V(x_s) of the states acted in.
    bootstrap:  V of the state after the last step.
    rewards:    r_s, the reward of the step that leaves x_s.
    discounts:  the discount of what follows that step: 0 where it ended an episode.
    log_rhos:   log of target over behaviour probability of the action taken.

        v_s = V(x_s) + sum_{t >= s} (prod_{s <= i < t} discount_i c_i) rho_t delta_t
        delta_t = r_t + discount_t V(x_{t+1}) - V(x_t)

    with rho = min(clip_rho, ratio) and c = min(clip_c, ratio).
    """
    rhos = jnp.exp(log_rhos)
    next_values = jnp.append(values[1:], bootstrap)
    errors = jnp.minimum(clip_rho, rhos) * (rewards + discounts * next_values - values)
    corrections = _backwards(discounts * jnp.minimum(clip_c, rhos), errors)
    targets = values + corrections
    next_targets = jnp.append(targets[1:], bootstrap)
    advantages = jnp.minimum(clip_pg_rho, rhos) * (rewards + discounts * next_targets - values)
    return jax.lax.stop_gradient(VTrace(targets, advantages))


def _backwards(
    factors: Float32[Array, " steps"], terms: Float32[Array, " steps"]
) -> Float32[Array, " steps"]:
    """y_s = terms_s + factors_s * y_{s+1}, with nothing after the last.

    A tree of products and sums, in about 2 log2(steps) kernels: a loop would launch one for each step.
    """

    def joined(later, earlier):
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    return jax.lax.associative_scan(joined, (factors, terms), reverse=True)[1]
