"""Reachability on control tasks: how many codes a step adds to those seen or imagined in this episode."""

from __future__ import annotations

import dataclasses
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
PICTURE_OPTIONS = {"codes": "simhash", "scaling": "half"}
"""Options that mean nothing of state vectors, and what they are there."""


class Reachable(eqx.Module):
    """The state of `Reachability`.

    memory:     the codes of this episode.
    latest:     of the last step: how many codes it added, and whether its own frame's was among them.
    steps:      steps so far, which number the draws.
    key:        where those come from.
    belief:     what the world has made of the episode so far.
    no_action:  zeros: what led to an episode's first frame.
    world:      the world model.
    present:    the world model as it was when the episode began, which is what imagines: a model that learned
                within an episode would imagine known states anew.
    hashing:    from frames to codes.
    """

    memory: episodic.EpisodicSet
    latest: Float32[Array, "*seeds 2"]
    steps: Int32[Array, "*seeds"]
    key: Key[Array, "*seeds"]
    belief: Any
    no_action: Float32[Array, "*seeds size"]
    world: Any
    present: Any
    hashing: Hashing


class Reachability(ControlReward):
    """The growth m_{t+1} - m_t of the episode's set of codes, of frames seen and frames imagined from there.

    The world filters along the episode; from each state it imagines n chains of k random actions. The growth
    is found as the step is made, and stored with it. One environment, whose episodes `begin` is told of.

    world:      the world model: `gobi.worlds.rssm.RSSM` of pixels, `gobi.worlds.StateModel` of state vectors.
    credit:     `arrival` pays a step for what its new state adds; the growth of an episode's first state
                earns nothing. `departure` pays it for what the state it left had added, as Algorithm 1 does
                line by line: there the first growth is paid, and an episode's last state never counts.
    codes:      `simhash`: signs of random projections (of state vectors with offsets, see `OffsetHash`);
                `learned`: those of an auto-encoder, learned online, of pictures alone.
    bits:       of a code. Of state vectors the recipes take 16.
    scaling:    of pixels before the projection of SimHash: `half` for -0.5 .. 0.5, `raw` for 0 .. 255,
                `centred` for the first less the mean of all frames of earlier episodes. State vectors have
                the scale that their world gives them.
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
        return ("growth", "growth/made", "growth/seen", "load/episodic", "dropped/episodic")

    @property
    def lessons(self) -> Lessons | None:
        """When the world, or a learned hash, learns; None where neither is needed."""
        return self.schedule if self.world.needed or self.codes == "learned" else None

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int = 1) -> Reachable:
        """An empty memory, and a world that has learned nothing."""
        if num_envs != 1:
            raise GobiError(f"reachability on control tasks is for one environment, not {num_envs}")
        draws, own, hashes = jax.random.split(key, 3)
        world = self.world.init(own, spec)
        return Reachable(
            memory=episodic.empty(1, (spec.max_steps + 1) * (self.world.predictions + 1)),
            latest=jnp.zeros(2),
            steps=jnp.int32(0),
            key=draws,
            belief=self.world.first_belief(),
            no_action=jnp.zeros(spec.action_size),
            world=world,
            present=_copied(self.world.as_it_is(world)),
            hashing=self._hashing(hashes, spec),
        )

    def begin(self, state: Reachable, frame: Array) -> Reachable:
        """An episode begins: the memory is emptied, and what has been learned until now takes effect.

        Credited on arrival, the first state and what is imagined from it are known from here on.
        """
        observing, _, imagining, _ = self.draws(state)
        present = _copied(self.world.as_it_is(state.world))
        belief = self.world.observe(present, self.world.first_belief(), state.no_action, frame, observing)
        codes = hashing.begin(state.hashing)
        if self.credit == "arrival":
            found, valid = self._within_reach(present, codes, belief, frame, imagining)
        else:
            found, valid = jnp.zeros((1, 2), jnp.uint32), jnp.zeros(1, bool)
        memory, _ = _entered(state.memory, found, valid, begins=True)
        return dataclasses.replace(state, memory=memory, belief=belief, present=present, hashing=codes)

    def step(self, state: Reachable, transition: Transition) -> tuple[Reachable, Float32[Array, " envs"]]:
        """Filters, imagines and counts what is new; of an episode that `begin` was told of."""
        _, observing, _, imagining = self.draws(state)
        left, frame = transition.before["frame"][0], transition.after["frame"][0]
        reached = self.world.observe(state.present, state.belief, transition.action[0], frame, observing)
        where = (reached, frame) if self.credit == "arrival" else (state.belief, left)
        found, valid = self._within_reach(state.present, state.hashing, *where, imagining)
        memory, new = _entered(state.memory, found, valid, begins=False)
        growth = jnp.sum(new).astype(jnp.float32)
        state = dataclasses.replace(
            state,
            memory=memory,
            latest=jnp.stack([growth, new[0].astype(jnp.float32)]),
            steps=state.steps + 1,
            belief=reached,
            hashing=hashing.seen(state.hashing, frame[None]),
        )
        return state, growth[None]

    def draws(self, state: Reachable) -> Key[Array, " 4"]:
        """To observe at an episode's beginning, and at a step; to imagine at either."""
        return jax.random.split(jax.random.fold_in(state.key, state.steps), 4)

    def at_sampling(
        self, state: Reachable, key: Key[Array, ""], stored: Float32[Array, " batch"], batch: Any
    ) -> tuple[Reachable, Float32[Array, " batch"], Metrics]:
        """The growth that was stored."""
        del key, batch
        logged = {
            "growth": jnp.mean(stored),
            "growth/made": state.latest[0],
            "growth/seen": state.latest[1],
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

    def _hashing(self, key: Key[Array, ""], spec: Spec) -> Hashing:
        if of_pixels(spec):
            return hashing.of_frames(key, self.codes, self.bits, self.scaling)
        for name, known in PICTURE_OPTIONS.items():
            if (value := getattr(self, name)) != known:
                raise GobiError(f"{name}={value} is for pictures, and '{spec.id}' gives state vectors")
        return hashing.of_states(key, spec.observation_shape[0], self.bits)

    def _within_reach(
        self, world: Any, codes: Hashing, belief: Any, frame: Array, key: Key[Array, ""]
    ) -> tuple[UInt32[Array, "codes 2"], Bool[Array, " codes"]]:
        """The codes of a state and of what is imagined from it: M_R(s) in the paper."""
        alone = jax.tree.map(lambda part: part[None], belief)
        shown = self.world.present(world, alone, frame[None])
        found = codes(jnp.concatenate([shown, self.world.imagine(world, belief, key)]))
        valid = jnp.ones(len(found), bool)
        if self.untrained == "real":
            valid = valid.at[1:].set(world.learned > 0)
        return found, valid


def _copied(tree: Any) -> Any:
    """Arrays of its own: a caller that donates the state may not find one in it twice."""
    return jax.tree.map(jnp.copy, tree)


def _entered(
    memory: episodic.EpisodicSet,
    codes: UInt32[Array, "codes 2"],
    valid: Bool[Array, " codes"],
    *,
    begins: bool,
) -> tuple[episodic.EpisodicSet, Bool[Array, " codes"]]:
    """The one environment's memory after one step's codes, and which of them were new."""
    memory, new = episodic.insert(
        memory, codes[None, None], valid[None, None], jnp.full((1, 1), begins, bool)
    )
    return memory, new[0, 0]
