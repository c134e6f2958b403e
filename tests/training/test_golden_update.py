"""IMPALA behind the learners' contract: its updates are those of the loop that had it built in."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np

from gobi.training.recipes import compact, recipe
from gobi.training.trainer import Trainer

GOLDEN = json.loads((Path(__file__).parent / "golden" / "impala_update.json").read_text())
"""Four updates of one seed, recorded before learners could be swapped: each update's metrics, and the sizes
of the weights and of the optimiser's squares after the last."""

UPDATES, ENVS, STEPS, SEED = 4, 8, 20, 3


def close(ours, recorded, name):
    # Another CPU or compiler sums in another order: the last digits differ, the actions drawn do not.
    np.testing.assert_allclose(ours, recorded, rtol=1e-5, atol=1e-6, err_msg=name)


def test_four_updates_of_impala_are_those_recorded_before_learners_could_be_swapped():
    settings = compact(
        recipe("MiniGrid-KeyCorridorS3R2-v0", "gobi"),
        learner="impala",
        reward="count",
        frames=UPDATES * ENVS * STEPS,
        num_envs=ENVS,
        bank=64,
        count_room=4096,
    )
    trainer = Trainer(settings)
    progress, rows = trainer.start([SEED]), []
    for _ in range(UPDATES):
        progress, row = trainer.advance(progress)
        rows.append(row)
    for name in GOLDEN.keys() - {"weights"}:
        close([row[name][0] for row in rows], GOLDEN[name], name)
    leaves = jax.tree.leaves((progress.state.policy, progress.state.optimiser))
    sizes = [np.abs(leaf).sum(dtype=np.float64) for leaf in map(np.asarray, leaves)]
    close(sizes, GOLDEN["weights"], "weights")
