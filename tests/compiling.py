"""How tests compile: quickly; and where the last bit decides, with the emitters that users have."""

from __future__ import annotations

import jax

_KNOWS_THEM = jax.__version_info__ < (0, 12)
"""Whether JAX has a flag for its newer emitters. At one that it does not know it ends."""

QUICKLY = ("--xla_backend_optimization_level=0", *["--xla_cpu_use_fusion_emitters=false"] * _KNOWS_THEM)
"""Flags of XLA. Tests compile much and compute little; without the newer emitters it takes half the time."""

NEWER_EMITTERS = {"xla_cpu_use_fusion_emitters": True} if _KNOWS_THEM else {}
"""Options of `jax.jit`. Fusions of the older emitters round differently inside of a loop and outside."""
