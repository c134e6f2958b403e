"""`gobi learners`: the learners that have a name, and their settings."""

from __future__ import annotations

import dataclasses

from gobi.agents.registry import LEARNERS, settings
from gobi.cli.terminal import say, show
from gobi.training.host.recipe import HostRecipe
from gobi.training.recipe import Recipe

KINDS = {"MiniGrid": Recipe, "gym/...": HostRecipe}


def learners() -> None:
    """Lists the learners: what each does, and the settings that it reads."""
    show([[name, entry.summary] for name, entry in LEARNERS.items()], ["learner", "what it does"])
    say("\ngobi train TASK --learner NAME; settings, as --set FIELD=VALUE:")
    fields = {kind: {field.name for field in dataclasses.fields(recipe)} for kind, recipe in KINDS.items()}
    everywhere = set.intersection(*fields.values())
    for name in LEARNERS:
        say(f"  {name}: {', '.join(field for field in settings(name) if field in everywhere)}")
        for kind, known in fields.items():
            if alone := [field for field in settings(name) if field in known - everywhere]:
                say(f"    on {kind} also: {', '.join(alone)}")
    say("all: num_envs, unroll, learning_rate, learning_rate_decay, entropy_decay; values: gobi recipe TASK")
