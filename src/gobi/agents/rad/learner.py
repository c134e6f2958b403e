"""RAD: soft actor-critic from randomly cropped pixels, or from vectors."""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Key, Num, PyTree

from gobi.agents.rad import crops, losses
from gobi.agents.rad.networks import (
    Actor,
    Convolutions,
    Critic,
    build_actor,
    build_convolutions,
    build_critic,
    encoder_in,
)
from gobi.agents.rad.replay import STACK, Batch, Replay
from gobi.errors import GobiError
from gobi.types import Spec

Part = TypeVar("Part", "Acting", Actor, Critic)
Metrics = dict[str, Float32[Array, ""]]
SMALLEST_CROP = 15
"""The side that four convolutions leave one feature of."""


class Acting(eqx.Module):
    """The part of a learner that acts: what a compiled call is not given costs it nothing."""

    actor: Actor
    convolutions: Convolutions | eqx.nn.Identity


class Learner(eqx.Module):
    """Everything of the learner that changes.

    actor:            features to actions.
    critic:           both values; its convolutions are the actor's too.
    target:           the critic of some time ago.
    log_temperature:  log of the weight of entropy.
    actor_adam, critic_adam, temperature_adam:  the optimisers' states.
    """

    actor: Actor
    critic: Critic
    target: Critic
    log_temperature: Float32[Array, ""]
    actor_adam: PyTree
    critic_adam: PyTree
    temperature_adam: PyTree

    @property
    def acting(self) -> Acting:
        """The part that acts."""
        return Acting(self.actor, self.critic.convolutions)


