"""Return scale: the running standard deviation of a reward's discounted sum (Burda et al., 2019).

A reward or a bonus divided by it has returns that spread by about 1, whatever the network or the task.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

LEAST = 1e-8
"""A reward that never differs is not scaled up without end."""


class ReturnScale(eqx.Module):
    """What is known of a reward's discounted sum.

    sums:          the sum up to now, in each environment.
    count:         sums seen so far.
    mean, square:  their mean, and their mean squared distance from it.
    least:         the standard deviation is no less; with 1, rewards are scaled down and never up.
    """

    sums: Float32[Array, " envs"]
    count: Float32[Array, ""]
    mean: Float32[Array, ""]
    square: Float32[Array, ""]
    least: float = eqx.field(static=True, default=LEAST)

    @property
    def deviation(self) -> Float32[Array, ""]:
        """The standard deviation."""
        return jnp.maximum(jnp.sqrt(self.square), self.least)

    def scaled(
        self,
        rewards: Float32[Array, "steps envs"],
        ends: Bool[Array, "steps envs"],
        discount: float | Float32[Array, ""],
    ) -> tuple[ReturnScale, Float32[Array, "steps envs"]]:
        """After one more rollout, and its rewards divided by the deviation, this rollout counted.

        ends:  where the sum begins anew after the step.
        """

        def step(total, inputs):
            paid, over = inputs
            total = paid + discount * total
            return jnp.where(over, 0.0, total), total

        last, sums = jax.lax.scan(step, self.sums, (rewards, ends))
        more = jnp.float32(sums.size)
        count = self.count + more
        gap = jnp.mean(sums) - self.mean
        mean = self.mean + gap * more / count
        # The two groups' squares, and what their means differ by (Chan et al., 1979).
        inner = self.square * self.count + jnp.var(sums) * more
        square = (inner + jnp.square(gap) * self.count * more / count) / count
        after = ReturnScale(last, count, mean, square, self.least)
        return after, rewards / after.deviation


def first_scale(num_envs: int, least: float = LEAST) -> ReturnScale:
    """Nothing is known yet."""
    nothing = jnp.float32(0)
    return ReturnScale(jnp.zeros(num_envs), nothing, nothing, nothing, least)
