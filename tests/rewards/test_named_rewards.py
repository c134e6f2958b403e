"""Rewards by name: options are read from words, and wrong ones are refused with a line that helps."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from gobi.errors import GobiError
from gobi.rewards import registry

IDS = ["none", "gobi", "r1", "r2", "r3", "count", "rnd", "noveld", "ride", "ec", "icm", "ngu", "e3b", "re3"]
SINGLE = [name for name in IDS if registry.REWARDS[name].make is not None]


ANY_SIGN = {("ec", "beta"), ("ec", "threshold")}
"""Numbers that may be negative."""


def numbers(*kinds: object) -> list[tuple[str, str]]:
    """All rewards' options of these types."""
    return [
        (name, option)
        for name in SINGLE
        for option in registry.defaults(name)
        if get_type_hints(registry.REWARDS[name].make)[option] in kinds
    ]


def test_all_have_a_name():
    assert list(registry.REWARDS) == IDS


@pytest.mark.parametrize("name", SINGLE)
def test_each_stands_by_itself_and_has_a_small_form(name):
    entry = registry.find(name)
    chosen = registry.options(name, entry.small)
    assert registry.build(name, chosen).reads <= {"observation", "panorama", "full_grid"}
    assert set(chosen) <= set(registry.defaults(name))


def test_options_have_the_types_of_their_fields():
    chosen = registry.options("noveld", "alpha=0.4, norm=squared,first_state=no,capacity=none")
    assert chosen == {"alpha": 0.4, "norm": "squared", "first_state": False, "capacity": None}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("rdn", "", "did you mean rnd"),
        ("noveld", "alhpa=0.5", "did you mean alpha"),
        ("noveld", "alpha", "NAME=VALUE"),
        ("ec", "beta=0.5,beta=0.6", "the option beta of ec is given twice"),
        ("noveld", "alpha=much", "alpha must be of type float"),
        ("noveld", "norm=cubic", "norm must be one of plain, squared"),
        ("gobi", "alpha=0.5", "fields of the recipe"),
        ("none", "alpha=0.5", "no options of its own"),
    ],
)
def test_wrong_options_get_one_line_that_helps(name, text, told):
    with pytest.raises(GobiError, match=told):
        registry.options(name, text)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1"])
@pytest.mark.parametrize(("name", "option"), numbers(float))
def test_what_is_no_number_of_use_is_refused(name, option, value):
    if value == "-1" and (name, option) in ANY_SIGN:
        registry.options(name, f"{option}={value}")
        return
    with pytest.raises(GobiError, match=f"{option} must be"):
        registry.options(name, f"{option}={value}")


@pytest.mark.parametrize(("name", "option"), [pair for pair in numbers(float) if pair[1] == "rate"])
def test_a_rate_of_zero_is_refused(name, option):
    with pytest.raises(GobiError, match="rate must be a positive number"):
        registry.options(name, f"{option}=0")


@pytest.mark.parametrize(("name", "option"), numbers(int, int | None))
def test_sizes_and_counts_below_zero_are_refused(name, option):
    with pytest.raises(GobiError, match=r"at least|must (be|satisfy)"):
        registry.options(name, f"{option}=-1")


def test_only_a_reward_that_stands_by_itself_can_be_a_factor():
    assert registry.factor_options("rnd", "norm=squared") == {"norm": "squared"}
    with pytest.raises(GobiError, match="the lifelong factor must be one of count, rnd"):
        registry.factor_options("gobi", "")


def test_tasks_can_have_coefficients_of_their_own():
    assert registry.coefficient("ride", "MiniGrid-KeyCorridorS3R3-v0") == 0.1
    assert registry.coefficient("ride", "MiniGrid-KeyCorridorS4R3-v0") == 0.5
