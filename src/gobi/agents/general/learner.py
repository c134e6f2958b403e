"""One update on a batch of unrolls: V-trace losses for any policy, in several passes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Num

from gobi.agents.general import distributions
from gobi.agents.general.networks import Policy
from gobi.agents.impala import optimiser
from gobi.agents.impala.networks import Carry
from gobi.agents.impala.vtrace import VTrace, vtrace

Metrics = dict[str, Float32[Array, ""]]

LEAST_SPREAD = 1e-3
"""Advantages that differ by less are not scaled up any further: there is nothing to learn from them."""
LEAST_SCALE = 1e-2
"""Nor values."""
RATE = 0.02
"""How far the scale of values goes towards that of an unroll; further in the first ones."""


class Scale(eqx.Module):
    """How large values are: the network's are in units of it, so that one learning rate fits all tasks.

    mean, square:  running means of V-trace's targets and of their squares.
    unrolls:       how many they come from.
    """

    mean: Float32[Array, ""]
    square: Float32[Array, ""]
    unrolls: Float32[Array, ""]

    @property
    def spread(self) -> Float32[Array, ""]:
        """The standard deviation."""
        return jnp.maximum(jnp.sqrt(jnp.maximum(self.square - jnp.square(self.mean), 0)), LEAST_SCALE)

    def plain(self, values: Float32[Array, "*rows"]) -> Float32[Array, "*rows"]:
        """What the network's values are worth."""
        return self.mean + self.spread * values

    def moved(self, targets: Float32[Array, "*rows"]) -> Scale:
        """After one more unroll with these targets."""
        rate = jnp.maximum(RATE, 1 / (self.unrolls + 1))

        def towards(old, new):
            return old + rate * (new - old)

        square = towards(self.square, jnp.mean(jnp.square(targets)))
        return Scale(towards(self.mean, jnp.mean(targets)), square, self.unrolls + 1)


def first_scale() -> Scale:
    """Of values that nothing is known of."""
    return Scale(jnp.float32(0), jnp.float32(1), jnp.float32(0))


class Hyper(eqx.Module):
    """The numbers of the learner, as arrays: a new value does not compile again.

    discount:       of future rewards.
    entropy_cost:   weight of the entropy in the loss.
    value_cost:     weight of the value loss.
    max_grad_norm:  gradients are scaled down to this norm.
    """

    discount: Float32[Array, ""]
    entropy_cost: Float32[Array, ""]
    value_cost: Float32[Array, ""]
    max_grad_norm: Float32[Array, ""]


class Unroll(eqx.Module):
    """What the actors did in `steps` steps; `states` is one more than `steps`.

    observations:  what was acted on, and last what the next unroll will act on.
    first:         whether an episode begins with that observation.
    actions:       what was done, as the policy drew it.
    rewards:       what the step earned, bonus and clipping included.
    terminal:      nothing after this step counts for it: its discount is 0.
    cut:           steps at which an episode was cut off and goes on in the mind: the value of where it led
                   is added to their reward. They are terminal too.
    last:          where each step led; read at `cut` steps only.
    carry:         what the policy remembered before the first observation.
    """

    observations: Num[Array, "states envs *shape"]
    first: Bool[Array, "states envs"]
    actions: Int32[Array, "steps envs"] | Float32[Array, "steps envs size"]
    rewards: Float32[Array, "steps envs"]
    terminal: Bool[Array, "steps envs"]
    cut: Bool[Array, "steps envs"]
    last: Num[Array, "steps envs *shape"]
    carry: Carry


class Learner(eqx.Module):
    """What is learned: the policy, the running squares of its gradients, and the scale of its values."""

    policy: Policy
    optimiser: optimiser.RMSProp
    scale: Scale


def init(policy: Policy) -> Learner:
    """Before the first update."""
    return Learner(policy, optimiser.init(policy), first_scale())


