"""The grid models by name."""

from __future__ import annotations

import functools

import jax
from jaxtyping import Array, Key

from gobi.worlds.coded import coded
from gobi.worlds.copying import copying
from gobi.worlds.erasure import Erase
from gobi.worlds.generative import generative
from gobi.worlds.network import COMPACT, NARROW, PAPER, Network, Settings
from gobi.worlds.written import written


def build(
    kind: str = "copying",
    size: str = "compact",
    predicts: str = "view",
    *,
    key: Key[Array, ""],
    inputs: str = "",
    noise: str = "none",
    erase: Erase = False,
) -> Network:
    """A new, untrained network; `dataclasses.asdict(network.settings)` is what builds it again."""
    return from_settings(Settings(kind, size, predicts, inputs, noise, erase), key)


@functools.partial(jax.jit, static_argnums=0)
def from_settings(settings: Settings, key: Key[Array, ""]) -> Network:
    """A new, untrained network with these settings."""
    kinds = {"copying": copying, "written": written, "coded": coded, "generative": generative}
    sizes = {"paper": PAPER, "compact": COMPACT, "narrow": NARROW}
    return kinds[settings.kind](key, settings, sizes[settings.size])
