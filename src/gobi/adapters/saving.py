"""Bonuses in files: everything that changes, with checksums, so that a restored one goes on bit for bit."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gobi.adapters import running
from gobi.adapters.advice import Sizes
from gobi.adapters.running import Program, Running
from gobi.errors import GobiError
from gobi.training import checkpoints
from gobi.types import Spec

if TYPE_CHECKING:
    from gobi.adapters.bonus import Bonus

SAME = ("reward", "options", "views", "spec", "num_envs", "learn_every")
"""What must be the same where a bonus is restored."""
SUFFIX = ".safetensors"


def file(path: Path | str) -> Path:
    """NAME.safetensors, also where only NAME was given."""
    path = Path(path)
    # `with_suffix` would take "car_0.5" for "car_0".
    return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)


def save(bonus: Bonus, path: Path) -> Path:
    """Writes NAME.safetensors, and NAME.json beside it."""
    facts = _settings(bonus) | {
        "coefficient": bonus.coefficient,
        "decay": bonus.decay,
        "seed": bonus.seed,
        "progress": _progress(bonus),
    }
    return checkpoints.save_weights(path, _tree(bonus), facts)


def restore(bonus: Bonus, path: Path) -> None:
    """Puts what was saved into a bonus that was made in the same way."""
    facts = checkpoints.facts(path)
    here = json.loads(json.dumps(_settings(bonus)))
    for name in SAME:
        if facts[name] != here[name]:
            raise GobiError(f"{path} was saved with {name} {facts[name]!r}; here it is {here[name]!r}")
    progress = facts["progress"]
    like = jax.eval_shape(lambda: _blank(bonus, progress))
    tree = checkpoints.load_weights(path, {"reward": bonus.reward, "key": bonus.key, "running": like})
    bonus.reward, bonus.key = tree["reward"], tree["key"]
    begun = progress["shapes"] is not None
    bonus.state = None if begun else tree["running"]
    bonus.program = Program(bonus.reward, tree["running"]) if begun else None
    bonus.steps, bonus.frames = progress["steps"], progress["frames"]
    bonus.raw = np.array(progress["raw"], np.float32)
    _restore_ledger(bonus, progress)


def load(make: type[Bonus], path: Path, reward: Any = None) -> Bonus:
    """A bonus as it was saved, from the file alone where its reward has a name."""
    facts = checkpoints.facts(path)
    if reward is None and facts["reward"] is None:
        raise GobiError(f"{path} was saved from a reward without a name: give it as `reward=`")
    if facts["options"] is None:
        raise GobiError(f"{path} was saved with options that are no plain values: make it, and restore")
    spec = Spec(**facts["spec"] | {"observation_shape": tuple(facts["spec"]["observation_shape"])})
    bonus = make(
        facts["reward"] if reward is None else reward,
        spec,
        facts["num_envs"],
        coefficient=facts["coefficient"],
        decay=facts["decay"],
        seed=facts["seed"],
        learn_every=facts["learn_every"],
        views=frozenset(facts["views"]),
        **facts["options"],
    )
    restore(bonus, path)
    return bonus


def _settings(bonus: Bonus) -> dict[str, Any]:
    """How a bonus was made, as JSON can hold it; None where it cannot."""
    asked = bonus.asked
    try:
        options = json.loads(json.dumps(asked["options"]))
    except TypeError:
        options = None
    return {
        "reward": asked["reward"] if isinstance(asked["reward"], str) else None,
        "options": options,
        "views": sorted(asked["views"]),
        "spec": dataclasses.asdict(bonus.spec),
        "num_envs": bonus.num_envs,
        "learn_every": bonus.learn_every,
    }


def _progress(bonus: Bonus) -> dict[str, Any]:
    ledger = bonus.ledger
    return {
        "steps": bonus.steps,
        "frames": bonus.frames,
        "raw": bonus.raw.tolist(),
        "shapes": _shapes(bonus),
        "at": ledger.at,
        "lessons": ledger.lessons,
        "midway": ledger.midway.tolist(),
        "grown": ledger.grown,
        "row": ledger.row,
        "metrics": ledger.metrics,
        "full": ledger.full,
        "stale": ledger.stale,
        "sizes": ledger.sizes.saved(),
    }


def _restore_ledger(bonus: Bonus, progress: dict[str, Any]) -> None:
    ledger = bonus.ledger
    ledger.midway = np.array(progress["midway"], bool)
    ledger.sizes = Sizes.restored(progress["sizes"])
    for name in ("at", "lessons", "grown", "row", "metrics", "full", "stale"):
        setattr(ledger, name, progress[name])


def _tree(bonus: Bonus) -> dict[str, Any]:
    changing = bonus.state if bonus.program is None else bonus.program.running
    return {"reward": bonus.reward, "key": bonus.key, "running": changing}


def _shapes(bonus: Bonus) -> dict[str, Any] | None:
    """The views as they come, which the spec does not tell of all; None before the first step."""
    if bonus.program is None:
        return None
    return {name: [list(view.shape), view.dtype.name] for name, view in bonus.program.running.before.items()}


def _blank(bonus: Bonus, progress: dict[str, Any]) -> Running | Any:
    """What changes, of the shapes that it had when it was saved."""
    state = running.start(bonus.reward, bonus.key, bonus.spec, bonus.num_envs)
    for memories in progress["grown"]:
        state = bonus.reward.grow(state, frozenset(memories))
    if progress["shapes"] is None:
        return state
    views = {name: np.zeros(shape, dtype) for name, (shape, dtype) in progress["shapes"].items()}
    step = bonus.gate.standing(views, ended=np.zeros(bonus.num_envs, bool))
    return running.begin(bonus.reward, state, step, bonus.learn_every)
