"""Parts of a training update: each compiled and timed by itself, on the inputs that it has in the update."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
from operations import counted  # beside this file

from gobi.agents.learner import Learner
from gobi.training import loop as loops

PARTS = ("act", "bonus", "world_metrics", "learn", "episodes")


@dataclasses.dataclass(frozen=True)
class Handover:
    """A learner that learns nothing: it leaves what it was given where the optimiser's state was."""

    acting: Learner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.acting, name)

    def learn(self, policy, optimiser, rollout, hyper, learning_rate, key, longest):
        """The arguments of the learner's own `learn` that are arrays."""
        del optimiser, longest
        return policy, (rollout, hyper, learning_rate, key), {}


def parts(loop: Any, reward: Any, knobs: Any, bank: Any, state: Any, rate: float) -> dict[str, float]:
    """Milliseconds of each part of an update, compiled by itself, and of its products at this rate."""

    def act(bank, state):
        return loop._act(bank, state, state.key)[0]

    def pay(state, acted):
        return reward.rollout(state.reward, loop._transitions(reward.reads, acted))

    def study(state, acted):
        return reward.learn(state.reward, state.key, loop._transitions(reward.reads, acted))[1]

    def hand_over(bank, state):
        handing = dataclasses.replace(loop, learner=Handover(loop.learner))
        return handing.update(reward, knobs, bank, state)[0].optimiser

    def learn(state, given):
        return loop.learner.learn(state.policy, state.optimiser, *given, loop.env.spec.max_steps)

    def tell(state, acted):
        return loops.episodes.add(loop.env, state.episodes, loops._walk(acted))

    acted = jax.jit(jax.vmap(act))(bank, state)
    given = jax.jit(jax.vmap(hand_over))(bank, state)
    calls = (act, bank, state), (pay, state, acted), (study, state, acted), (learn, state, given)
    row: dict[str, float] = {}
    for name, (function, *inputs) in zip(PARTS, (*calls, (tell, state, acted)), strict=True):
        row[f"ms_{name}"] = milliseconds(jax.jit(jax.vmap(function)), *inputs)
        row[f"floor_{name}"] = round(1000 * counted(jax.vmap(function), *inputs) / rate, 2)
    return row


def milliseconds(function: Callable[..., Any], *inputs: Any, repeats: int = 10) -> float:
    """The median time of a call."""
    jax.block_until_ready(function(*inputs))
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(function(*inputs))
        times.append(time.perf_counter() - begun)
    return round(1000 * statistics.median(times), 2)
