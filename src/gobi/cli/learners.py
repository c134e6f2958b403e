"""`gobi learners`: the learners that have a name, and their settings."""

from __future__ import annotations

import dataclasses

from gobi.agents.registry import LEARNERS, settings
from gobi.cli.terminal import say, show
from gobi.training.recipe import Recipe


def learners() -> None:
    """Lists the learners of grids: what each does, and the settings that it reads."""
    show([[name, entry.summary] for name, entry in LEARNERS.items()], ["learner", "what it does"])
    say("\ngobi train TASK --learner NAME; settings, as --set FIELD=VALUE:")
    fields = {field.name for field in dataclasses.fields(Recipe)}
    for name in LEARNERS:
        say(f"  {name}: {', '.join(field for field in settings(name) if field in fields)}")
    say(
        "all: num_envs, unroll, learning_rate, learning_rate_decay, schedule_frames; values: gobi recipe TASK"
    )
