"""How tests compile: quickly; or, where the last bit decides, as a user's programs are compiled."""

from __future__ import annotations

import jax

_BEFORE = jax.__version_info__ < (0, 12)
"""Later versions of JAX do not know the second flag, and end at one that they do not know."""

QUICKLY = ("--xla_backend_optimization_level=0", *["--xla_cpu_use_fusion_emitters=false"] * _BEFORE)
"""Flags of XLA. Tests compile much and compute little; without the newer emitters it takes half the time."""

AS_USERS_DO = {"xla_cpu_use_fusion_emitters": True} if _BEFORE else {}
"""Options of `jax.jit`. Fusions of the older emitters round differently inside of a loop and outside."""
