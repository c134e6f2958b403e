"""Which reward, with which parts: sensible ones for what a task shows, each of which can be replaced."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeGuard

import jax

from gobi.errors import GobiError, unknown
from gobi.memory.codes import SimHash
from gobi.memory.offset_codes import OffsetHash
from gobi.rewards import R1, R2, R3, GoBI, Nothing, Reward, own, registry
from gobi.rewards.count import Count
from gobi.rewards.reward import check_views
from gobi.types import Spec
from gobi.worlds import GridModel, OnlineModel, build

HASH_KEY = 50
"""Projections are the same in all runs, so that their codes can be compared."""
BITS = 50
"""Of a code by similarity, as in the paper."""
OBSERVATION = frozenset({"observation"})
COMPOSED = ("gobi", "r1", "r2", "r3")
"""Rewards that are put together of a world, a hash and a lifelong factor."""


def choose(
    reward: str | Reward | type,
    spec: Spec,
    views: frozenset[str] = OBSERVATION,
    world: Any = None,
    hash: SimHash | None = None,
    lifelong: str | Reward | type | None = None,
    **options: Any,
) -> Reward:
    """A reward for a task.

    reward:    an id that `gobi rewards` lists; a `Reward`, which is returned as it is; a class of one's own;
               or where to find it: "path/file.py:Class".
    spec:      the task's, see `gobi.adapters.observations.spec`.
    views:     what there is to read beside the observation: "panorama" and "full_grid" of MiniGrid.
    world:     what GoBI, R1 and R2 imagine with; None takes a model that learns along.
    hash:      from observations to codes, for GoBI, R1, R2, R3 and count; None takes one that suits them.
    lifelong:  the lifelong factor of GoBI, R2 and R3; None counts.
    options:   the reward's own: those of `Reachability` for GoBI, R1 and R2, of its class for the others.
    """
    views = views | OBSERVATION
    if _listed(reward):
        made = _named(reward, spec, views, world, hash, lifelong, options)
    else:
        given = {"world": world, "hash": hash, "lifelong": lifelong}
        named = {name: value for name, value in given.items() if value is not None} | options
        made = _own(reward, named)
    check_views(made, views)
    return made


def coefficient(reward: str | Reward | type, spec: Spec) -> float:
    """What to multiply a reward with where nothing better is known: its authors' number, else 0.01."""
    if _listed(reward):
        return registry.coefficient(reward, spec.id)
    return 0.01


def world_for(spec: Spec, views: frozenset[str] = OBSERVATION) -> GridModel | OnlineModel:
    """A model that learns along: of MiniGrid's cells, or of anything else."""
    if minigrid(spec) and spec.num_actions == 7:
        sees = "panorama" if "panorama" in views else "view"
        # Only the network's settings matter to a model that learns from scratch.
        return GridModel(build(size="compact", key=jax.random.key(0)), mode="online", sees=sees)
    return OnlineModel.suited(spec)


def hash_for(spec: Spec) -> SimHash | None:
    """None, which is exact, for symbols; codes by similarity for numbers and pictures."""
    key, shape = jax.random.key(HASH_KEY), spec.observation_shape
    if spec.observation_dtype == "float32":
        return OffsetHash(key, shape, BITS)
    if spec.classes or minigrid(spec):
        return None
    return OffsetHash.centred(key, shape, BITS, centre=127.5)


def minigrid(spec: Spec) -> bool:
    """Whether observations are MiniGrid's views."""
    return spec.observation_shape == (7, 7, 3) and spec.observation_dtype == "uint8" and not spec.classes


def _listed(reward: Any) -> TypeGuard[str]:
    """Whether this is the id of a reward of the library."""
    return isinstance(reward, str) and reward in registry.REWARDS


def _named(
    name: str,
    spec: Spec,
    views: frozenset[str],
    world: Any,
    hash: SimHash | None,
    lifelong: str | Reward | type | None,
    options: dict[str, Any],
) -> Reward:
    if name == "none":
        return Nothing()
    composed = name in COMPOSED
    for part, given, fits in (
        ("world", world, composed and name != "r3"),
        ("lifelong", lifelong, composed and name != "r1"),
        ("hash", hash, composed or "hash" in _fields(name)),
    ):
        if given is not None and not fits:
            raise GobiError(f"the reward '{name}' has no {part}")
    if not composed:
        return _single(name, spec, views, hash, options)
    hash = hash_for(spec) if hash is None else hash
    factor = None if name == "r1" else _factor(lifelong, spec, views, hash)
    if name == "r3":
        if options:
            raise GobiError(f"the reward 'r3' has no option {', '.join(options)}: pass a lifelong factor")
        return R3(factor)
    around = world_for(spec, views) if world is None else world
    known = {"credit", "erase", "skip_executed", "capacity"}
    if set(options) - known:
        raise unknown(f"option of the reward '{name}'", next(iter(set(options) - known)), known)
    if name == "r1":
        return R1(around, hash=hash, **options)
    return (R2 if name == "r2" else GoBI)(around, factor, hash=hash, **options)


def _factor(
    lifelong: str | Reward | type | None, spec: Spec, views: frozenset[str], hash: SimHash | None
) -> Reward:
    if lifelong is None:
        return Count(hash=hash)
    if _listed(lifelong):
        registry.factor_options(lifelong, "")
        return _single(lifelong, spec, views, hash if "hash" in _fields(lifelong) else None, {})
    return _own(lifelong, {})


def _single(
    name: str, spec: Spec, views: frozenset[str], hash: SimHash | None, options: dict[str, Any]
) -> Reward:
    """A reward that stands by itself, small enough for a loop on the host; it reads what there is to read."""
    known = _fields(name)
    wrong = set(options) - known
    if wrong:
        raise unknown(f"option of the reward '{name}'", min(wrong), known)
    defaults, small = registry.defaults(name), registry.options(name, registry.find(name).small)
    options = {**small, **options}
    if defaults.get("counted") not in {None, *views}:
        options.setdefault("counted", "observation")
    coded = options.get("counted", options.get("view", defaults.get("counted", "observation")))
    if "hash" in known:
        suited = hash_for(spec) if coded == "observation" else None
        options.setdefault("hash", suited if hash is None else hash)
    return registry.build(name, options)


def _fields(name: str) -> set[str]:
    """The options that a reward can be made with."""
    make = registry.find(name).make
    return {field.name for field in dataclasses.fields(make)} if make else set()  # pyright: ignore[reportArgumentType]


def _own(reward: str | Reward | type, options: dict[str, Any]) -> Reward:
    """A reward that is not the library's."""
    if isinstance(reward, Reward):
        if options:
            raise GobiError(f"the reward is made already: {', '.join(options)} would change nothing")
        return reward
    if isinstance(reward, str):
        if not own.is_own(reward):
            raise unknown("reward", reward, registry.REWARDS)
        return own.load(reward, options)
    if isinstance(reward, type):
        reward = reward(**options)
        options = {}
    if isinstance(reward, Reward):
        return own.Checked(reward, type(reward).__name__)
    missing = [call for call in own.CALLS if not callable(getattr(reward, call, None))]
    if missing or options:
        raise GobiError(
            f"a reward is a name, a gobi.rewards.Reward or an object with init and step, not {reward!r}"
        )
    return own.Checked(own.Plain(reward), type(reward).__name__)
