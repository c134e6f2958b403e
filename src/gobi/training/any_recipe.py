"""What every recipe is, for grids or for control: a flat, frozen record, and how words become its fields."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar, get_type_hints

from gobi.errors import GobiError, unknown
from gobi.settings import check_type, parsed

R = TypeVar("R", bound="AnyRecipe")


def later(default: Any) -> Any:
    """A field that came after the first kept runs: at its default it leaves their digests as they are."""
    return dataclasses.field(default=default, metadata={"later": True})


@dataclasses.dataclass(frozen=True)
class AnyRecipe:
    """Every setting of a run. Each kind of recipe adds its own fields, the reward's among them.

    task:    the task's id.
    recipe:  the name of the recipe that this one started from.
    frames:  environment steps, pre-training not counted.
    """

    task: str
    recipe: str
    frames: int

    def __post_init__(self):
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            check_type(field.name, getattr(self, field.name), hints[field.name])
            if hints[field.name] is float:
                # 1 and 1.0 are one setting, with one digest.
                object.__setattr__(self, field.name, float(getattr(self, field.name)))

    @property
    def all_frames(self) -> int:
        """Environment steps in the whole run: as many as were asked for, in whole intervals."""
        raise NotImplementedError

    @property
    def frames_per_action(self) -> int:
        """Environment steps that an action lasts."""
        return 1

    @property
    def in_words(self) -> str:
        """What is worth saying when a run starts."""
        raise NotImplementedError

    def changed(self: R, **changes: Any) -> R:
        """The same recipe with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        """All fields, one per line."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @property
    def digest(self) -> str:
        """A short name for exactly these settings."""
        same = [
            field.name
            for field in dataclasses.fields(self)
            if field.metadata.get("later") and getattr(self, field.name) == field.default
        ]
        told = {name: value for name, value in dataclasses.asdict(self).items() if name not in same}
        return hashlib.sha256(json.dumps(told, indent=1).encode()).hexdigest()[:12]

    @classmethod
    def from_fields(cls: type[R], fields: dict[str, Any]) -> R:
        """A recipe of this kind, of fields by name."""
        known = {field.name for field in dataclasses.fields(cls)}
        for name in fields:
            if name not in known:
                raise unknown("recipe field", name, known)
        return cls(**fields)

    @classmethod
    def read_settings(cls, words: Sequence[str]) -> dict[str, Any]:
        """FIELD=VALUE words as fields of a recipe of this kind, each of its field's type."""
        hints = get_type_hints(cls)
        settings = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals:
                raise GobiError(f"--set takes FIELD=VALUE, got '{word}'")
            if name in ("task", "recipe"):
                raise GobiError(
                    f"--set cannot change the {name}: other fields depend on it; name it by itself"
                )
            if name not in hints:
                raise unknown("recipe field", name, hints)
            settings[name] = parsed(name, value, hints[name])
        return settings

    def refuse_below(self, least: int, *names: str) -> None:
        """Refuses fields that are too small to mean anything."""
        for name in names:
            if getattr(self, name) < least:
                raise GobiError(f"{name} must be at least {least}, got {getattr(self, name)}")


def differences(one: AnyRecipe, other: AnyRecipe) -> list[str]:
    """The fields in which two recipes differ, each with both values."""
    before, after = dataclasses.asdict(one), dataclasses.asdict(other)
    names = dict.fromkeys([*before, *after])
    return [
        f"{name}: {before.get(name)} -> {after.get(name)}"
        for name in names
        if before.get(name) != after.get(name)
    ]
