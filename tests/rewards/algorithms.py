"""The reward in plain Python, for one environment, with a `set`: Algorithm 1, and what the public code does.

An episode is a list of steps, in order; a view is its bytes. Nothing here knows of arrays or batches.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import jax
import numpy as np

from gobi.types import Transition

Code = Callable[[np.ndarray], Hashable]
"""What stands for a view in a set."""


@dataclasses.dataclass(frozen=True)
class End:
    """One end of a step: what is seen there, and what each of the seven actions would lead to."""

    view: np.ndarray
    futures: np.ndarray


@dataclasses.dataclass(frozen=True)
class Step:
    before: End
    action: int
    after: End


def exactly(view: np.ndarray) -> Hashable:
    return view.tobytes()


def erased(view: np.ndarray) -> Hashable:
    """Keys (5), balls (6) and boxes (7) become empty cells."""
    view = view.copy()
    for column, row in np.ndindex(7, 7):
        if view[column, row, 0] in (5, 6, 7):
            view[column, row] = (1, 0, 0)
    return view.tobytes()


def erased_where_it_lies(view: np.ndarray) -> Hashable:
    """The same, but for what the agent carries: that is in the middle of the last row."""
    view = view.copy()
    carried = view[3, 6].copy()
    for column, row in np.ndindex(7, 7):
        if view[column, row, 0] in (5, 6, 7):
            view[column, row] = (1, 0, 0)
    view[3, 6] = carried
    return view.tobytes()


def episodes(play: Transition, lane: int) -> Iterator[list[Step]]:
    """The episodes of a lane, the last one perhaps not at its end."""
    one = jax.tree.map(lambda part: np.asarray(part[:, lane]), play)
    done = one.terminated | one.truncated
    episode = []
    for t, action in enumerate(one.action.tolist()):
        before, after = (End(seen["observation"][t], seen["futures"][t]) for seen in (one.before, one.after))
        episode.append(Step(before, action, after))
        if done[t]:
            yield episode
            episode = []
    if episode:
        yield episode


def algorithm_1(
    episode: Sequence[Step], actions: Iterable[int] = range(7), code: Code = exactly
) -> list[int]:
    """size(M) - m_t of each step, line by line; with k = 1 and every action in place of n random ones."""
    growth = []
    memory = set()  # Initialize episodic buffer M.
    for step in episode:  # for t = 1 to T: get a transition (s_t, a_t, s_{t+1}, r_t)
        m_t = len(memory)  # m_t <- size(M)
        memory |= {code(step.before.view)}  # M <- M u {hash(s_t)}
        memory |= {code(step.before.futures[action]) for action in actions}  # M <- M u {hash(f(s_t, a))}
        growth.append(len(memory) - m_t)  # (size(M) - m_t)
    return growth


def public_code(
    episode: Sequence[Step],
    actions: Iterable[int] = range(6),
    code: Code = exactly,
    stop_at_executed: bool = False,
) -> list[int]:
    """Equation 1 as the public code has it: the growth on arriving at s_{t+1}, the first state's unpaid."""
    memory, executed, growth = set(), set(), []

    def arrive(end: End) -> None:
        memory.add(code(end.view))
        for action in actions:
            if stop_at_executed and (code(end.view), action) in executed:
                return
            memory.add(code(end.futures[action]))

    arrive(episode[0].before)
    for step in episode:
        m_t = len(memory)
        executed.add((code(step.before.view), step.action))
        arrive(step.after)
        growth.append(len(memory) - m_t)
    return growth


def growth(play: Transition, of_episode: Callable[..., list[int]], **options) -> np.ndarray:
    """What an algorithm pays in each step and lane."""
    lanes = range(play.action.shape[1])
    paid = [[r for episode in episodes(play, lane) for r in of_episode(episode, **options)] for lane in lanes]
    return np.array(paid, np.float32).T


def visits(play: Transition, shared: bool, code: Code = exactly, view: str = "observation") -> np.ndarray:
    """N(o_{t+1}), or of another view, in the order of time, then of lanes."""
    seen, counts = collections.Counter(), np.zeros(play.action.shape, np.int64)
    views = np.asarray(play.after[view])
    for t, lane in np.ndindex(counts.shape):
        name = code(views[t, lane]) if shared else (lane, code(views[t, lane]))
        seen[name] += 1
        counts[t, lane] = seen[name]
    return counts


def lifelong(counts: np.ndarray) -> np.ndarray:
    """1 / sqrt(N), rounded once per operation as float32 has it."""
    return np.float32(1) / np.sqrt(counts.astype(np.float32))