class RAD(eqx.Module):
    """Soft actor-critic on random crops (Laskin et al. 2020), with the settings of RE3's code.

    Pictures are stacked, cropped, convolved and projected to few features; vectors go straight to the trunks.

    hidden:             units of each of two dense layers, in the actor and in both heads of the critic.
    features:           what the projection leaves of a picture.
    channels:           of each convolution.
    crop:               side of what is seen of a picture.
    stack:              frames seen at once.
    learning_rate:      of actor and critic (Adam).
    temperature_rate:   of the temperature (Adam).
    temperature:        weight of entropy at the start.
    discount:           of a step's future.
    rate:               how far the target's heads go towards the critic's, each time.
    encoder_rate:       the same for its encoder.
    every:              actor, temperature and target follow after so many updates of the critic.
    log_std_range:      of the policy, before tanh.
    precision:          what the encoder computes in.
    """

    hidden: int = eqx.field(static=True, default=1024)
    features: int = eqx.field(static=True, default=50)
    channels: int = eqx.field(static=True, default=32)
    crop: int = eqx.field(static=True, default=84)
    stack: int = eqx.field(static=True, default=STACK)
    learning_rate: float = eqx.field(static=True, default=2e-4)
    temperature_rate: float = eqx.field(static=True, default=1e-3)
    temperature: float = eqx.field(static=True, default=0.1)
    discount: float = eqx.field(static=True, default=0.99)
    rate: float = eqx.field(static=True, default=0.01)
    encoder_rate: float = eqx.field(static=True, default=0.05)
    every: int = eqx.field(static=True, default=2)
    log_std_range: tuple[float, float] = eqx.field(static=True, default=(-10.0, 2.0))
    precision: Literal["float32", "bfloat16"] = eqx.field(static=True, default="float32")

    def init(self, key: Key[Array, ""], spec: Spec) -> Learner:
        """A fresh learner for a task; its target is its critic."""
        self._check(spec)
        convolution_key, actor_key, critic_key = jax.random.split(key, 3)
        hidden = (self.hidden, self.hidden)
        if len(spec.observation_shape) == 3:
            channels = self.stack * spec.observation_shape[-1]
            size = (self.crop, self.crop)
            convolutions, shape = build_convolutions(convolution_key, size, channels, self.channels)
            features = self.features
        else:
            convolutions, shape, features = eqx.nn.Identity(), spec.observation_shape, 0
        actor = build_actor(actor_key, shape, features, hidden, spec.action_size, self.log_std_range)
        critic = build_critic(critic_key, convolutions, shape, features, hidden, spec.action_size)
        log_temperature = jnp.log(jnp.float32(self.temperature))
        return Learner(
            actor=actor,
            critic=critic,
            # A copy: arrays that are donated must not be the same ones twice.
            target=jax.tree.map(jnp.copy, critic),
            log_temperature=log_temperature,
            actor_adam=_adam(self.learning_rate).init(cast(optax.Params, actor)),
            critic_adam=_adam(self.learning_rate).init(cast(optax.Params, critic)),
            temperature_adam=_adam(self.temperature_rate).init(log_temperature),
        )

    def act(
        self, state: Learner | Acting, key: Key[Array, ""], observation: Num[Array, "..."], explore: bool
    ) -> Float32[Array, "*batch actions"]:
        """What to do, from the middle of a stack of frames [..., stack, h, w, c] or a vector [..., size].

        explore: draws from the policy; otherwise its mean, squashed, and the key is not used.
        """
        pixels = observation.dtype == jnp.uint8
        batch = observation.shape[: -4 if pixels else -1]
        rows = observation.reshape(-1, *observation.shape[len(batch) :])
        if pixels:
            corners = crops.centre(rows.shape[0], self._room(rows.shape))
            rows = crops.cropped(*_as_ring(rows), corners, self.crop)
        acting = self._cast(state.acting if isinstance(state, Learner) else state)
        mean, log_std = acting.actor(acting.convolutions(rows))
        action = losses.squashed_sample(key, mean, log_std)[0] if explore else jnp.tanh(mean)
        return action.reshape(*batch, -1)

    def update(
        self,
        state: Learner,
        key: Key[Array, ""],
        batch: Batch,
        reward: Float32[Array, " n"],
        *,
        full: bool = True,
        replay: Replay | None = None,
    ) -> tuple[Learner, Metrics]:
        """One gradient step of the critic on a batch with these rewards (the task's plus any bonus).

        full:    then also of the actor and the temperature, and the target follows. Which updates are full is
                 the caller's to say (`is_full`): a branch on the device would make the host wait for it.
        replay:  where the batch came from. Compiled together with `sample`, pictures are then cropped while
                 they are gathered, and `batch.frames` is not even made unless somebody else reads it.
        """
        crop_key, target_key, actor_key = jax.random.split(key, 3)
        before, after = self._views(crop_key, batch, replay)
        state, metrics = self._critic_step(state, target_key, batch, reward, before, after)
        if full:
            state, more = self._actor_step(state, actor_key, before)
            metrics |= more
            state = eqx.tree_at(lambda state: state.target, state, self._follow(state.target, state.critic))
        return state, metrics

    def is_full(self, update: int) -> bool:
        """Whether the update of this number (from 0) takes actor, temperature and target along."""
        return update % self.every == 0

    def _critic_step(self, state: Learner, key, batch: Batch, reward, before, after):
        actor, online, target = self._cast(state.actor), self._cast(state.critic), self._cast(state.target)
        mean, log_std = actor(online.convolutions(after))
        next_action, next_log_prob = losses.squashed_sample(key, mean, log_std)
        temperature = jnp.exp(state.log_temperature)
        aim = losses.bellman_target(
            reward, batch.terminated, target(after, next_action), next_log_prob, temperature, self.discount
        )

        def loss(critic: Critic):
            values = self._cast(critic)(before, batch.action)
            return losses.critic_loss(values, aim), values

        (value, values), gradient = jax.value_and_grad(loss, has_aux=True)(state.critic)
        critic, adam = _step(self.learning_rate, state.critic, gradient, state.critic_adam)
        state = eqx.tree_at(lambda state: (state.critic, state.critic_adam), state, (critic, adam))
        return state, {
            "critic_loss": value,
            "value": jnp.mean(values),
            "target_value": jnp.mean(aim),
            "batch_reward": jnp.mean(reward),
        }

    def _actor_step(self, state: Learner, key, before):
        critic = self._cast(state.critic)
        # No gradient of the actor's loss reaches the convolutions: they are run once, for actor and critic.
        features = critic.convolutions(before)
        projected = critic.projection(features)
        temperature = jnp.exp(state.log_temperature)

        def loss(actor: Actor):
            mean, log_std = self._cast(actor)(features)
            action, log_prob = losses.squashed_sample(key, mean, log_std)
            return losses.actor_loss(critic.values(projected, action), log_prob, temperature), log_prob

        (value, log_prob), gradient = jax.value_and_grad(loss, has_aux=True)(state.actor)
        actor, adam = _step(self.learning_rate, state.actor, gradient, state.actor_adam)
        actions = state.actor.trunk.layers[-1].bias.shape[-1] // 2
        temperature_loss = functools.partial(
            losses.temperature_loss, log_prob=log_prob, target_entropy=-float(actions)
        )
        slope = jax.grad(temperature_loss)(state.log_temperature)
        log_temperature, temperature_adam = _step(
            self.temperature_rate, state.log_temperature, slope, state.temperature_adam
        )
        state = eqx.tree_at(
            lambda state: (state.actor, state.actor_adam, state.log_temperature, state.temperature_adam),
            state,
            (actor, adam, log_temperature, temperature_adam),
        )
        metrics = {"actor_loss": value, "policy_entropy": -jnp.mean(log_prob), "temperature": temperature}
        return state, metrics

    def _follow(self, target: Critic, critic: Critic) -> Critic:
        return Critic(
            losses.towards(target.convolutions, critic.convolutions, self.encoder_rate),
            losses.towards(target.projection, critic.projection, self.encoder_rate),
            losses.towards(target.heads, critic.heads, self.rate),
        )

    def _views(self, key, batch: Batch, replay: Replay | None):
        """Observations before and after: pixels in crops of their own."""
        if batch.frames.ndim == 3:
            return batch.frames[:, 0], batch.frames[:, 1]
        if replay is None:
            ring, slots = _as_ring(batch.frames)
        else:
            ring, slots = replay.frames, replay.around(batch.index, self.stack)
        n, room = slots.shape[0], self._room(ring.shape)
        here, there = (crops.random_corners(one, n, room) for one in jax.random.split(key))
        before = crops.cropped(ring, slots[:, :-1], here, self.crop)
        return before, crops.cropped(ring, slots[:, 1:], there, self.crop)

    def _room(self, shape: tuple[int, ...]) -> tuple[int, int]:
        return shape[-3] - self.crop, shape[-2] - self.crop

    def _cast(self, part: Part) -> Part:
        return part if self.precision == "float32" else encoder_in(part, jnp.dtype(self.precision))

    def _check(self, spec: Spec) -> None:
        if spec.action_size < 1:
            raise GobiError(f"RAD needs vector actions; {spec.id} has {spec.num_actions} discrete ones")
        if len(spec.observation_shape) == 3 and not (
            SMALLEST_CROP <= self.crop <= min(spec.observation_shape[:2])
        ):
            raise GobiError(
                f"crop must be between {SMALLEST_CROP} and the picture's side; {spec.id} gives "
                f"{list(spec.observation_shape)}, crop is {self.crop}"
            )


def _as_ring(stacks: Array) -> tuple[Array, Array]:
    """Stacks of frames as a ring in which every frame has a slot of its own, and those slots."""
    n, frames, *shape = stacks.shape
    return stacks.reshape(n * frames, *shape), jnp.arange(n * frames, dtype=jnp.int32).reshape(n, frames)


def _adam(rate: float) -> optax.GradientTransformation:
    """Adam as in torch: epsilon is outside the root in both.

    All weights as one vector: few large operations and few arrays, where a GPU and its host wait for many.
    """
    return optax.flatten(optax.adam(rate))


def _step(rate: float, parameters: Any, gradient: Any, adam: PyTree) -> tuple[Any, PyTree]:
    changes, adam = _adam(rate).update(gradient, adam)
    return optax.apply_updates(parameters, changes), adam
