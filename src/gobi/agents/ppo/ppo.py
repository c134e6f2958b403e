"""PPO: several epochs of clipped updates on each rollout, with a value each for the task and the bonus."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, Key, Num, PyTree

from gobi.agents import distributions
from gobi.agents.impala import optimiser as gradients_of
from gobi.agents.learner import Metrics, Rollout
from gobi.agents.networks import separate
from gobi.agents.ppo import networks, self_imitation
from gobi.agents.ppo.gae import gae
from gobi.agents.ppo.return_scale import ReturnScale, first_scale
from gobi.agents.ppo.self_imitation import ImitationBuffer
from gobi.types import Spec

Policy = networks.Policy | separate.Policy
Actions = Int32[Array, "*rows"] | Float32[Array, "*rows size"]

LEAST_SPREAD = 1e-8
LEAST_ADVANTAGE = 0.05
"""Advantages of a value that spread by less are not scaled up any further: what was never earned is noise."""
ADAM = optax.scale_by_adam(eps=1e-5)
IMITATE = 1
"""What is folded into the key of the minibatches' order, to draw what is imitated."""
ENVS_PER_REPLAYED_ROW = 4
"""Environments of a minibatch beside which one kept row is replayed; beside fewer there is one too."""


def _float32(value) -> Array:
    return jnp.asarray(value, jnp.float32)


class Hyper(eqx.Module):
    """The numbers of the learner, as arrays: a sweep is a vmap axis, and a new value does not compile again.

    discount:        of the task's rewards.
    bonus_discount:  of the bonus; also of the sum that it is scaled by.
    gae_lambda:      of both advantages.
    clip_ratio:      how far the ratio of new and old probability may go from 1 and still be followed.
    entropy_cost:    weight of the entropy in the loss.
    value_cost:      weight of the value losses.
    max_grad_norm:   gradients are scaled down to this norm.
    imitation_cost:  weight of self-imitation in the loss.
    """

    discount: Float32[Array, "*sweep"] = eqx.field(default=0.99, converter=_float32)
    bonus_discount: Float32[Array, "*sweep"] = eqx.field(default=0.99, converter=_float32)
    gae_lambda: Float32[Array, "*sweep"] = eqx.field(default=0.95, converter=_float32)
    clip_ratio: Float32[Array, "*sweep"] = eqx.field(default=0.2, converter=_float32)
    entropy_cost: Float32[Array, "*sweep"] = eqx.field(default=0.06, converter=_float32)
    value_cost: Float32[Array, "*sweep"] = eqx.field(default=0.5, converter=_float32)
    max_grad_norm: Float32[Array, "*sweep"] = eqx.field(default=0.5, converter=_float32)
    imitation_cost: Float32[Array, "*sweep"] = eqx.field(default=0.0, converter=_float32)


class Noted(eqx.Module):
    """What is noted of each step for learning: as it was when the action was taken.

    log_taken:  log-probability of the action.
    values:     of the task and, where it has its own, of the bonus.
    """

    log_taken: Float32[Array, "*time envs"]
    values: Float32[Array, "*time envs values"]


class PPOState(eqx.Module):
    """What is kept between updates.

    adam:       Adam's moments.
    scale:      that of the bonus.
    rewards:    that of the task's rewards; None: they are as they are.
    imitation:  rollouts to imitate; None without self-imitation.
    """

    adam: PyTree
    scale: ReturnScale
    rewards: ReturnScale | None = None
    imitation: ImitationBuffer | None = None


class Batch(eqx.Module):
    """Whole environments of a rollout, and what is to be learned of them; envs is the second axis, of `carry`
    the first."""

    observations: Num[Array, "steps envs *shape"]
    first: Bool[Array, "steps envs"]
    actions: Int32[Array, "steps envs"] | Float32[Array, "steps envs size"]
    log_taken: Float32[Array, "steps envs"]
    advantages: Float32[Array, "steps envs"]
    targets: Float32[Array, "steps envs values"]
    carry: PyTree

    def of(self, envs: Int32[Array, " some"]) -> Batch:
        """The same of some environments."""
        carry = jax.tree.map(lambda part: part[envs], self.carry)
        rest = jax.tree.map(lambda part: part[:, envs], dataclasses.replace(self, carry=None))
        return dataclasses.replace(rest, carry=carry)


