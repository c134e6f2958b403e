"""The zoo: trained agents that ship with gobi, each with its world model and how well it plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gobi.zoo.catalogue import Entry, entries, names

if TYPE_CHECKING:
    from gobi.zoo.agent import Agent

__all__ = ["Entry", "entries", "load", "names"]


def load(name: str, *, greedy: bool = False) -> Agent:
    """The agent of that name. It has `initial(num_envs)` and `act(observation, first, state)`.

    name:    one of `gobi.zoo.names()`, or the id of a task that one agent was trained on.
    greedy:  take the most likely action instead of drawing one.
    """
    # Only now: `import gobi` is to stay light.
    from gobi.zoo.agent import load

    return load(name, greedy)
