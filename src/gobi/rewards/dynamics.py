"""Features that are learned by predicting one's own moves: what RIDE, ICM, NGU and E3B have in common.

An embedding of the view is trained together with two models on top of it: the inverse model tells from two
consecutive embeddings which action lies between them, the forward model tells from an embedding and an action
the next embedding. What the agent cannot influence helps neither, so the embedding need not keep it.
Actions are integers, or vectors of numbers: those the inverse model estimates instead of choosing among them.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, Key, Num

from gobi import settings
from gobi.agents.impala import optimiser as rmsprop
from gobi.errors import GobiError, unknown
from gobi.networks.layers import Linear, orthogonal_linear
from gobi.rewards import real_steps
from gobi.rewards.any_embedding import AnyEmbedding, any_embedding, kind_of
from gobi.rewards.embeddings import Embedding, narrow, wide
from gobi.rewards.reward import Metrics
from gobi.types import Spec, Transition, Views

KINDS = ("ride", "paper", "small")
NORMS = ("plain", "squared")
UNITS = {"ride": 128, "paper": 1024, "small": 32}
HIDDEN = {"ride": 256, "paper": 256, "small": 64}
"""Units of the hidden layer of the forward and of the inverse model."""
CLIP = 40.0
"""The largest gradient norm of each of the three networks."""


Action = Int32[Array, "*batch"] | Float32[Array, "*batch size"]
"""Integers, or vectors."""


class TwoLayers(eqx.Module):
    """A hidden layer with ReLU and a linear one."""

    hidden: Linear
    output: Linear

    def __call__(self, x: Float32[Array, "*rows inputs"]) -> Float32[Array, "*rows outputs"]:
        """The outputs of each row."""
        return self.output(jax.nn.relu(self.hidden(x)))


class Dynamics(eqx.Module):
    """The three networks. All of them take any number of rows; embeddings are computed once, by `embed`.

    embedding:  views to vectors.
    forward:    an embedding and an action, one-hot or a vector, to the next embedding.
    inverse:    two consecutive embeddings to the logits of the action between them, or to the vector it is.
    continuous: whether actions are vectors.
    """

    embedding: Embedding | AnyEmbedding
    forward: TwoLayers
    inverse: TwoLayers
    continuous: bool = eqx.field(static=True, default=False)

    @property
    def num_actions(self) -> int:
        """How many actions the inverse model tells apart, or how many numbers make one."""
        return self.inverse.output.bias.shape[-1]

    @property
    def units(self) -> int:
        """The length of an embedding."""
        return self.forward.output.bias.shape[-1]

    def embed(self, views: Num[Array, "..."]) -> Float32[Array, "... units"]:
        """The embedding of each view [..., *shape]."""
        return self.embedding(views)

    def embed_both(
        self, before: Views, after: Views
    ) -> tuple[Float32[Array, "*batch units"], Float32[Array, "*batch units"]]:
        """The embeddings of both ends of steps, in one batch."""
        both = self.embed(jnp.stack([before["observation"], after["observation"]]))
        return both[0], both[1]

    def predict(
        self, before: Float32[Array, "*batch units"], action: Action
    ) -> Float32[Array, "*batch units"]:
        """The forward model's guess at the next embedding."""
        actions = action if self.continuous else jax.nn.one_hot(action, self.num_actions, dtype=before.dtype)
        return self.forward(jnp.concatenate([before, actions], axis=-1))

    def logits(
        self, before: Float32[Array, "*batch units"], after: Float32[Array, "*batch units"]
    ) -> Float32[Array, "*batch actions"]:
        """The inverse model's guess at the action between two embeddings; the vector itself if it is one."""
        return self.inverse(jnp.concatenate([before, after], axis=-1))

    def forward_loss(
        self,
        before: Float32[Array, "*batch units"],
        after: Float32[Array, "*batch units"],
        action: Action,
        norm: str = "plain",
    ) -> Float32[Array, "*batch"]:
        """How far off the forward model is, for each row of embeddings; gradients reach both of them."""
        return size(self.predict(before, action) - after, norm)

    def inverse_losses(
        self, before: Float32[Array, "*batch units"], after: Float32[Array, "*batch units"], action: Action
    ) -> tuple[Float32[Array, "*batch"], dict[str, Float32[Array, "*batch"]]]:
        """How far off the inverse model is, for each row, and what tells it in plain terms.

        Of integers the cross-entropy, and `inverse_accuracy`, whether the likeliest is the right one. Of
        vectors the squared error, summed, and `inverse_error`, the root of its mean over the vector.
        """
        guess = self.logits(before, after)
        if self.continuous:
            squares = jnp.sum(jnp.square(guess - action), axis=-1)
            return squares, {"inverse_error": jnp.sqrt(squares / self.num_actions)}
        hits = jnp.argmax(guess, axis=-1) == action
        return cross_entropy(guess, action), {"inverse_accuracy": hits.astype(jnp.float32)}


