"""What was lived through, on the device: a ring of frames, each stored once, and the steps between them."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, UInt8

from gobi.errors import GobiError
from gobi.types import Spec

STACK = 3
"""Frames that a policy sees at once."""


class Batch(eqx.Module):
    """Transitions drawn from a replay.

    index:       the slot of the frame that each starts from.
    frames:      pixels: the stack before and one frame more, so that `[:, :-1]` is what the policy saw and
                 `[:, 1:]` what it saw next; vectors: before and after.
    action:      what was done.
    reward:      the task's own reward.
    terminated:  the episode ended there by the rules of the task; a time limit does not count.
    stored:      the bonus of the step as it was paid when the step was made.
    """

    index: Int32[Array, " n"]
    frames: UInt8[Array, "n frames h w c"] | Float32[Array, "n 2 size"]
    action: Float32[Array, "n actions"]
    reward: Float32[Array, " n"]
    terminated: Bool[Array, " n"]
    stored: Float32[Array, " n"]


class Sequences(eqx.Module):
    """Frames in the order they were seen, each row within one episode.

    frames:   what was seen.
    actions:  the action that led to each frame; zeros for the first of a row.
    rewards:  the task's reward that came with each frame; zero for the first of a row.
    """

    frames: UInt8[Array, "n length h w c"] | Float32[Array, "n length size"]
    actions: Float32[Array, "n length actions"]
    rewards: Float32[Array, "n length"]


class Replay(eqx.Module):
    """A ring of slots, written in order, and a list of the transitions in it.

    Frames are numbered from the first one ever seen; frame f lies in slot f % slots. A transition is known by
    the frame that it starts from, and an episode's last frame starts none: transitions therefore have a list
    of their own, the newest over the oldest, from which they are drawn by number. All functions are pure; a
    caller that compiles `begin` and `add` donates the replay, and they write in place.

    frames:       one frame per slot.
    first:        the number of the first frame of the slot's episode.
    action, reward, terminated, stored:  of the transition that starts in the slot, if one does.
    starts:       the frame that each transition starts from, by the transition's number % slots; -1: none.
    origins:      the first frame of each transition's episode, likewise.
    written:      frames since the beginning.
    transitions:  transitions since the beginning.
    """

    frames: UInt8[Array, "slots h w c"] | Float32[Array, "slots size"]
    first: Int32[Array, " slots"]
    action: Float32[Array, "slots actions"]
    reward: Float32[Array, " slots"]
    terminated: Bool[Array, " slots"]
    stored: Float32[Array, " slots"]
    starts: Int32[Array, " slots"]
    origins: Int32[Array, " slots"]
    written: Int32[Array, ""]
    transitions: Int32[Array, ""]

    @property
    def slots(self) -> int:
        """How many frames fit in."""
        return self.first.shape[0]

    @property
    def slot(self) -> Int32[Array, ""]:
        """Where the newest frame lies: the next transition starts there."""
        return (self.written - 1) % self.slots

    @property
    def size(self) -> Int32[Array, ""]:
        """How many transitions can be drawn now."""
        return self._drawable(STACK)

    def begin(self, observation: UInt8[Array, "h w c"] | Float32[Array, " size"]) -> Replay:
        """An episode begins with this frame."""
        return self._with_frame(observation, self.written)

    def add(
        self,
        action: Float32[Array, " actions"],
        reward: Float32[Array, ""],
        terminated: Bool[Array, ""],
        stored: Float32[Array, ""],
        observation: UInt8[Array, "h w c"] | Float32[Array, " size"],
    ) -> Replay:
        """A step from the newest frame to `observation`."""
        here, number = self.slot, self.transitions % self.slots
        first = self.first[here]
        replay = eqx.tree_at(
            lambda replay: (
                replay.action,
                replay.reward,
                replay.terminated,
                replay.stored,
                replay.starts,
                replay.origins,
                replay.transitions,
            ),
            self,
            (
                _put(self.action, here, action),
                _put(self.reward, here, reward),
                _put(self.terminated, here, terminated),
                _put(self.stored, here, stored),
                _put(self.starts, number, self.written - 1),
                _put(self.origins, number, first),
                self.transitions + 1,
            ),
        )
        return replay._with_frame(observation, first)

    def sample(self, key: Key[Array, ""], n: int, stack: int = STACK) -> Batch:
        """Draws n transitions, uniformly and with replacement, from those whose frames are all still there.

        Frames before an episode's first are that first frame again. Vectors are not stacked. There must be at
        least one transition.
        """
        # Slots are overwritten in order, so what is left is always the newest so many of the list.
        back = jax.random.randint(key, (n,), 0, jnp.maximum(self._drawable(stack), 1))
        frame = self.starts[(self.transitions - 1 - back) % self.slots]
        index = frame % self.slots
        return Batch(
            index=index,
            frames=self.frames[self.around(index, stack)],
            action=self.action[index],
            reward=self.reward[index],
            terminated=self.terminated[index],
            stored=self.stored[index],
        )

    def around(self, index: Int32[Array, " n"], stack: int = STACK) -> Int32[Array, "n frames"]:
        """The slots of the frames that belong to the transitions starting in these slots, oldest first."""
        newest = self.written - 1
        frame = newest - (newest - index) % self.slots
        offsets = jnp.arange(1 - self._stack(stack), 2, dtype=jnp.int32)
        return jnp.maximum(frame[:, None] + offsets, self.first[index][:, None]) % self.slots

    def sequences(self, key: Key[Array, ""], n: int, length: int) -> Sequences:
        """Draws n runs of frames of one episode each, uniformly and with replacement from all there are.

        There must be at least one: an episode with `length` frames.
        """
        newest = self.written - 1
        last = newest - (newest - jnp.arange(self.slots)) % self.slots
        whole = (last >= 0) & (last - length + 1 >= jnp.maximum(self.first, self._oldest))
        so_far = jnp.cumsum(whole, dtype=jnp.int32)
        chosen = jax.random.randint(key, (n,), 0, jnp.maximum(so_far[-1], 1))
        # The slot of the chosen-th True. Fixed work: a search would be a loop, which a GPU waits for.
        end = jnp.sum(so_far[None, :] <= chosen[:, None], axis=1, dtype=jnp.int32)
        index = (end[:, None] + jnp.arange(1 - length, 1, dtype=jnp.int32)) % self.slots
        led = index[:, :-1]
        return Sequences(
            frames=self.frames[index],
            actions=jnp.pad(self.action[led], ((0, 0), (1, 0), (0, 0))),
            rewards=jnp.pad(self.reward[led], ((0, 0), (1, 0))),
        )

    @property
    def _oldest(self) -> Int32[Array, ""]:
        """The number of the oldest frame that is still there."""
        return jnp.maximum(self.written - self.slots, 0)

    def _drawable(self, stack: int) -> Int32[Array, ""]:
        needed = jnp.maximum(self.origins, self.starts - self._stack(stack) + 1)
        return jnp.sum(needed >= self._oldest, dtype=jnp.int32)

    def _stack(self, stack: int) -> int:
        return stack if self.frames.ndim == 4 else 1

    def _with_frame(self, frame: Array, first: Int32[Array, ""]) -> Replay:
        here = self.written % self.slots
        return eqx.tree_at(
            lambda replay: (replay.frames, replay.first, replay.written),
            self,
            (_put(self.frames, here, frame), _put(self.first, here, first), self.written + 1),
        )


def empty(slots: int, spec: Spec) -> Replay:
    """A replay with room for so many frames; `slots_for` says how many a number of transitions needs."""
    pixels = len(spec.observation_shape) == 3
    if spec.action_size < 1 or spec.observation_dtype != ("uint8" if pixels else "float32"):
        raise GobiError(
            f"a replay holds uint8 pictures or float32 vectors, and vectors as actions; {spec.id} gives "
            f"{spec.observation_dtype} {list(spec.observation_shape)} and actions of size {spec.action_size}"
        )
    if slots < STACK + 1:
        raise GobiError(f"a replay needs at least {STACK + 1} slots, got {slots}")
    return Replay(
        frames=jnp.zeros((slots, *spec.observation_shape), spec.observation_dtype),
        first=jnp.zeros(slots, jnp.int32),
        action=jnp.zeros((slots, spec.action_size), jnp.float32),
        reward=jnp.zeros(slots, jnp.float32),
        terminated=jnp.zeros(slots, bool),
        stored=jnp.zeros(slots, jnp.float32),
        starts=jnp.full(slots, -1, jnp.int32),
        origins=jnp.full(slots, -1, jnp.int32),
        written=jnp.int32(0),
        transitions=jnp.int32(0),
    )


def slots_for(transitions: int, max_steps: int) -> int:
    """Slots in which so many transitions of episodes of `max_steps` can always be drawn."""
    # One frame more for each episode, the newest frame, and the stack of the oldest transition.
    return transitions + math.ceil(transitions / max_steps) + STACK


def _put(array: Array, index: Int32[Array, ""], value: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(array, value, index, 0)
