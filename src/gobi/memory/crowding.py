"""When a memory should be given more room, told from what its reward logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

LARGEST_LOAD = 0.5
"""Tables are given more room above this: below it, nothing is ever dropped."""


def crowded(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> frozenset[str]:
    """The memories that should grow: more than half full, or codes were dropped since the row before.

    Rows hold metrics by name, one number or one for each seed: `load/NAME` and `dropped/NAME` of each memory.
    """
    names = {name.partition("/")[2] for name in row if name.startswith("load/")}

    def dropped(name: str) -> bool:
        earlier = before[f"dropped/{name}"] if before else 0
        return bool(np.any(row[f"dropped/{name}"] > earlier))

    return frozenset(name for name in names if np.max(row[f"load/{name}"]) > LARGEST_LOAD or dropped(name))
