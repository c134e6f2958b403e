"""A run with an episodic curiosity that learned beforehand: its card, and how it goes on."""

from __future__ import annotations

from gobi.training import beforehand, card, checkpoints, run
from gobi.training.recipe import Recipe

RECIPE = Recipe(
    task="MiniGrid-DoorKey-5x5-v0",
    recipe="test",
    frames=96,
    reward="ec",
    reward_options="size=small,pairs=16,batches=1,capacity=8,pretrain=150",
    network="compact",
    num_envs=4,
    unroll=8,
    bank=16,
    snapshots=0,
)


def test_its_frames_are_on_the_card_and_it_goes_on_with_the_same_comparator(tmp_path):
    whole, parts = (run.Folder(tmp_path / name) for name in ("whole", "parts"))
    plan = run.Plan(RECIPE, (1, 2))
    for folder in (whole, parts):
        run.begin(folder, plan)
    outcome = run.go(whole, plan)
    assert outcome.pretraining_frames == card.read(whole.card).pretraining_frames == 200
    assert card.read(whole.card).world_parameters == 0
    assert "ec/similarity" in whole.metrics.read_text()

    run.go(parts, plan, checkpoint_seconds=0.0)
    assert beforehand.checksum(parts.path) == beforehand.checksum(whole.path)
    # Back to the one before the last, with the comparator of the folder.
    earlier, last = checkpoints.available(parts.checkpoints)
    again = run.go(parts, plan, checkpoint=earlier.name)
    assert again.pretraining_frames == 200
    one, other = (
        (place / "arrays.safetensors").read_bytes() for place in (checkpoints.latest(whole.checkpoints), last)
    )
    assert one == other