def learn(
    learner: Learner, unroll: Unroll, hyper: Hyper, learning_rate: Float32[Array, ""], passes: int
) -> tuple[Learner, Metrics]:
    """So many gradient steps on one batch of unrolls that this policy made.

    V-trace corrects for the policy moving on between them. Metrics are those of `losses` and
    `gradient_norm`, means over the passes.
    """
    outputs, values, carries = learner.policy.unroll(unroll.observations, unroll.first, unroll.carry)
    behaviour = jax.lax.stop_gradient(distributions.log_probability(outputs[:-1], unroll.actions))
    beyond = _values_when_cut(learner, carries, unroll)
    unroll = eqx.tree_at(lambda one: one.rewards, unroll, unroll.rewards + hyper.discount * beyond)
    trace = _vtrace(learner.scale.plain(values), unroll, jnp.zeros_like(behaviour), hyper)
    learner = _rescaled(learner, learner.scale.moved(trace.targets))

    def one(state: tuple[Policy, optimiser.RMSProp], _: None):
        policy, squares = state
        gradient = jax.value_and_grad(losses, has_aux=True)
        (_, metrics), gradients = gradient(policy, learner.scale, unroll, behaviour, hyper)
        size = optimiser.norm(gradients)
        gradients = optimiser.clip(gradients, size, hyper.max_grad_norm)
        return optimiser.step(policy, gradients, squares, learning_rate), metrics | {"gradient_norm": size}

    (policy, squares), told = jax.lax.scan(one, (learner.policy, learner.optimiser), length=passes)
    metrics = {name: jnp.mean(series) for name, series in told.items()}
    return Learner(policy, squares, learner.scale), metrics


def _rescaled(learner: Learner, scale: Scale) -> Learner:
    """The same values in units of another scale (PopArt)."""
    old, value = learner.scale, learner.policy.value
    ratio = old.spread / scale.spread
    shift = (old.mean - scale.mean) / scale.spread
    policy = eqx.tree_at(
        lambda policy: (policy.value.weight, policy.value.bias),
        learner.policy,
        (value.weight * ratio, value.bias * ratio + shift),
    )
    return Learner(policy, learner.optimiser, scale)


def losses(
    policy: Policy, scale: Scale, unroll: Unroll, behaviour: Float32[Array, "steps envs"], hyper: Hyper
) -> tuple[Float32[Array, ""], Metrics]:
    """The loss to minimise, a mean over steps and environments, and what to log of it.

    behaviour:  log probability of each action under the policy that took it.

    policy_loss   -advantage * log probability of the action taken; advantages are scaled to spread by 1, so
                  that one entropy cost fits tasks of small and of large rewards
    value_loss    0.5 * (target - value)^2, in units of the scale
    entropy       in nats
    value_error   root of the mean squared difference of target and value
    value         mean value
    off_policy    mean of |ratio - 1|: how far the acting policy was from the learning one
    """
    outputs, values, _ = policy.unroll(unroll.observations, unroll.first, unroll.carry)
    log_taken = distributions.log_probability(outputs[:-1], unroll.actions)
    log_rhos = jax.lax.stop_gradient(log_taken) - behaviour
    values = scale.plain(values)
    trace = _vtrace(jax.lax.stop_gradient(values), unroll, log_rhos, hyper)
    errors = (trace.targets - values[:-1]) / scale.spread
    continuous = not jnp.issubdtype(unroll.actions.dtype, jnp.integer)
    entropy = jnp.mean(distributions.entropy(outputs[:-1], continuous))
    spread = jnp.maximum(jnp.std(trace.advantages), LEAST_SPREAD)
    policy_loss = -jnp.mean((trace.advantages - jnp.mean(trace.advantages)) / spread * log_taken)
    value_loss = 0.5 * jnp.mean(jnp.square(errors))
    loss = policy_loss + hyper.value_cost * value_loss - hyper.entropy_cost * entropy
    return loss, {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "value_error": scale.spread * jnp.sqrt(jnp.mean(jnp.square(errors))),
        "value": jnp.mean(values[:-1]),
        "off_policy": jnp.mean(jnp.abs(jnp.expm1(log_rhos))),
    }


def _vtrace(values: Array, unroll: Unroll, log_rhos: Array, hyper: Hyper) -> VTrace:
    """V-trace of every environment; values has one step more than the rest."""
    discounts = jnp.where(unroll.terminal, 0.0, hyper.discount)

    def one(values, rewards, discounts, log_rhos):
        return vtrace(values[:-1], values[-1], rewards, discounts, log_rhos)

    return jax.vmap(one, in_axes=1, out_axes=1)(values, unroll.rewards, discounts, log_rhos)


def _values_when_cut(learner: Learner, carries: Carry, unroll: Unroll) -> Float32[Array, "steps envs"]:
    """V of where a cut episode was left, one step on from the carry there; 0 elsewhere."""
    steps, envs = unroll.cut.shape

    def valued() -> Float32[Array, "steps envs"]:
        def rows(part):
            return part[:steps].reshape(steps * envs, *part.shape[2:])

        begun, carried = jnp.zeros(steps * envs, bool), jax.tree.map(rows, carries)
        _, values, _ = learner.policy(rows(unroll.last), begun, carried)
        return jnp.where(unroll.cut, learner.scale.plain(values).reshape(steps, envs), 0.0)

    # Most unrolls have none.
    return jax.lax.cond(unroll.cut.any(), valued, lambda: jnp.zeros((steps, envs)))
