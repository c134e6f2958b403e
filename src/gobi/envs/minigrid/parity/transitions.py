"""The same actions in our environment and in Farama's, compared step by step.

A shard is one batch of episodes, fixed by its task and its number. Half of its levels are made by Farama,
half by us and rebuilt in Farama. What is played is a mix, so that keys, boxes, doors and drops really occur:
uniform and biased random play, the scripted solver's whole plan, and part of one with random play after it.
Some episodes start shortly before the step limit, so that time runs out in every task.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import time
import zlib
from importlib import metadata
from typing import Any

import jax
import numpy as np

from gobi.envs.minigrid import bank, cells, oracle, registry, rules, solver
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.parity.play import EVENTS, NO_PLAN, Trace, player
from gobi.envs.minigrid.state import State, nth

EPISODES = 64
LONGEST = 400
"""Steps of an episode that are played at the most."""
WITHIN = 10
"""Panorama and full grid are compared at every tenth step, and at every event."""
FIELDS = (
    "grid", "position", "direction", "carrying", "view", "reward", "terminated", "truncated",
    "panorama", "full_grid",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Tally:
    """What one shard, or several added up, compared and found."""

    task: str
    shard: int
    transitions: int = 0
    mismatches: int = 0
    door: int = 0
    key: int = 0
    ball: int = 0
    box: int = 0
    drop: int = 0
    success: int = 0
    timeouts: int = 0
    seconds: float = 0.0
    first_mismatch: str = ""
    device: str = ""
    code: str = ""
    """What was compared: see `code_version`."""

    def __add__(self, other: Tally) -> Tally:
        numbers = {
            field.name: getattr(self, field.name) + getattr(other, field.name)
            for field in dataclasses.fields(self)
            if isinstance(getattr(self, field.name), int | float) and field.name != "shard"
        }
        return dataclasses.replace(
            self, **numbers, first_mismatch=self.first_mismatch or other.first_mismatch
        )


def check_shard(task: str, shard: int) -> Tally:
    """Plays one shard in both and compares everything; the same shard always plays the same."""
    start = time.perf_counter()
    env = registry.make(task)
    random = np.random.default_rng([zlib.crc32(task.encode()), shard])
    games, levels = _levels(env, random)
    plans, uniform = _plans(env, levels, random)
    keys = jax.random.split(jax.random.key(int(random.integers(2**31))), EPISODES)
    trace: Trace = jax.tree.map(np.asarray, player(env)(levels, plans, uniform, keys))
    tally = Tally(task, shard, device=jax.devices()[0].device_kind, code=code_version())
    for number, game in enumerate(games):
        episode = Trace(*(part[number] for part in trace))
        tally = tally + _compare(task, shard, number, game, episode)
    return dataclasses.replace(tally, seconds=time.perf_counter() - start)


@functools.cache
def code_version() -> str:
    """Names the code on both sides: a digest of the sources of our MiniGrid, and the version of Farama's."""
    folder = pathlib.Path(cells.__file__).parent
    sources = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return f"{hashlib.sha256(sources).hexdigest()[:12]}, minigrid {metadata.version('minigrid')}"


def _levels(env: MiniGrid, random: np.random.Generator) -> tuple[list[Any], State]:
    """Farama's environments at the start of their episodes, and our states for the same."""
    games = _games(env)
    half = EPISODES // 2
    seed = int(random.integers(2**31))
    ours = jax.tree.map(np.asarray, bank.numbered_levels(env, seed, 0, EPISODES - half))
    late = random.random(EPISODES) < 0.15
    limit = env.spec.max_steps
    counts = np.where(late, limit - random.integers(1, _steps(env), EPISODES, endpoint=True), 0)
    states = []
    for number, game in enumerate(games):
        if number < half:
            game.reset(seed=seed + number)
        else:
            oracle.to_farama(nth(ours, number - half), game)
        game.step_count = int(max(counts[number], 0))
        states.append(jax.tree.map(np.asarray, oracle.from_farama(game)))
    return games, jax.tree.map(lambda *parts: np.stack(parts), *states)


