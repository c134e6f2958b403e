"""The recurrent state-space model: what is believed of the state, before and after seeing the next frame.

A belief has a deterministic part (a GRU's state) and a stochastic one (drawn from a Gaussian). An action
leads to the next deterministic part; the prior guesses the stochastic one from it, the posterior from it and
the frame that really came (Hafner et al. 2019, as in Dreamer).
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Key

from gobi.networks.initial import orthogonal
from gobi.networks.layers import Linear, product
from gobi.worlds.rssm.pictures import glorot_linear
from gobi.worlds.rssm.recurrence import Belief, Cell, Gaussian, advanced, believed, gaussian, unrolled


class Dynamics(eqx.Module):
    """The weights of the state-space model.

    enters:        from the stochastic part and the action to the GRU's input.
    gru_...:       the GRU's gates update, reset, new. The reset gate acts after the product, as in Keras.
    prior_...:     from the deterministic part to mean and spread of the stochastic one.
    posterior_...: the same from the deterministic part and the embedded frame.
    """

    enters: Linear
    gru_input: Linear
    gru_state: Linear
    prior_hidden: Linear
    prior_out: Linear
    posterior_hidden: Linear
    posterior_out: Linear

    @property
    def deterministic(self) -> int:
        """Size of the deterministic part."""
        return self.gru_state.weight.shape[-2]

    @property
    def stochastic(self) -> int:
        """Size of the stochastic part."""
        return self.prior_out.weight.shape[-1] // 2

    def advance(
        self, belief: Belief, action: Float32[Array, "*batch size"]
    ) -> Float32[Array, "*batch deterministic"]:
        """The deterministic part after an action."""
        return advanced(self.cell, belief, self.of_action(action))[0]

    def prior(self, deterministic: Float32[Array, "*batch deterministic"]) -> Gaussian:
        """What the stochastic part may be, before the frame is seen."""
        return gaussian(self.prior_out(jax.nn.elu(self.prior_hidden(deterministic))))

    def posterior(
        self,
        deterministic: Float32[Array, "*batch deterministic"],
        embedding: Float[Array, "*batch embedding"],
    ) -> Gaussian:
        """The same after the frame is seen."""
        return believed(self.cell, deterministic, self.of_embedding(embedding))[0]

    @property
    def cell(self) -> Cell:
        """What depends on the belief before."""
        return Cell(
            self.enters.weight[: self.stochastic],
            self.gru_input,
            self.gru_state,
            self.posterior_hidden.weight[: self.deterministic],
            self.posterior_out,
        )

    def of_action(self, action: Float32[Array, "*batch size"]) -> Float32[Array, "*batch hidden"]:
        """What an action adds to the first layer; for a whole sequence at once."""
        return product(action, self.enters.weight[self.stochastic :]) + self.enters.bias

    def of_embedding(self, embedding: Float[Array, "*batch embedding"]) -> Float32[Array, "*batch hidden"]:
        """What an embedded frame adds to the posterior's first layer; for a whole sequence at once."""
        weight = self.posterior_hidden.weight[self.deterministic :]
        return product(embedding, weight) + self.posterior_hidden.bias

    def unroll(
        self,
        actions: Float32[Array, "time batch size"],
        embeddings: Float[Array, "time batch embedding"],
        noise: Float32[Array, "time batch stochastic"],
    ) -> tuple[Belief, Gaussian, Gaussian]:
        """Beliefs, posteriors and priors along sequences that start from nothing.

        actions:     each led to the frame of the same place.
        noise:       standard normal; turned into the stochastic parts.
        """
        beliefs, posterior = unrolled(
            self.cell, self.of_action(actions), self.of_embedding(embeddings), noise
        )
        return beliefs, posterior, self.prior(beliefs.deterministic)


def dynamics(
    key: Key[Array, ""],
    action_size: int,
    embedding: int,
    deterministic: int = 200,
    stochastic: int = 30,
    hidden: int = 200,
) -> Dynamics:
    """Weights as Keras draws them: Glorot uniform, the GRU's own ones orthogonal, all biases zero."""
    keys = jax.random.split(key, 7)
    gates = 3 * deterministic
    return Dynamics(
        enters=glorot_linear(keys[0], stochastic + action_size, hidden),
        gru_input=glorot_linear(keys[1], hidden, gates),
        gru_state=Linear(orthogonal(keys[2], deterministic, gates), jnp.zeros(gates)),
        prior_hidden=glorot_linear(keys[3], deterministic, hidden),
        prior_out=glorot_linear(keys[4], hidden, 2 * stochastic),
        posterior_hidden=glorot_linear(keys[5], deterministic + embedding, hidden),
        posterior_out=glorot_linear(keys[6], hidden, 2 * stochastic),
    )
