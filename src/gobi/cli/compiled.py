"""Compiled programs are kept from one command to the next."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax


def keep_compiled() -> None:
    """Points JAX to a folder for compiled programs, unless the user has named one, or `GOBI_CACHE` is `off`.

    Nothing is deleted from it; it can be removed at any time.
    """
    if os.environ.get("JAX_COMPILATION_CACHE_DIR") or os.environ.get("GOBI_CACHE") == "off":
        return
    jax.config.update("jax_compilation_cache_dir", str(folder()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def folder() -> Path:
    """The user's cache folder, one part of it for each kind of CPU: programs of another one may not run."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gobi" / f"compiled-{_cpu()}"


def _cpu() -> str:
    """A short name for this kind of CPU and what it can do."""
    described = platform.machine() + platform.processor()
    about = Path("/proc/cpuinfo")
    if about.exists():
        telling = ("model name", "flags", "Features")
        lines = about.read_text(errors="replace").splitlines()
        described += "".join(sorted({line for line in lines if line.startswith(telling)}))
    return hashlib.sha256(described.encode()).hexdigest()[:12]
