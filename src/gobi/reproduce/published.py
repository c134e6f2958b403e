"""RE3's own numbers on control tasks, beside which ours are read.

From the data that its authors published with their code (github.com/younggyoseo/RE3 at 66cc4d1): RAD + RE3,
five seeds, ten episodes an evaluation, by environment steps. Mean and standard deviation over the seeds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

SEEDS = 5


@dataclasses.dataclass(frozen=True)
class Published:
    """What came of a task.

    at:       mean and standard deviation of the return, after so many frames.
    overall:  the same of the mean return over the first 500,000.
    """

    at: Mapping[int, tuple[int, int]]
    overall: tuple[int, int]


FRAMES = (50_000, 100_000, 200_000, 500_000)
"""Where returns are told, ours as well."""

RE3: dict[str, Published] = {
    "dmc/pendulum_swingup": Published(
        dict(zip(FRAMES, ((764, 118), (818, 45), (839, 21), (854, 14)), strict=True)), (760, 5)
    ),
    "dmc/hopper_hop": Published(
        dict(zip(FRAMES, ((9, 10), (103, 37), (168, 16), (225, 9)), strict=True)), (150, 11)
    ),
    "dmc/walker_run_sparse": Published(
        dict(zip(FRAMES, ((13, 6), (72, 31), (193, 89), (417, 75)), strict=True)), (220, 45)
    ),
    "dmc/cheetah_run_sparse": Published(
        dict(zip(FRAMES, ((68, 63), (166, 74), (448, 35), (602, 76)), strict=True)), (379, 54)
    ),
    "dmc/cartpole_swingup_sparse": Published(
        dict(zip(FRAMES, ((25, 18), (94, 54), (736, 48), (790, 45)), strict=True)), (546, 52)
    ),
}
