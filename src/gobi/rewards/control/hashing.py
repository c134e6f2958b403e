"""From frames, or states, to codes, by signs of projections or learned; the same all through an episode."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key, UInt8, UInt32

from gobi.memory.codes import SimHash
from gobi.memory.learned_codes import AutoEncoder, CodeSettings, LearnedCodes
from gobi.memory.offset_codes import OffsetHash
from gobi.rewards.reward import Metrics
from gobi.worlds.rssm import SHAPE, MeanImage, scaled, shrink

Codes = Literal["simhash", "learned"]
Scaling = Literal["half", "raw", "centred"]
CODES = ("simhash", "learned")
EVERY = 10
"""Of the frames of a lesson's sequences, a learned hash takes one in so many: neighbours look alike."""


class Hashing(eqx.Module):
    """A hash, and what of it holds for the present episode.

    Codes must not change within an episode, or known frames would be new again: what is learned in the
    meantime, and the mean of the frames, take effect with the next one.

    hash:     the hash, as it has been learned so far; an OffsetHash of state vectors.
    network:  the learned hash's weights for this episode; None with SimHash.
    centre:   the mean image for this episode; None but for the scaling `centred`.
    frames:   the mean image up to now; None likewise.
    """

    hash: SimHash | LearnedCodes
    network: AutoEncoder | None
    centre: Float32[Array, "64 64 3"] | None
    frames: MeanImage | None
    scaling: Scaling = eqx.field(static=True)

    def __call__(self, frames: Float32[Array, "..."]) -> UInt32[Array, "*batch 2"]:
        """The code of each 64x64 frame of pixels in -0.5 .. 0.5, or of each state in units of its spread."""
        if isinstance(self.hash, OffsetHash):
            return self.hash(frames)
        if isinstance(self.hash, LearnedCodes):
            return eqx.tree_at(lambda learned: learned.network, self.hash, self.network)(frames)
        return self.hash(scaled(frames, self.scaling, self.centre))


def of_states(key: Key[Array, ""], size: int, bits: int) -> Hashing:
    """A hash of state vectors of so many numbers.

    They are few, so that hyperplanes through the origin, as SimHash has them, would tell directions alone.
    """
    return Hashing(OffsetHash(key, (size,), bits), None, None, None, "half")


def of_frames(key: Key[Array, ""], codes: Codes, bits: int, scaling: Scaling) -> Hashing:
    """A hash of frames that has seen nothing."""
    if codes == "learned":
        learned = LearnedCodes.init(key, CodeSettings(bits=bits))
        # A copy of its own: a caller that donates the state may not find an array in it twice.
        return Hashing(learned, jax.tree.map(jnp.copy, learned.network), None, None, scaling)
    centred = scaling == "centred"
    return Hashing(
        hash=SimHash(key, SHAPE, bits),
        network=None,
        centre=jnp.zeros(SHAPE) if centred else None,
        frames=MeanImage.empty() if centred else None,
        scaling=scaling,
    )


def begin(hashing: Hashing) -> Hashing:
    """An episode begins: what has been learned and averaged until now takes effect."""
    network = hashing.hash.network if isinstance(hashing.hash, LearnedCodes) else None
    centre = hashing.frames.mean if hashing.frames is not None else None
    # Copies of their own: a caller that donates the state may not find an array in it twice.
    network, centre = jax.tree.map(jnp.copy, (network, centre))
    return Hashing(hashing.hash, network, centre, hashing.frames, hashing.scaling)


def seen(hashing: Hashing, frames: UInt8[Array, "n h w 3"] | Float32[Array, "n size"]) -> Hashing:
    """Takes real frames into the mean image, if there is one."""
    if hashing.frames is None:
        return hashing
    mean = hashing.frames.add(shrink(frames))
    return Hashing(hashing.hash, hashing.network, hashing.centre, mean, hashing.scaling)


def learn(
    hashing: Hashing,
    key: Key[Array, ""],
    frames: UInt8[Array, "n length h w 3"] | Float32[Array, "n length size"],
) -> tuple[Hashing, Metrics]:
    """One gradient step of a learned hash on some of the frames; the others have nothing to learn."""
    if not isinstance(hashing.hash, LearnedCodes):
        return hashing, {}
    some = shrink(frames[:, ::EVERY])
    learned, logged = hashing.hash.learn(key, some.reshape(-1, *SHAPE))
    return Hashing(learned, hashing.network, hashing.centre, hashing.frames, hashing.scaling), logged