@functools.cache
def _games(env: MiniGrid) -> list[Any]:
    """One of Farama's environments per episode of a shard; reset and used again by the next shard."""
    return [oracle.new_farama(env) for _ in range(EPISODES)]


def _steps(env: MiniGrid) -> int:
    return min(env.spec.max_steps, LONGEST)


def _plans(env: MiniGrid, levels: State, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The planned actions of each episode, and which ones play uniformly where nothing is planned."""
    steps = _steps(env)
    plans = np.full((EPISODES, steps), NO_PLAN, np.int32)
    kinds = random.permutation(EPISODES) / EPISODES
    for number in np.flatnonzero(kinds >= 0.5):
        plan = solver.solve(nth(levels, int(number))) or []
        whole = kinds[number] >= 0.75
        kept = len(plan) if whole else int(random.integers(0, len(plan), endpoint=True))
        plan = plan[: min(kept, steps)]
        plans[number, : len(plan)] = plan
    return plans, kinds < 0.1


def _compare(task: str, shard: int, number: int, game: Any, ours: Trace) -> Tally:
    """Replays our actions in Farama's environment and compares what both say at every step."""
    length = int(ours.counts.sum())
    events = ours.event[:length]
    looks = (np.arange(length) % WITHIN == 0) | (events > 0)
    theirs = _replay(game, np.asarray(ours.action[:length]), looks)
    wrong = np.zeros(length, bool)
    first: dict[str, int] = {}
    for field in FIELDS:
        here = np.flatnonzero(looks) if field in ("panorama", "full_grid") else np.arange(length)
        mine = getattr(ours, field)[here]
        differs = (mine != theirs[field]).reshape(len(here), -1).any(axis=1)
        wrong[here[differs]] = True
        if differs.any():
            first[field] = int(here[differs][0])
    message = ""
    if first:
        step = min(first.values())
        names = ", ".join(field for field, at in first.items() if at == step)
        action = rules.ACTION_NAMES[ours.action[step]]
        message = f"{task} shard {shard} episode {number} step {step} ({action}): {names} differ"
    tally = Tally(
        task,
        shard,
        transitions=length,
        mismatches=int(wrong.sum()),
        timeouts=int(ours.truncated[:length].sum()),
        first_mismatch=message,
    )
    counted = {name: int((events == value).sum()) for value, name in enumerate(EVENTS) if value}
    return dataclasses.replace(tally, **counted)


def _replay(game: Any, actions: np.ndarray, looks: np.ndarray) -> dict[str, np.ndarray]:
    """Plays the actions in Farama's environment and records what is to be compared."""
    bare = game.unwrapped
    found: dict[str, list[Any]] = {field: [] for field in FIELDS}
    for action, look in zip(actions.tolist(), looks.tolist(), strict=True):
        observation, reward, terminated, truncated, _ = game.step(action)
        found["grid"].append(_cells(bare.grid.grid))
        found["position"].append((int(bare.agent_pos[0]), int(bare.agent_pos[1])))
        found["direction"].append(int(bare.agent_dir))
        found["carrying"].append(_cells([bare.carrying])[0] if bare.carrying else int(cells.NOTHING))
        found["view"].append(observation["image"])
        found["reward"].append(np.float32(reward))
        found["terminated"].append(bool(terminated))
        found["truncated"].append(bool(truncated))
        if look:
            found["panorama"].append(oracle.farama_panorama(bare))
            found["full_grid"].append(oracle.farama_full_grid(bare))
    arrays = {field: np.array(values) for field, values in found.items()}
    arrays["grid"] = arrays["grid"].reshape(-1, bare.height, bare.width).swapaxes(1, 2)
    return arrays


def _cells(things: list[Any]) -> list[int]:
    """Farama's objects as packed cells. Only doors change in place, so the others are packed once."""
    found = []
    for thing in things:
        if thing is None:
            found.append(int(cells.EMPTY_CELL))
        elif thing.type == "door":
            found.append(oracle.packed(thing))
        else:
            known = getattr(thing, "gobi_cell", None)
            if known is None:
                known = thing.gobi_cell = oracle.packed(thing)
            found.append(known)
    return found
