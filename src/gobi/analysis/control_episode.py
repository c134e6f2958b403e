"""An episode of an agent trained on a control task, with pictures of it; and what a checkpoint holds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Shaped, UInt8

from gobi.analysis import control_panel as panel
from gobi.training import checkpoints
from gobi.training.control import assembly, seat
from gobi.training.control.changing import Held
from gobi.training.control.evaluation import seeded, seeds_of
from gobi.training.control.trained import LANES, ControlTrained
from gobi.training.trained import known_seed
from gobi.types import Spec


@dataclasses.dataclass(frozen=True)
class Episode:
    """An episode of T agent steps, from its first state to its last.

    spec:          of the task.
    observations:  T + 1 frames or state vectors.
    actions:       what the agent did in all but the last.
    rewards:       what the task paid for it.
    terminated:    whether it ended by the task's rules; else its time was up.
    shown:         the numbers of the states that there are pictures of, the first and the last among them.
    pictures:      those.
    """

    spec: Spec
    observations: Shaped[np.ndarray, "states *shape"]
    actions: Float32[np.ndarray, "steps size"]
    rewards: Float32[np.ndarray, " steps"]
    terminated: bool
    shown: tuple[int, ...]
    pictures: UInt8[np.ndarray, "pictures side side 3"]

    def __str__(self) -> str:
        return f"{len(self.actions)} steps, return {self.rewards.sum():.1f}"


def episode(
    agents: ControlTrained,
    seed: int,
    level: int,
    greedy: bool = False,
    most: int = 200,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Episode:
    """The episode of that number, which training did not see: the one that evaluation plays, if greedy.

    greedy:    takes the mean action instead of drawing one.
    most:      pictures at most: of longer episodes every second, third, ... state is drawn.
    progress:  called with the steps made so far, and how many there can be.
    """
    start = seeds_of(agents.level_seed, 0, level + 1)[level]
    draws = jax.random.fold_in(jax.random.key(agents.level_seed), level)
    with assembly.worker(agents.recipe, seed=0) as worker:
        program = seat.program(agents.recipe, worker.spec)
        shapes, spec = program.shapes(), program.spec
        acting = Held.of(kept(agents, seed, "learner", shapes.learner).acting)
        worker.load(seeded(worker.save(), start))
        every = math.ceil(spec.max_steps / max(most - 1, 1))
        seen, actions, rewards, step = [worker.reset()], [], [], None
        pictures = {0: worker.frame(panel.SIDE)}
        views = jnp.zeros((LANES, *shapes.view.shape), shapes.view.dtype)
        # As many as evaluation looks at together: rounding follows the size of a batch.
        frames = np.zeros((LANES, *spec.observation_shape), spec.observation_dtype)
        while step is None or not step.done:
            now, frames[0] = len(actions), seen[-1]
            views, means = program.look(acting, views, frames, np.bool_(now == 0))
            action = means[0] if greedy else program.act(acting, views[0], draws, np.int32(now))
            actions.append(np.asarray(action))
            step = worker.step(actions[-1])
            seen.append(step.observation)
            rewards.append(step.reward)
            if most > 1 and (step.done or (now + 1) % every == 0):
                pictures[now + 1] = worker.frame(panel.SIDE)
            progress(now + 1, spec.max_steps)
    return Episode(
        spec=spec,
        observations=np.stack(seen),
        actions=np.stack(actions),
        rewards=np.asarray(rewards, np.float32),
        terminated=step.terminated,
        shown=tuple(pictures),
        pictures=np.stack(list(pictures.values())),
    )


def kept(agents: ControlTrained, seed: int, part: str, like: Any) -> Any:
    """A part of what the checkpoint holds of one agent."""
    place = agents.places[agents.seeds.index(known_seed(seed, agents.seeds))]
    return checkpoints.load(agents.source, like, within=f"['seats'][{place}].{part}")
