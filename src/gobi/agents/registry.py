"""The learners by name. A new one is a file and a line here."""

from __future__ import annotations

import dataclasses
from typing import Any

from gobi.agents.impala.impala import IMPALA
from gobi.agents.learner import Learner
from gobi.agents.ppo.ppo import PPO
from gobi.errors import unknown


@dataclasses.dataclass(frozen=True)
class Entry:
    """A learner: its class, and what it is in a line."""

    make: type
    summary: str


LEARNERS: dict[str, Entry] = {
    "impala": Entry(
        IMPALA, "V-trace actor-critic, RMSProp, one value of the total reward: the paper's learner"
    ),
    "ppo": Entry(PPO, "clipped ratios, epochs of minibatches, Adam; a value of its own for the bonus"),
}


OF_THE_LOOP = frozenset({"unroll"})
"""Fields of a recipe that a learner may be told, but that every run has."""


def find(name: str) -> Entry:
    """The learner of that name."""
    if name not in LEARNERS:
        raise unknown("learner", name, LEARNERS)
    return LEARNERS[name]


def build(recipe: Any) -> Learner:
    """The learner of a recipe, by the names of its fields; what a recipe has not keeps its default."""
    return _of_fields(find(recipe.learner).make, recipe)


def hyper(recipe: Any) -> Any:
    """The learner's numbers, as arrays."""
    return _of_fields(find(recipe.learner).make.Hyper, recipe)


def _of_fields(make: Any, recipe: Any) -> Any:
    names = [field.name for field in dataclasses.fields(make) if hasattr(recipe, field.name)]
    return make(**{name: getattr(recipe, name) for name in names})


def settings(name: str) -> tuple[str, ...]:
    """The fields of a recipe that a learner reads."""
    make = find(name).make
    fields = (*dataclasses.fields(make), *dataclasses.fields(make.Hyper))
    return tuple(dict.fromkeys(field.name for field in fields if field.name not in OF_THE_LOOP))
