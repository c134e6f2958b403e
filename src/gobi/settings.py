"""Words become settings: each of its field's type, or an error that says what was expected."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from gobi.errors import GobiError, unknown


def options(owner: str, text: str, names: Collection[str], hints: Mapping[str, Any]) -> dict[str, Any]:
    """NAME=VALUE,NAME=VALUE as values of the hinted types.

    owner:  whose options they are, for the message about one that it does not have.
    names:  those that it has.
    """
    chosen = {}
    for word in text.split(","):
        option, equals, value = word.strip().partition("=")
        if not equals:
            raise GobiError(f"options are written as NAME=VALUE,NAME=VALUE, got '{word}'")
        if option not in names:
            raise unknown(f"option of {owner}", option, names)
        if option in chosen:
            raise GobiError(f"the option {option} of {owner} is given twice, in '{text}'")
        chosen[option] = parsed(option, value, hints[option])
    return chosen


def beside(usual: str, given: str | None) -> str:
    """Options that a recipe has, and those given, which hold where both name one; "" takes all away."""
    if not given:
        return usual if given is None else ""
    named = {word.partition("=")[0].strip() for word in given.split(",")}
    kept = [word for word in usual.split(",") if word and word.partition("=")[0] not in named]
    return ",".join([*kept, given])


def parsed(name: str, value: str, hint: Any) -> Any:
    """A word as a value of the hinted type: a choice, a truth, a number, a text; `none` where None may be."""
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (kind for kind in get_args(hint) if kind is not NoneType)
        return None if value.lower() == "none" else parsed(name, value, inner)
    if get_origin(hint) is Literal:
        for choice in get_args(hint):
            if str(choice) == value:
                return choice
        raise GobiError(f"{name} must be one of {', '.join(map(str, get_args(hint)))}, got '{value}'")
    if hint is bool:
        if value.lower() in ("true", "yes", "on", "1"):
            return True
        if value.lower() in ("false", "no", "off", "0"):
            return False
        raise GobiError(f"{name} must be true or false, got '{value}'")
    try:
        # 8e6 is a whole number to everybody but int().
        return hint(value) if hint is not int or _plain(value) else _whole(value)
    except (ValueError, OverflowError):
        raise GobiError(f"{name} must be of type {hint.__name__}, got '{value}'") from None


def _plain(value: str) -> bool:
    return value.replace("_", "").lstrip("+-").isdigit()


def _whole(value: str) -> int:
    number = float(value)
    if number != int(number):
        raise ValueError(value)
    return int(number)


def positive(**numbers: int | float) -> None:
    """Refuses numbers that are not above 0, or not numbers."""
    for name, value in numbers.items():
        # So put that NaN, which compares as false with everything, is refused too.
        if not (value > 0 and math.isfinite(value)):
            raise GobiError(f"{name} must be a positive number, got {value}")


def at_least(least: int, **numbers: int | float) -> None:
    """Refuses numbers below the least, or not numbers."""
    for name, value in numbers.items():
        if not (value >= least and math.isfinite(value)):
            raise GobiError(f"{name} must be at least {least}, got {value}")


def finite(**numbers: int | float) -> None:
    """Refuses what is not a number, or has no end."""
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise GobiError(f"{name} must be a finite number, got {value}")


def check_type(name: str, value: Any, hint: Any) -> None:
    """Refuses a value that is not of the hinted type."""
    if get_origin(hint) is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in get_args(hint)):
            raise GobiError(f"{name} must be one of {', '.join(map(str, get_args(hint)))}, got {value!r}")
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise GobiError(f"{name} must be a finite number, got {value!r}")
    elif isinstance(value, bool) != (hint is bool) or not isinstance(value, hint):
        raise GobiError(f"{name} must be of type {hint.__name__}, got {value!r}")