def dynamics(key: Key[Array, ""], spec: Spec, kind: str = "ride", units: int | None = None) -> Dynamics:
    """Fresh networks for the observations and actions of a task.

    On 7x7 views, all weights are orthogonal and all biases zero. Other observations get an embedding by what
    they are, as wide as `kind` says, see `any_embedding`.

    kind:   `ride` as in RIDE's public code: integers / 255, convolutions of 32, 32 and `units` channels, all
            with stride 2, which leave one place of the 49; models with 256 hidden units.
            `paper` as the GoBI paper describes it: the policy's feature extractor, that is raw integers,
            convolutions of 32, 128 and 512 channels and two dense layers of `units`; models as above.
            `small` for laptops and tests: one-hot cells, 16, 16 and `units` channels, 64 hidden units.
    units:  the length of an embedding; None takes 128, 1024 and 32.
    """
    check_options(kind, units)
    units, hidden = UNITS[kind] if units is None else units, HIDDEN[kind]
    embedding, forward, inverse = jax.random.split(key, 3)
    actions = spec.action_size or spec.num_actions
    return Dynamics(
        embedding=_embedding(embedding, spec, kind, units),
        forward=_two_layers(forward, units + actions, hidden, units),
        inverse=_two_layers(inverse, 2 * units, hidden, actions),
        continuous=spec.action_size > 0,
    )


class Learner(eqx.Module):
    """Networks in training: what a reward keeps in its state.

    network:    the networks.
    optimiser:  the running squares of their gradients (RMSProp).
    """

    network: Dynamics
    optimiser: rmsprop.RMSProp


def learner(key: Key[Array, ""], spec: Spec, kind: str = "ride", units: int | None = None) -> Learner:
    """Fresh networks, see `dynamics`, and an optimiser that has seen nothing."""
    network = dynamics(key, spec, kind, units)
    return Learner(network, rmsprop.init(network))


def learn(
    state: Learner,
    transitions: Transition,
    forward: float = 10.0,
    inverse: float = 0.1,
    norm: str = "plain",
    learning_rate: float | Float32[Array, ""] = 1e-4,
) -> tuple[Learner, Metrics]:
    """One step of RMSProp on a rollout [time, envs]: losses summed over time, averaged over environments.

    forward, inverse:  the weights of the two losses. A loss of weight 0 is left out, and is not logged.
    norm:              the forward loss: the length of the error, or its square.

    The rate is constant, and the gradient of each network is clipped by itself. The last step of an episode
    counts like any other: `after` is where it led. Where no step was made there is nothing to learn.
    """
    real = transitions.real

    def total(network: Dynamics) -> tuple[Float32[Array, ""], Metrics]:
        before, after = network.embed_both(transitions.before, transitions.after)
        loss, logged = jnp.float32(0), {}
        if forward:
            rows = network.forward_loss(before, after, transitions.action, norm)
            loss += forward * jnp.sum(real_steps.over_envs(rows, real))
            logged |= {"forward_loss": real_steps.over_all(rows, real)}
        if inverse:
            rows, told = network.inverse_losses(before, after, transitions.action)
            loss += inverse * jnp.sum(real_steps.over_envs(rows, real))
            told |= {"inverse_loss": rows}
            logged |= {name: real_steps.over_all(values, real) for name, values in told.items()}
        return loss, logged

    gradients, logged = jax.grad(total, has_aux=True)(state.network)
    parts = gradients.embedding, gradients.forward, gradients.inverse
    clipped = [rmsprop.clip(part, rmsprop.norm(part), CLIP) for part in parts]
    gradients = Dynamics(*clipped, continuous=gradients.continuous)
    network, squares = rmsprop.step(state.network, gradients, state.optimiser, learning_rate)
    return real_steps.if_any(real, Learner(network, squares), state), logged


def size(vectors: Float32[Array, "*batch units"], norm: str) -> Float32[Array, "*batch"]:
    """The length of each vector (`plain`) or its square (`squared`). The gradient at 0 is 0."""
    squares = jnp.sum(jnp.square(vectors), axis=-1)
    if norm == "squared":
        return squares
    positive = squares > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squares, 1)), 0)


def cross_entropy(
    logits: Float32[Array, "*batch actions"], action: Int32[Array, "*batch"]
) -> Float32[Array, "*batch"]:
    """Minus the log probability of each action."""
    chosen = jax.nn.one_hot(action, logits.shape[-1], dtype=logits.dtype)
    return -jnp.sum(jax.nn.log_softmax(logits) * chosen, axis=-1)


def check_options(
    kind: str,
    units: int | None,
    norm: str = "plain",
    forward: float = 1.0,
    inverse: float = 1.0,
    **positive: float,
) -> None:
    """Refuses networks and norms that do not exist, losses that train nothing, and rates that do harm."""
    if kind not in KINDS:
        raise unknown("network", kind, KINDS)
    if units is not None and units < 1:
        raise GobiError(f"an embedding has at least one unit, not {units}")
    if norm not in NORMS:
        raise unknown("norm", norm, NORMS)
    settings.at_least(0, forward=forward, inverse=inverse)
    if forward == inverse == 0:
        raise GobiError("the weights of the losses, forward and inverse, must not both be 0")
    settings.positive(**positive)


def _embedding(key: Key[Array, ""], spec: Spec, kind: str, units: int) -> Embedding | AnyEmbedding:
    if kind_of(spec) != "view":
        return any_embedding(key, spec, kind, units)
    if kind == "paper":
        return wide(key, units)
    return narrow(key, units) if kind == "ride" else narrow(key, units, "onehot", channels=16)


def _two_layers(key: Key[Array, ""], inputs: int, hidden: int, outputs: int) -> TwoLayers:
    one, two = jax.random.split(key)
    return TwoLayers(
        orthogonal_linear(one, inputs, hidden), orthogonal_linear(two, hidden, outputs, gain=1.0)
    )
