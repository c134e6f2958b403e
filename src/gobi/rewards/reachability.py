"""Reachability: how many states a step adds to those seen or imagined to be within reach in this episode."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, Shaped, UInt32

from gobi.errors import GobiError
from gobi.memory import episodic, executed, table
from gobi.memory.codes import SimHash, exact
from gobi.rewards.real_steps import over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition, Views
from gobi.worlds.erasure import Erase, erased

CHUNK = 64
"""First states of episodes that are imagined from together: few of a rollout's steps begin an episode."""
MOST_CODES = 2**16
"""Codes per environment to begin with, at most. Longer episodes with more predictions grow from there."""

Codes = tuple[UInt32[Array, "*batch codes 2"], Bool[Array, "*batch codes"]]
"""Codes of states and of what is imagined from them, and which of these are possible."""


class Reachable(eqx.Module):
    """The state of `Reachability`.

    memory:    the codes of this episode, for each environment.
    executed:  what has been done from where in this episode; None without the rule that needs it.
    begun:     whether an environment's first state is in its memory.
    steps:     steps so far, which number the draws of a world that needs any.
    key:       where those draws come from.
    world:     the world's own state.
    """

    memory: episodic.EpisodicSet
    executed: executed.Executed | None
    begun: Bool[Array, " envs"]
    steps: Int32[Array, ""]
    key: Key[Array, ""]
    world: Any


