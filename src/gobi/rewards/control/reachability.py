"""Reachability on control tasks: how many codes a step adds to those seen or imagined in this episode."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, UInt32

from gobi.errors import GobiError, unknown
from gobi.memory import episodic
from gobi.rewards.control import hashing
from gobi.rewards.control.encoder import of_pixels
from gobi.rewards.control.hashing import CODES, Codes, Hashing, Scaling
from gobi.rewards.control.lessons import ControlReward, Lessons
from gobi.rewards.reward import Metrics
from gobi.types import Spec, Transition
from gobi.worlds.rssm import SCALINGS

CREDITS, UNTRAINED = ("arrival", "departure"), ("imagine", "real")


class Reachable(eqx.Module):
    """The state of `Reachability`.

    memory:   the codes of this episode.
    begun:    whether the episode's first state has been met.
    steps:    steps so far, which number the draws.
    key:      where those come from.
    belief:   what the world has made of the episode so far.
    world:    the world model.
    present:  the world model as it was when the episode began, which is what imagines: a model that learned
              within an episode would imagine known states anew.
    hashing:  from frames to codes.
    """

    memory: episodic.EpisodicSet
    begun: Bool[Array, "*seeds"]
    steps: Int32[Array, "*seeds"]
    key: Key[Array, "*seeds"]
    belief: Any
    world: Any
    present: Any
    hashing: Hashing


class Reachability(ControlReward):
    """The growth m_{t+1} - m_t of the episode's set of codes, of frames seen and frames imagined from there.

    The world filters along the episode; from each state it imagines n chains of k random actions. The growth
    is found as the step is made, and stored with it. One environment.

    world:      the world model, see `gobi.worlds.rssm.RSSM`.
    credit:     `arrival` pays a step for what its new state adds; the growth of an episode's first state
                earns nothing. `departure` pays it for what the state it left had added, as Algorithm 1 does
                line by line: there the first growth is paid, and an episode's last state never counts.
    codes:      `simhash`: signs of random projections; `learned`: those of an auto-encoder, learned online.
    bits:       of a code.
    scaling:    of pixels before the projection of SimHash: `half` for -0.5 .. 0.5, `raw` for 0 .. 255,
                `centred` for the first less the mean of all frames of earlier episodes.
    untrained:  before the world's first lesson what it imagines is noise about grey, and SimHash, which
                heeds no scale, finds a new code in nearly all of it: `real` counts real frames only until the
                first episode after that; `imagine` counts it all the same, as the paper may have done.
    schedule:   when the world has lessons.
    """

    world: Any
    credit: Literal["arrival", "departure"] = eqx.field(static=True, default="arrival")
    codes: Codes = eqx.field(static=True, default="simhash")
    bits: int = eqx.field(static=True, default=50)
    scaling: Scaling = eqx.field(static=True, default="half")
    untrained: Literal["imagine", "real"] = eqx.field(static=True, default="real")
    schedule: Lessons = eqx.field(static=True, default=Lessons())

    def __check_init__(self):
        known = {"credit": CREDITS, "codes": CODES, "scaling": SCALINGS, "untrained": UNTRAINED}
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise unknown(name, getattr(self, name), values)
        if self.bits < 1:
            raise GobiError(f"a code has at least 1 bit, not {self.bits}")

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("growth", "load/episodic", "dropped/episodic")

    @property
    def lessons(self) -> Lessons:
        """When the world learns."""
        return self.schedule

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Reachable:
        """An empty memory, and a world that has learned nothing."""
        if not of_pixels(spec):
            raise GobiError(
                f"gobi and r1 imagine pictures, and '{spec.id}' gives state vectors: train it with "
                "--observations pixels, or with one of the rewards none, re3, icm and rnd"
            )
        if num_envs != 1:
            raise GobiError(f"reachability on control tasks is for one environment, not {num_envs}")
        draws, own, hashes = jax.random.split(key, 3)
        world = self.world.init(own, spec)
        return Reachable(
            memory=episodic.empty(1, (spec.max_steps + 1) * (self.world.predictions + 1)),
            begun=jnp.zeros((), bool),
            steps=jnp.int32(0),
            key=draws,
            belief=self.world.first_belief(),
            world=world,
            # A copy of its own: a caller that donates the state may not find an array in it twice.
            present=jax.tree.map(jnp.copy, self.world.as_it_is(world)),
            hashing=hashing.init(hashes, self.codes, self.bits, self.scaling),
        )

    def step(self, state: Reachable, transition: Transition) -> tuple[Reachable, Float32[Array, " envs"]]:
        """Filters, imagines and counts what is new.

        The first state of an episode is imagined from at every step, and counts where it is one: on a GPU two
        rows cost as much as one, and asking the device which it is would stop the host.
        """
        first = ~state.begun
        keys = jax.random.split(jax.random.fold_in(state.key, state.steps), 4)
        frames = jnp.concatenate([transition.before["frame"], transition.after["frame"]])
        action = transition.action[0]
        world = _either(first, self.world.as_it_is(state.world), state.present)
        start = self.world.observe(
            world, self.world.first_belief(), jnp.zeros_like(action), frames[0], keys[0]
        )
        left = _either(first, start, state.belief)
        reached = self.world.observe(world, left, action, frames[1], keys[1])
        codes = hashing.begin_where(state.hashing, first)
        if self.credit == "arrival":
            beliefs = jax.tree.map(lambda *parts: jnp.stack(parts), left, reached)
            found, valid = self._within_reach(world, codes, beliefs, frames, keys[2:])
            counts = jnp.stack([first, jnp.ones_like(first)])
            begins = jnp.stack([first, jnp.zeros_like(first)])
        else:
            beliefs = jax.tree.map(lambda part: part[None], left)
            found, valid = self._within_reach(world, codes, beliefs, frames[:1], keys[2:3])
            counts, begins = jnp.ones(1, bool), first[None]
        memory, new = episodic.insert(
            state.memory, found[:, None], (valid & counts[:, None])[:, None], begins[:, None]
        )
        state = Reachable(
            memory=memory,
            begun=~transition.done[0],
            steps=state.steps + 1,
            key=state.key,
            belief=reached,
            world=state.world,
            present=world,
            hashing=hashing.seen(codes, self.world.shrink(frames[1:])),
        )
        return state, jnp.sum(new[-1], axis=-1).astype(jnp.float32)

    def at_sampling(
        self, state: Reachable, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Reachable, Float32[Array, " batch"], Metrics]:
        """The growth that was stored."""
        del key, batch
        logged = {
            "growth": jnp.mean(stored),
            "dropped/episodic": state.memory.dropped.astype(jnp.float32),
            "load/episodic": state.memory.load,
        }
        return state, stored, logged

    def learn(self, state: Reachable, key: Key[Array, ""], transitions: Any) -> tuple[Reachable, Metrics]:
        """One lesson, on the replay's sequences: a gradient step of the world, and of a learned hash."""
        one, other = jax.random.split(key)
        world, logged = self.world.learn(state.world, one, transitions.frames, transitions.actions)
        codes, more = hashing.learn(state.hashing, other, transitions.frames)
        return eqx.tree_at(lambda s: (s.world, s.hashing), state, (world, codes)), logged | more

    def _within_reach(
        self,
        world: Any,
        codes: Hashing,
        beliefs: Any,
        frames: Array,
        keys: Key[Array, " rows"],
    ) -> tuple[UInt32[Array, "rows codes 2"], Bool[Array, "rows codes"]]:
        """The codes of states and of what is imagined from them: M_R(s) in the paper."""
        imagined = jax.vmap(lambda belief, key: self.world.imagine(world, belief, key))(beliefs, keys)
        present = self.world.present(world, beliefs, frames)
        found = codes(jnp.concatenate([present[:, None], imagined], axis=1))
        valid = jnp.ones(found.shape[:2], bool)
        if self.untrained == "real":
            valid = valid.at[:, 1:].set(world.learned > 0)
        return found, valid


def _either(which: Bool[Array, ""], one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), one, other)
