"""The RSSM as a world: it filters along an episode, imagines random futures, and learns from sequences."""

from __future__ import annotations

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int32, Key, PyTree, UInt8

from gobi.errors import GobiError
from gobi.types import Spec
from gobi.worlds.random_actions import DRAWS, random_actions
from gobi.worlds.rssm import network as networks
from gobi.worlds.rssm.frames import SHAPE, shrink
from gobi.worlds.rssm.losses import FREE_NATS, model_loss
from gobi.worlds.rssm.network import Network, Sizes
from gobi.worlds.rssm.recurrence import Belief

# What each option may be, for messages.
CHOICES = {
    "draws": DRAWS,
    "prior": ("sample", "mean"),
    "hashed": ("real", "reconstructed"),
    "precision": ("float32", "bfloat16"),
}


class RSSMState(eqx.Module):
    """What the world model has learned.

    network:    its weights, float32.
    optimiser:  Adam's state; None where it is not to learn any more.
    learned:    gradient steps taken.
    """

    network: Network
    optimiser: PyTree
    learned: Int32[Array, ""]


class RSSM(eqx.Module):
    """Dreamer's world model without the reward head, for frames and vector actions.

    steps:          k, how far it imagines; 0 imagines nothing, as a control.
    actions:        n, how many futures; each takes a fresh random action at every step.
    draws:          random actions are `uniform` in -1 .. 1, or `normal` and cut off there.
    prior:          imagined stochastic parts are drawn (`sample`) or the prior's `mean`.
    hashed:         what stands for the present state among the codes: the `real` frame, made 64x64, or what
                    the model has made of it (`reconstructed`), which is as blurred as what it imagines.
    precision:      of the products in learning. Filtering and imagining, a frame at a time, are float32.
    sizes:          widths of the network.
    """

    steps: int = eqx.field(static=True, default=1)
    actions: int = eqx.field(static=True, default=5)
    draws: str = eqx.field(static=True, default="uniform")
    prior: str = eqx.field(static=True, default="sample")
    hashed: str = eqx.field(static=True, default="real")
    precision: str = eqx.field(static=True, default="float32")
    learning_rate: float = eqx.field(static=True, default=6e-4)
    clip: float = eqx.field(static=True, default=100.0)
    free_nats: float = eqx.field(static=True, default=FREE_NATS)
    sizes: Sizes = eqx.field(static=True, default=Sizes())

    def __check_init__(self):
        if self.actions < 1 or self.steps < 0:
            raise GobiError(
                f"the RSSM imagines at least 1 action and 0 steps, not {self.actions} and {self.steps}"
            )
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise GobiError(
                    f"the RSSM's {name} must be one of {', '.join(known)}, not '{getattr(self, name)}'"
                )

    @property
    def predictions(self) -> int:
        """How many frames it imagines per state."""
        return self.actions * self.steps

    @property
    def needed(self) -> bool:
        """Whether anything is asked of it that must be learned."""
        return self.predictions > 0 or self.hashed == "reconstructed"

    def init(self, key: Key[Array, ""], spec: Spec) -> RSSMState:
        """A model that has learned nothing."""
        if spec.action_size < 1 or len(spec.observation_shape) != 3:
            raise GobiError(
                f"the RSSM needs pictures and vector actions; '{spec.id}' has observations of shape "
                f"{spec.observation_shape} and {spec.action_size} numbers per action"
            )
        network = networks.build(key, spec.action_size, self.sizes)
        optimiser = self._optimiser().init(cast(optax.Params, network))
        return RSSMState(network, optimiser, jnp.zeros((), jnp.int32))

    def as_it_is(self, ws: RSSMState) -> RSSMState:
        """What of its state it imagines with: a caller may keep it while the world goes on learning."""
        return RSSMState(ws.network, None, ws.learned)

    def first_belief(self, batch: tuple[int, ...] = ()) -> Belief:
        """Before an episode's first frame, which is then observed with a zero action."""
        return Belief(
            jnp.zeros((*batch, self.sizes.deterministic)), jnp.zeros((*batch, self.sizes.stochastic))
        )

    def observe(
        self,
        ws: RSSMState,
        belief: Belief,
        action: Float32[Array, "*batch size"],
        frame: UInt8[Array, "*batch h w 3"],
        key: Key[Array, ""],
    ) -> Belief:
        """The belief after an action led to a frame."""
        model = ws.network.dynamics
        deterministic = model.advance(belief, action)
        posterior = model.posterior(deterministic, ws.network.encoder(shrink(frame)))
        return Belief(deterministic, posterior.sample(jax.random.normal(key, belief.stochastic.shape)))

    def imagine(
        self, ws: RSSMState, belief: Belief, key: Key[Array, ""]
    ) -> Float32[Array, "predictions 64 64 3"]:
        """Decoded frames of n random futures from one belief: all first steps, then all second ones, ..."""
        if not self.steps:
            return jnp.zeros((0, *SHAPE))
        size = ws.network.dynamics.enters.weight.shape[-2] - self.sizes.stochastic
        belief = jax.tree.map(lambda part: jnp.broadcast_to(part, (self.actions, *part.shape)), belief)
        followed = []
        for step_key in jax.random.split(key, self.steps):
            action_key, noise_key = jax.random.split(step_key)
            action = random_actions(action_key, self.draws, self.actions, size)
            belief = self.follow(ws, belief, action, noise_key)
            followed.append(belief.features)
        return ws.network.decoder(jnp.concatenate(followed))

    def follow(
        self, ws: RSSMState, belief: Belief, action: Float32[Array, "*batch size"], key: Key[Array, ""]
    ) -> Belief:
        """What the model believes would follow from an action, without seeing it."""
        deterministic = ws.network.dynamics.advance(belief, action)
        prior = ws.network.dynamics.prior(deterministic)
        if self.prior == "mean":
            return Belief(deterministic, prior.mean)
        return Belief(deterministic, prior.sample(jax.random.normal(key, belief.stochastic.shape)))

    def decode(self, ws: RSSMState, belief: Belief) -> Float32[Array, "*batch 64 64 3"]:
        """The frame that a belief stands for, in about -0.5 .. 0.5."""
        return ws.network.decoder(belief.features)

    def present(
        self, ws: RSSMState, belief: Belief, frame: UInt8[Array, "*batch h w 3"]
    ) -> Float32[Array, "*batch 64 64 3"]:
        """What is to be hashed for the present state, as `hashed` says; the belief has seen the frame."""
        return shrink(frame) if self.hashed == "real" else self.decode(ws, belief)

    def shrink(self, frame: UInt8[Array, "*batch h w 3"]) -> Float32[Array, "*batch 64 64 3"]:
        """A rendered frame as the model sees it."""
        return shrink(frame)

    def learn(
        self,
        ws: RSSMState,
        key: Key[Array, ""],
        frames: UInt8[Array, "batch time h w 3"],
        actions: Float32[Array, "batch time size"],
    ) -> tuple[RSSMState, dict[str, Float32[Array, ""]]]:
        """One gradient step on sequences, measured before it; actions[:, t] led to frames[:, t]."""
        batch, time = frames.shape[:2]
        noise = jax.random.normal(key, (time, batch, self.sizes.stochastic))
        small = shrink(frames)

        def loss(network: Network):
            return model_loss(
                networks.cast(network, self.precision), small, actions, noise, free_nats=self.free_nats
            )

        gradient, metrics = jax.grad(loss, has_aux=True)(ws.network)
        changes, optimiser = self._optimiser().update(gradient, ws.optimiser)
        network = cast(Network, optax.apply_updates(cast(optax.Params, ws.network), changes))
        metrics |= {"world/gradient": optax.tree.norm(gradient)}
        return RSSMState(network, optimiser, ws.learned + 1), metrics

    def _optimiser(self) -> optax.GradientTransformation:
        # 1e-7 is what Keras adds to the root, where optax has 1e-8.
        adam = optax.adam(self.learning_rate, eps=1e-7)
        # As one vector: few large operations and few arrays, where a GPU and its host wait for many.
        return optax.flatten(optax.chain(optax.clip_by_global_norm(self.clip), adam))