class Reachability(Reward):
    """The growth m_{t+1} - m_t of the episodic memory of seen and imagined states (the paper's equation 1).

    world:          what is imagined to be within reach.
    hash:           from observations to codes; None is exact.
    credit:         `arrival` pays a step for what its new state adds, as equation 1 and the public code do;
                    the growth of an episode's first state earns nothing. `departure` pays it for what the
                    state it left had added, as Algorithm 1 does line by line: there the first growth is paid,
                    and an episode's last state never counts.
    erase:          keys, balls and boxes are taken out of what is hashed (the public code on ObstructedMaze);
                    with `lying` only where they lie, and not what is carried.
    skip_executed:  predictions for the actions from the first one on that was already executed from an equal
                    observation in this episode are left out (a rule of the public code, not in the paper).
    capacity:       codes per environment to have room for; None takes what an episode can bring, to a limit.
    """

    world: Any
    hash: SimHash | None = None
    credit: Literal["arrival", "departure"] = eqx.field(static=True, default="arrival")
    erase: Erase = eqx.field(static=True, default=False)
    skip_executed: bool = eqx.field(static=True, default=False)
    capacity: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if self.credit not in ("arrival", "departure"):
            raise GobiError(f"credit must be arrival or departure, got {self.credit!r}")
        if self.skip_executed and self.credit == "departure":
            raise GobiError(
                "skip_executed is a rule of the public code, which credits arrival: not with departure"
            )
        # A grid model that samples six of seven actions imagines as many views, but not of one action each.
        one_each = self.world.predictions == len(self.world.actions) and not getattr(self.world, "sampled", 0)
        if self.skip_executed and not one_each:
            raise GobiError("skip_executed needs a world that imagines each action once, one step ahead")

    @property
    def reads(self) -> frozenset[str]:
        """The observation, and what the world needs."""
        return self.world.reads | {"observation"}

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Reachable:
        """Empty memories."""
        draws, own = jax.random.split(key)
        room = self.capacity or _codes_of_an_episode(spec, self.world.predictions + 1)
        return Reachable(
            memory=episodic.empty(num_envs, room),
            executed=executed.empty(num_envs, _codes_of_an_episode(spec, 1)) if self.skip_executed else None,
            begun=jnp.zeros(num_envs, bool),
            steps=jnp.int32(0),
            key=draws,
            world=self.world.init(own, spec, num_envs),
        )

    def rollout(
        self, state: Reachable, transitions: Transition
    ) -> tuple[Reachable, Float32[Array, "time envs"], Metrics]:
        """Imagines from all states of the rollout at once, and enters it all into the memories in order.

        Where no step was made nothing is paid. That lane's codes are an episode of their own, and forgotten.
        """
        first = jnp.concatenate([~state.begun[None], transitions.done[:-1]])
        pay = self._departures if self.credit == "departure" else self._arrivals
        state, growth = pay(state, transitions, first)
        state = eqx.tree_at(
            lambda s: (s.begun, s.steps), state, (~transitions.done[-1], state.steps + len(growth))
        )
        bonus = growth.astype(jnp.float32)
        if transitions.real is not None:
            bonus = jnp.where(transitions.real, bonus, 0)
        logged = {
            "growth": over_all(bonus, transitions.real),
            "dropped/episodic": state.memory.dropped.astype(jnp.float32),
            "load/episodic": state.memory.load,
        }
        if state.executed is not None:
            logged |= {
                "dropped/executed": state.executed.dropped.astype(jnp.float32),
                "load/executed": state.executed.load,
            }
        return state, bonus, logged

    def learn(
        self, state: Reachable, key: Key[Array, ""], transitions: Transition
    ) -> tuple[Reachable, Metrics]:
        """The world learns, or measures how well it predicted."""
        world, logged = self.world.learn(state.world, key, transitions)
        return eqx.tree_at(lambda s: s.world, state, world, is_leaf=lambda part: part is None), logged

    def grow(self, state: Reachable, memories: frozenset[str]) -> Reachable:
        """Four times the room for every environment, in either memory."""
        if "episodic" in memories:
            state = eqx.tree_at(lambda s: s.memory, state, episodic.grow(state.memory))
        if "executed" in memories and state.executed is not None:
            state = eqx.tree_at(lambda s: s.executed, state, executed.grow(state.executed))
        return state

    def _departures(
        self, state: Reachable, transitions: Transition, first: Bool[Array, "time envs"]
    ) -> tuple[Reachable, Int32[Array, "time envs"]]:
        codes, valid = self._within_reach(state, transitions.before, self.draws(state, first, which=0))
        memory, new = episodic.insert(state.memory, codes, valid, first)
        return eqx.tree_at(lambda s: s.memory, state, memory), jnp.sum(new, axis=-1, dtype=jnp.int32)

    def _arrivals(
        self, state: Reachable, transitions: Transition, first: Bool[Array, "time envs"]
    ) -> tuple[Reachable, Int32[Array, "time envs"]]:
        (codes, valid), (starts, real) = self._arrived_and_started(state, transitions, first)
        if state.executed is not None:
            state, allowed = self.not_executed(state, transitions, first, codes[:, :, 0])
            valid = valid & allowed
        # At each time first the start of an episode, if there is one, then what the step led to.
        time, envs = first.shape
        both = jnp.stack([starts, codes], axis=1).reshape(2 * time, *codes.shape[1:])
        which = jnp.stack([real & first[..., None], valid], axis=1).reshape(2 * time, *valid.shape[1:])
        begins = jnp.stack([first, jnp.zeros_like(first)], axis=1).reshape(2 * time, envs)
        memory, new = episodic.insert(state.memory, both, which, begins)
        growth = jnp.sum(new[1::2], axis=-1, dtype=jnp.int32)
        return eqx.tree_at(lambda s: s.memory, state, memory), growth

    def _arrived_and_started(
        self, state: Reachable, transitions: Transition, first: Bool[Array, "time envs"]
    ) -> tuple[Codes, Codes]:
        """What is within reach of the states that the steps led to, and of the first states of episodes."""
        arriving, starting = (self.draws(state, first, which) for which in (1, 0))
        if self._rows_at_once is None:
            arrived = self._within_reach(state, transitions.after, arriving)
            return arrived, self._where(first, CHUNK, state, transitions.before, starting)
        # Few states begin an episode: with the others, they fill up a chunk, and one program serves both.
        views = {
            name: jax.tree.map(
                lambda *parts: jnp.concatenate(parts), transitions.after[name], transitions.before[name]
            )
            for name in self.reads
        }
        wanted = jnp.concatenate([jnp.ones_like(first), first])
        keys = jnp.concatenate([arriving, starting])
        codes, valid = self._where(wanted, self._rows_at_once, state, views, keys)
        steps = len(first)
        return (codes[:steps], valid[:steps]), (codes[steps:], valid[steps:])

    @property
    def _rows_at_once(self) -> int | None:
        """How many states the world would rather imagine from together; None is all of them."""
        return getattr(self.world, "rows_at_once", None)

    def not_executed(
        self,
        state: Reachable,
        transitions: Transition,
        first: Bool[Array, "time envs"],
        arrived: UInt32[Array, "time envs 2"],
    ) -> tuple[Reachable, Bool[Array, "time envs codes"]]:
        """Which codes the rule leaves: one's own, and predictions before the first action executed here."""
        assert state.executed is not None
        left = self.code(transitions.before["observation"])
        done, masks = executed.query_and_add(state.executed, arrived, left, transitions.action, first)
        actions = jnp.array(self.world.actions, jnp.uint32)
        # All actions up to and including this one, in the order in which they are imagined.
        upto = jnp.cumsum(jnp.uint32(1) << actions, dtype=jnp.uint32)
        allowed = masks[..., None] & upto == 0
        own = jnp.ones((*allowed.shape[:2], 1), bool)
        return eqx.tree_at(lambda s: s.executed, state, done), jnp.concatenate([own, allowed], axis=-1)

    def draws(self, state: Reachable, first: Bool[Array, "time envs"], which: int) -> Key[Array, "time envs"]:
        """One key for each step and environment: the same whether steps come singly or as a rollout."""
        time, envs = first.shape
        steps = state.steps + jnp.arange(time)
        at = jax.vmap(lambda step: jax.random.fold_in(jax.random.fold_in(state.key, step), which))(steps)
        return jax.vmap(lambda key: jax.random.split(key, envs))(at)

    def _within_reach(self, state: Reachable, views: Views, keys: Key[Array, "*batch"]) -> Codes:
        """The codes of states and of what is imagined from them: M_R(s) in the paper."""
        batch = keys.shape
        rows = {
            name: jax.tree.map(lambda part: part.reshape(-1, *part.shape[len(batch) :]), views[name])
            for name in self.reads
        }
        everything = rows["observation"][:, None]
        real = jnp.ones(everything.shape[:2], bool)
        if self.world.predictions:
            imagined, valid = self.world.imagine(state.world, keys.reshape(-1), rows)
            everything = jnp.concatenate([everything, imagined], axis=1)
            real = jnp.concatenate([real, valid], axis=1)
        codes = self.code(everything)
        return codes.reshape(*batch, -1, 2), real.reshape(*batch, -1)

    def _where(
        self,
        wanted: Bool[Array, "time envs"],
        chunk: int,
        state: Reachable,
        views: Views,
        keys: Key[Array, "time envs"],
    ) -> Codes:
        """`_within_reach` of the wanted ones only, a chunk at a time; anything elsewhere.

        Of states that look alike to a world that always imagines the same, the first serves all.
        """
        rows = wanted.size
        chunk = min(chunk, rows)
        flat = {
            name: jax.tree.map(lambda part: part.reshape(rows, *part.shape[2:]), views[name])
            for name in self.reads
        }
        alike = self._alike(flat, wanted.reshape(-1)) if getattr(self.world, "repeatable", False) else None
        each = jnp.arange(rows, dtype=jnp.int32)
        chosen = wanted.reshape(-1) if alike is None else wanted.reshape(-1) & (alike == each)
        rank = jnp.cumsum(chosen, dtype=jnp.int32) - 1
        # The chosen ones come first; the last chunk is filled up with row 0.
        padded = rows + -rows % chunk
        order = jnp.zeros(padded, jnp.int32).at[jnp.where(chosen, rank, padded)].set(each, mode="drop")
        keys = keys.reshape(-1)
        count = jnp.sum(chosen)

        def more(carry):
            return carry[0] * chunk < count

        def imagine(carry):
            turn, *written = carry
            row = jax.lax.dynamic_slice_in_dim(order, turn * chunk, chunk)
            picked = jax.tree.map(lambda part: part[row], flat)
            found = self._within_reach(state, picked, keys[row])
            put = jax.lax.dynamic_update_slice_in_dim
            return turn + 1, *(
                put(whole, part, turn * chunk, axis=0) for whole, part in zip(written, found, strict=True)
            )

        width = self.world.predictions + 1
        nothing = jnp.zeros((padded, width, 2), jnp.uint32), jnp.zeros((padded, width), bool)
        _, codes, valid = jax.lax.while_loop(more, imagine, (jnp.int32(0), *nothing))
        place = jnp.maximum(rank if alike is None else rank[alike], 0).reshape(wanted.shape)
        return codes[place], valid[place]

    def _alike(
        self, views: dict[str, Shaped[Array, "rows ..."]], wanted: Bool[Array, " rows"]
    ) -> Int32[Array, " rows"]:
        """For each wanted row the first wanted one in which the world, and the agent, see the same."""
        seen = jnp.concatenate([views[name].reshape(len(wanted), -1) for name in sorted(self.reads)], axis=1)
        batch = table.runs(exact(seen, ndim=1), wanted, jnp.zeros(len(wanted), jnp.int32))
        return table.unsorted(batch, batch.order[batch.start])

    def code(self, observation: Shaped[Array, "a b ..."]) -> UInt32[Array, "a b 2"]:
        """The codes of observations, movable objects taken out first if they are to be."""
        seen = erased(observation, self.erase)
        return exact(seen, ndim=seen.ndim - 2) if self.hash is None else self.hash(seen)


def _codes_of_an_episode(spec: Spec, codes_per_step: int) -> int:
    """The most codes that an episode can bring, or the most to make room for beforehand."""
    return min((spec.max_steps + 1) * codes_per_step, MOST_CODES)
