"""Agent: a policy of the zoo that acts, its memory a value that is passed along. Pure, for any `jit`."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, Key, PyTree

from gobi.envs.minigrid import MiniGrid
from gobi.errors import GobiError
from gobi.training import trained
from gobi.zoo import catalogue
from gobi.zoo.catalogue import Entry


class AgentState(eqx.Module):
    """What an agent carries from step to step.

    carry:  what its policy remembers in each environment.
    key:    where the draws of its next actions come from.
    """

    carry: PyTree
    key: Key[Array, ""]


# Not an `eqx.Module`: methods of those have no hash, and `jax.jit(agent.act)` is what one tries first.
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Agent:
    """A trained agent.

    policy:  `policy(observation, first, carry)` gives logits, values and the new carry.
    env:     the task that it was trained on.
    entry:   its name, training and evaluation.
    greedy:  it takes the most likely action instead of drawing one.
    """

    policy: Any
    env: MiniGrid = dataclasses.field(metadata={"static": True})
    entry: Entry = dataclasses.field(metadata={"static": True})
    greedy: bool = dataclasses.field(metadata={"static": True})

    def initial(self, num_envs: int, seed: int = 0) -> AgentState:
        """Remembers nothing, in so many environments; a sampled agent draws by the seed."""
        return AgentState(self.policy.initial(num_envs), jax.random.key(seed))

    def act(
        self, observation: Any, first: Any, state: AgentState
    ) -> tuple[Int32[Array, " envs"], AgentState]:
        """Actions, and the state for the next step. Compiled by itself; it may be part of a larger program.

        observation:  uint8[num_envs, 7, 7, 3], an array of NumPy or JAX; Farama's minigrid calls it "image".
        first:        bool[num_envs], where an episode begins with this observation: what was is forgotten.
        """
        observation, first = jnp.asarray(observation, jnp.uint8), jnp.asarray(first, bool)
        envs, *shape = jnp.shape(observation) or (0,)
        if tuple(shape) != self.env.spec.observation_shape or first.shape != (envs,):
            wanted = ", ".join(map(str, self.env.spec.observation_shape))
            raise GobiError(
                f"an agent acts on observations [num_envs, {wanted}] and first [num_envs], "
                f"got {list(observation.shape)} and {list(first.shape)}"
            )
        return _act(self, observation, first, state)


@jax.jit
def _act(agent: Agent, observation: Array, first: Array, state: AgentState) -> tuple[Array, AgentState]:
    logits, _, carry = agent.policy(observation, first, state.carry)
    key, draw = jax.random.split(state.key)
    if not agent.greedy:
        logits += jax.random.gumbel(draw, logits.shape)
    return jnp.argmax(logits, axis=-1).astype(jnp.int32), AgentState(carry, key)


def load(name: str, greedy: bool = False) -> Agent:
    """The agent of that name in the zoo; see `gobi.zoo.load`."""
    folder = catalogue.find(name)
    entry, agents = catalogue.read(folder), trained.load(folder)
    return Agent(agents.actor(entry.seed), agents.env, entry, greedy)