@dataclasses.dataclass(frozen=True)
class PPO:
    """What is fixed when the loop is compiled.

    network:       the policy's: paper, coded or compact, for grids; feedforward or recurrent, for any task.
    core:          what remembers: an lstm or a mingru.
    timeouts:      a truncated episode ends with value 0 (terminal) or goes on (bootstrap).
    epochs:        passes over each rollout.
    minibatches:   gradient steps in each pass, on whole environments.
    values:        two: one for the task and one for the bonus; or one for their sum.
    bonus_ends:    whether the bonus's value ends with an episode (true) or goes on into the next one.
    scale_bonus:   divide the bonus by the running standard deviation of its discounted sum.
    scale_advantages:  divide each value's advantages by their standard deviation in the rollout, if that is
                   above 0.05, before they are added: a rare reward counts as much as a frequent bonus.
    precision:     of the matrix products; weights and optimiser stay float32.
    units:         width of feedforward and recurrent networks.
    scale_rewards: divide the task's rewards by the running standard deviation of their discounted sum, if
                   that is above 1.
    imitation_rows:  rows of rollouts kept for self-imitation, the latest that earned something; 0 is none.
    unroll:        steps of a rollout; only self-imitation needs to know.
    """

    network: str
    core: str
    timeouts: str
    epochs: int
    minibatches: int
    values: str
    bonus_ends: bool
    scale_bonus: bool
    scale_advantages: bool = False
    precision: str = "float32"
    units: int = separate.UNITS
    scale_rewards: bool = False
    imitation_rows: int = 0
    unroll: int = 0

    Hyper: ClassVar = Hyper

    @property
    def logs(self) -> tuple[str, ...]:
        """Metrics with columns of their own."""
        more = ("imitation_advantage",) if self.imitation_rows else ()
        return ("bonus_scale", "bonus_value", "clipped", "kl", *more)

    @property
    def num_values(self) -> int:
        """How many values the policy has."""
        return 2 if self.values == "two" else 1

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> tuple[Policy, PPOState]:
        """A new policy, and moments of zero."""
        policy = networks.build(self.network, self.core, self.num_values, spec, key, self.units)
        rewards = first_scale(num_envs, least=1.0) if self.scale_rewards else None
        moments = ADAM.init(policy)  # pyright: ignore[reportArgumentType]
        imitation, rows = None, self.imitation_rows
        if rows:
            imitation = self_imitation.empty_buffer(rows, self.unroll, spec, policy.initial(rows))
        return policy, PPOState(moments, first_scale(num_envs), rewards, imitation)

    def initial_carry(self, policy: Policy, num_envs: int) -> PyTree:
        """Remembers nothing."""
        return policy.initial(num_envs)

    def actor(self, policy: Policy) -> Policy:
        """Weights in the precision of the products."""
        return jax.tree.map(lambda leaf: leaf.astype(self.precision), policy)

    def noise(
        self, key: Key[Array, ""], spec: Spec, steps: int, num_envs: int
    ) -> Float32[Array, "steps envs size"]:
        """Of a categorical policy Gumbel's, of a Gaussian one normal."""
        return distributions.noise(key, spec, steps, num_envs)

    def act(
        self,
        policy: Policy,
        observation: Num[Array, "envs *shape"],
        first: Bool[Array, " envs"],
        carry: PyTree,
        noise: Float32[Array, "envs size"],
    ) -> tuple[Actions, Noted, PyTree]:
        """Actions, their log-probabilities and values, and the new carry."""
        outputs, values, carry = policy(observation, first, carry)
        action = distributions.sample(outputs, noise)
        return action, Noted(distributions.log_probability(outputs, action), values), carry

    def learn(
        self,
        policy: Policy,
        optimiser: PPOState,
        rollout: Rollout,
        hyper: Hyper,
        learning_rate: Float32[Array, ""],
        key: Key[Array, ""],
        longest: int,
    ) -> tuple[Policy, PPOState, Metrics]:
        """Epochs of minibatches of whole environments, each an Adam step; metrics are means over all."""
        del longest
        state, batch, metrics = self._batch(policy, optimiser, rollout, hyper)
        # An agent that is not paid by the task must not do again what the task paid.
        imitation_cost = jnp.where(rollout.weights.extrinsic > 0, hyper.imitation_cost, 0.0)
        hyper = dataclasses.replace(hyper, imitation_cost=imitation_cost)
        envs = batch.actions.shape[1]
        order = jax.vmap(lambda k: jax.random.permutation(k, envs))(jax.random.split(key, self.epochs))
        order = order.reshape(self.epochs * self.minibatches, envs // self.minibatches)
        buffer, replayed = state.imitation, None
        if buffer is not None:
            shape = len(order), max(1, order.shape[1] // ENVS_PER_REPLAYED_ROW)
            replayed = buffer.sample(jax.random.fold_in(key, IMITATE), shape)

        def step(state, numbers):
            policy, adam = state
            envs, replayed = numbers
            rows = () if buffer is None else (buffer.rows(replayed),)
            gradient = jax.value_and_grad(self.losses, has_aux=True)
            (_, told), gradients = gradient(policy, batch.of(envs), hyper, *rows)
            size = gradients_of.norm(gradients)
            gradients = gradients_of.clip(gradients, size, hyper.max_grad_norm)
            change, adam = ADAM.update(gradients, adam)
            policy = jax.tree.map(lambda leaf, by: leaf - learning_rate * by, policy, change)
            return (policy, adam), told | {"gradient_norm": size}

        (policy, adam), told = jax.lax.scan(step, (policy, state.adam), (order, replayed))
        metrics |= {name: jnp.mean(series) for name, series in told.items()}
        return policy, dataclasses.replace(state, adam=adam), metrics

    def losses(
        self, policy: Policy, batch: Batch, hyper: Hyper, replayed: ImitationBuffer | None = None
    ) -> tuple[Float32[Array, ""], Metrics]:
        """The loss to minimise, a mean over steps and environments, and what to log of it.

        policy_loss   -min(ratio * A, clip(ratio) * A), A standardised over the minibatch
        value_loss    0.5 * sum over the values of (target - value)^2
        entropy       in nats
        value_error   root of the mean squared difference of target and value
        value         mean value of the task, or of the sum
        kl            mean of ratio - 1 - log ratio: how far the policy has moved
        clipped       share of steps whose ratio left the bounds
        imitation_advantage  mean of max(return - value of the task, 0) over replayed steps with a return
        """
        policy = self.actor(policy)
        outputs, values, replay = _unroll(policy, batch, replayed)
        log_ratio = distributions.log_probability(outputs, batch.actions) - batch.log_taken
        ratio = jnp.exp(log_ratio)
        advantages = batch.advantages - jnp.mean(batch.advantages)
        advantages = advantages / (jnp.std(advantages) + LEAST_SPREAD)
        bounded = jnp.clip(ratio, 1 - hyper.clip_ratio, 1 + hyper.clip_ratio)
        policy_loss = -jnp.mean(jnp.minimum(ratio * advantages, bounded * advantages))
        squares = jnp.square(batch.targets - values)
        value_loss = 0.5 * jnp.mean(jnp.sum(squares, axis=-1))
        entropy = jnp.mean(
            distributions.entropy(outputs, continuous=not distributions.of_integers(batch.actions))
        )
        loss = policy_loss + hyper.value_cost * value_loss - hyper.entropy_cost * entropy
        more = {}
        if replayed is not None and replay is not None:
            imitation, more["imitation_advantage"] = self_imitation.loss(*replay, replayed)
            loss = loss + hyper.imitation_cost * imitation
        return loss, more | {
            "loss": loss,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "value_error": jnp.sqrt(jnp.mean(squares)),
            "value": jnp.mean(values[..., 0]),
            "kl": jnp.mean(ratio - 1 - log_ratio),
            "clipped": jnp.mean(jnp.abs(ratio - 1) > hyper.clip_ratio),
        }

    def _batch(
        self, policy: Policy, state: PPOState, rollout: Rollout, hyper: Hyper
    ) -> tuple[PPOState, Batch, Metrics]:
        """What is to be learned of a rollout: advantages of the weighted sum, and each value's targets."""
        if state.rewards is not None:
            known, rewards = state.rewards.scaled(rollout.rewards, rollout.done, hyper.discount)
            state = dataclasses.replace(state, rewards=known)
            rollout = dataclasses.replace(rollout, rewards=rewards)
        if state.imitation is not None:
            state = dataclasses.replace(state, imitation=state.imitation.add(rollout, hyper.discount))
        scale, bonus = state.scale, rollout.bonus
        if self.scale_bonus:
            scale, bonus = scale.scaled(bonus, rollout.done & self.bonus_ends, hyper.bonus_discount)
        actor = self.actor(policy)
        _, after, _ = actor(rollout.observations[-1], rollout.first[-1], rollout.next_carry)
        values = jnp.concatenate([rollout.noted.values, after[None]])
        streams = self._streams(rollout, bonus, hyper)
        beyond = self._beyond(actor, rollout)
        parts, targets = [], []
        for number, (weight, rewards, discount, ends) in enumerate(streams):
            rewards = rewards + discount * beyond[..., number] * ends
            discounts = jnp.where(ends, 0.0, discount)
            mine = gae(rewards, values[..., number], discounts, hyper.gae_lambda)
            spread = jnp.maximum(jnp.std(mine), LEAST_ADVANTAGE) if self.scale_advantages else 1.0
            parts.append(weight * mine / spread)
            targets.append(mine + values[:-1, ..., number])
        batch = Batch(
            observations=rollout.observations[:-1],
            first=rollout.first[:-1],
            actions=rollout.actions,
            log_taken=rollout.noted.log_taken,
            advantages=sum(parts[1:], parts[0]),
            targets=jnp.stack(targets, axis=-1),
            carry=rollout.carry,
        )
        metrics = {
            "bonus_scale": scale.deviation if self.scale_bonus else jnp.float32(1),
            "bonus_value": jnp.mean(values[..., -1]),
        }
        return dataclasses.replace(state, scale=scale), batch, metrics

    def _streams(self, rollout: Rollout, bonus: Float32[Array, "steps envs"], hyper: Hyper) -> list[Any]:
        """For each value: its weight in the advantage, rewards, discount, and where it ends."""
        weights = rollout.weights
        if self.values == "one":
            total = eqx.tree_at(lambda one: one.bonus, rollout, bonus).total
            return [(1.0, total, hyper.discount, rollout.done)]
        ends = rollout.done & self.bonus_ends
        return [
            (weights.extrinsic, rollout.rewards, hyper.discount, rollout.done),
            (weights.intrinsic, bonus, hyper.bonus_discount, ends),
        ]

    def _beyond(self, actor: Policy, rollout: Rollout) -> Float32[Array, "steps envs values"]:
        """Values of where episodes ran out of steps, one step on from the carry there; 0 elsewhere."""
        steps, envs = rollout.rewards.shape
        nothing = jnp.zeros((steps, envs, self.num_values))
        if self.timeouts == "terminal":
            return nothing
        cut = rollout.truncated & ~rollout.terminated

        def valued() -> Float32[Array, "steps envs values"]:
            _, _, carries = actor.unroll(rollout.observations[:-1], rollout.first[:-1], rollout.carry)
            rows = jax.tree.map(lambda part: part.reshape(steps * envs, *part.shape[2:]), carries)
            last = rollout.last_observations.reshape(steps * envs, *rollout.last_observations.shape[2:])
            _, values, _ = actor(last, jnp.zeros(steps * envs, bool), rows)
            return jnp.where(cut[..., None], values.reshape(steps, envs, -1), 0.0)

        # Most rollouts have none.
        return jax.lax.cond(cut.any(), valued, lambda: nothing)


def _unroll(
    policy: Policy, batch: Batch, replayed: ImitationBuffer | None
) -> tuple[Array, Array, tuple[Array, Array] | None]:
    """Outputs and values of the batch; in the same product, outputs and the task's values of the replay."""
    if replayed is None:
        return *policy.unroll(batch.observations, batch.first, batch.carry)[:2], None
    envs = batch.first.shape[1]
    observations = jnp.concatenate([batch.observations, jnp.swapaxes(replayed.observations, 0, 1)], axis=1)
    first = jnp.concatenate([batch.first, replayed.first.T], axis=1)
    carry = jax.tree.map(lambda *parts: jnp.concatenate(parts), batch.carry, replayed.carry)
    outputs, values, _ = policy.unroll(observations, first, carry)
    return outputs[:, :envs], values[:, :envs], (outputs[:, envs:], values[:, envs:, 0])
