"""Level i of a seed is for ever the same level, on every device: the digests were made on a CPU.

After a deliberate change of the levels, `python tests/envs/minigrid/test_level_digests.py` writes them anew.
"""

from __future__ import annotations

import hashlib
import json
import pathlib

import jax
import numpy as np
import pytest

from gobi.envs.minigrid import TASKS, make, numbered_levels

FILE = pathlib.Path(__file__).with_name("level_digests.json")
LEVELS = 20


def digest(task: str) -> str:
    """A fingerprint of the first levels of a seed."""
    levels = numbered_levels(make(task), seed=7, start=0, count=LEVELS)
    parts = [np.ascontiguousarray(part).tobytes() for part in jax.tree.leaves(levels)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


@pytest.mark.parametrize("task", TASKS)
def test_the_levels_of_a_seed_never_change(task):
    assert digest(task) == json.loads(FILE.read_text())[task]


if __name__ == "__main__":
    FILE.write_text(json.dumps({task: digest(task) for task in TASKS}, indent=1) + "\n")
