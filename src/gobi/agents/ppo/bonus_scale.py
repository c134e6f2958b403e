"""Scale of the bonus: the running standard deviation of its discounted sum (Burda et al., 2019).

A bonus divided by it has returns that spread by about 1, whatever the reward, the network or the task.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

LEAST = 1e-8
"""A bonus that never differs is not scaled up without end."""


class BonusScale(eqx.Module):
    """What is known of the bonus's discounted sum.

    sums:          the sum up to now, in each environment.
    count:         sums seen so far.
    mean, square:  their mean, and their mean squared distance from it.
    """

    sums: Float32[Array, " envs"]
    count: Float32[Array, ""]
    mean: Float32[Array, ""]
    square: Float32[Array, ""]

    @property
    def deviation(self) -> Float32[Array, ""]:
        """The standard deviation."""
        return jnp.maximum(jnp.sqrt(self.square), LEAST)

    def scaled(
        self,
        bonus: Float32[Array, "steps envs"],
        ends: Bool[Array, "steps envs"],
        discount: float | Float32[Array, ""],
    ) -> tuple[BonusScale, Float32[Array, "steps envs"]]:
        """After one more rollout, and its bonus divided by the deviation, this rollout counted.

        ends:  where the sum begins anew after the step.
        """

        def step(total, inputs):
            paid, over = inputs
            total = paid + discount * total
            return jnp.where(over, 0.0, total), total

        last, sums = jax.lax.scan(step, self.sums, (bonus, ends))
        more = jnp.float32(sums.size)
        count = self.count + more
        gap = jnp.mean(sums) - self.mean
        mean = self.mean + gap * more / count
        # The two groups' squares, and what their means differ by (Chan et al., 1979).
        inner = self.square * self.count + jnp.var(sums) * more
        square = (inner + jnp.square(gap) * self.count * more / count) / count
        after = BonusScale(last, count, mean, square)
        return after, bonus / after.deviation


def first_scale(num_envs: int) -> BonusScale:
    """Nothing is known yet."""
    return BonusScale(jnp.zeros(num_envs), *[jnp.float32(0)] * 3)
