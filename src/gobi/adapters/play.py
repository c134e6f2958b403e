"""The lanes of a MiniGrid task as a loop on the host plays them: compiled steps, and levels made in time.

Gymnasium's rules for what happens after an episode's end are here, Gymnasium itself is not.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from gobi.adapters.packing import pack, unpack
from gobi.envs.minigrid import Bank, Lanes, MiniGrid, Queue, Stepper, refill
from gobi.envs.minigrid.bank import HOPELESS, blank, queue
from gobi.envs.minigrid.state import State
from gobi.errors import GobiError, unknown
from gobi.types import Timestep

NEXT_STEP, SAME_STEP, DISABLED = MODES = ("NextStep", "SameStep", "Disabled")
"""When a lane that ended starts again: at the step after, at once, or when told to. Gymnasium's names."""
VIEWS = ("panorama", "full_grid")
"""What a step can show beside the observation."""
SHOWN = "gobi_views"
"""The entry of an environment's metadata that names the views in its infos."""
LAG = 2
"""Steps under way before the host looks how many levels are left.

No task can be solved in fewer than three steps, so no lane takes two levels meanwhile.
"""

View = UInt8[Array, "envs ..."] | UInt8[np.ndarray, "envs ..."]


def packs() -> bool:
    """Whether one transfer for all outputs pays: a CPU hands them over without any."""
    return jax.default_backend() != "cpu"


class Played(eqx.Module):
    """What a step or a reset of all lanes gives. The wide numbers come first: packed bytes stay aligned.

    fresh:             levels that nobody has had yet.
    reward:            the task's reward.
    terminated:        the episode ended by the rules of the task.
    truncated:         the episode ran out of steps.
    observation:       what the agent acts on next.
    views:             what else was asked for, of the same states.
    last_observation:  where lanes start again at once, what the step really led to; None otherwise.
    last_views:        the same of the views.
    """

    fresh: Int32[Array, ""] | Int32[np.ndarray, ""]
    reward: Float32[Array, " envs"] | Float32[np.ndarray, " envs"]
    terminated: Bool[Array, " envs"] | Bool[np.ndarray, " envs"]
    truncated: Bool[Array, " envs"] | Bool[np.ndarray, " envs"]
    observation: UInt8[Array, "envs 7 7 3"] | UInt8[np.ndarray, "envs 7 7 3"]
    views: dict[str, View]
    last_observation: UInt8[Array, "envs 7 7 3"] | UInt8[np.ndarray, "envs 7 7 3"] | None = None
    last_views: dict[str, View] | None = None


class Seats(eqx.Module):
    """What changes at every step.

    lanes:  the states, and how far they have used up their levels.
    over:   lanes whose episode has ended and that have not started again.
    """

    lanes: Lanes
    over: Bool[Array, " envs"]


@dataclasses.dataclass(frozen=True)
class Table:
    """What is fixed before the first step. Tables that are equal share their compiled code.

    env:       the task.
    num_envs:  how many lanes play it.
    mode:      when a lane that ended starts again.
    views:     what is shown beside the observation.
    on_host:   outputs become NumPy arrays; otherwise they stay on the device.
    packed:    on their way to the host they travel as one array: a single transfer.
    """

    env: MiniGrid
    num_envs: int
    mode: str = NEXT_STEP
    views: tuple[str, ...] = ()
    on_host: bool = dataclasses.field(default=True, compare=False)
    packed: bool = False

    def __post_init__(self):
        if self.num_envs < 1:
            raise GobiError(f"there must be at least one lane, got num_envs={self.num_envs}")
        if self.mode not in MODES:
            raise unknown("autoreset mode", self.mode, MODES)
        for name in self.views:
            if name not in VIEWS:
                raise unknown("view", name, VIEWS)

    @property
    def stepper(self) -> Stepper:
        """The lanes on the device."""
        return Stepper(self.env, self.num_envs)

    def seen(self, states: State) -> dict[str, View]:
        """The views of all lanes."""
        return {name: jax.vmap(getattr(self.env, name))(states) for name in self.views}


class Play:
    """Lanes at play: `reset` first, then every `step` takes one action for each lane."""

    def __init__(self, table: Table):
        self.table = table
        self._bank: Bank | None = None
        self._seats: Seats | None = None
        self._kept: tuple[int, Bank] | None = None
        self._counts: collections.deque[Any] = collections.deque()
        self._shapes: dict[Callable, Any] = {}

    @property
    def started(self) -> bool:
        """Whether there has been a reset."""
        return self._seats is not None

    @property
    def states(self) -> State:
        """Where each lane's episode stands, stacked."""
        return self._now()[1].lanes.states

    def reset(self, seed: int | None = None, mask: Bool[np.ndarray, " envs"] | None = None) -> Played:
        """The lanes of the mask, or all, take the next levels: the first ones of a seed if one is given."""
        if self._seats is None and not (mask is None or mask.all()):
            raise GobiError("the first reset must be of all lanes: there is nothing yet to leave as it is")
        if seed is not None:
            self._open(seed)
        self._stock()
        return self._played(_restarted, np.ones(self.table.num_envs, bool) if mask is None else mask)

    def step(self, actions: Int32[Array, " envs"] | Int32[np.ndarray, " envs"]) -> Played:
        """One step of every lane, by the rules of the table's mode."""
        if len(self._counts) >= LAG and int(self._counts.popleft()) < self.table.num_envs:
            self._stock()
        return self._played(_stepped, actions)

    def _now(self) -> tuple[Bank, Seats]:
        if self._bank is None or self._seats is None:
            raise GobiError("call reset first")
        return self._bank, self._seats

    def _open(self, seed: int) -> None:
        """Goes to the first levels of a seed. Those of the last seed are kept: many reset to it again."""
        if self._kept is None or self._kept[0] != seed:
            env, lanes = self.table.env, self.table.num_envs
            bank = blank(env, seed, lanes + env.generator.chunk_size)
            bank, place = _stocked(env, bank, queue(bank), lanes)
            self._kept = seed, eqx.tree_at(lambda b: b.fresh, bank, place.fresh)
        self._bank = self._kept[1]
        opened = _seated(self.table, self._bank)
        # Lanes that a mask leaves out play on, only their next levels are of the new seed.
        self._seats = opened if self._seats is None else _with_queue(self._seats, opened.lanes.queue)

    def _stock(self) -> None:
        """Sees to it that there is a level for every lane, should all of them end at once."""
        bank, seats = self._now()
        self._bank, place = _stocked(self.table.env, bank, seats.lanes.queue, self.table.num_envs)
        self._seats = _with_queue(seats, place)
        self._counts.clear()

    def _played(self, function: Callable, given: Any) -> Played:
        """Runs one of the compiled functions and hands out what it gives."""
        arguments = (*self._now(), given)
        self._seats, outputs = _run(function, self.table, *arguments)
        if self.table.packed:
            if function not in self._shapes:
                self._shapes[function] = jax.eval_shape(functools.partial(function, self.table), *arguments)[
                    1
                ]
            outputs = unpack(np.array(outputs), self._shapes[function])
        elif self.table.on_host:
            outputs = jax.tree.map(np.array, outputs)
        self._counts.append(outputs.fresh)
        return outputs


@functools.partial(jax.jit, static_argnums=(0, 1))
def _run(function: Callable, table: Table, bank: Bank, seats: Seats, given: Any) -> tuple[Seats, Any]:
    seats, played = function(table, bank, seats, given)
    return seats, pack(played) if table.packed else played


@functools.partial(jax.jit, static_argnums=0)
def _seated(table: Table, bank: Bank) -> Seats:
    """The lanes before their first reset, which hands out the bank's first levels."""
    lanes, _ = table.stepper.reset(bank)
    return Seats(eqx.tree_at(lambda these: these.queue, lanes, queue(bank)), jnp.zeros(table.num_envs, bool))


def _restarted(table: Table, bank: Bank, seats: Seats, mask: Bool[Array, " envs"]) -> tuple[Seats, Played]:
    """The lanes of the mask at the start of the next levels, the others where they were."""
    states = seats.lanes.states
    nothing = jnp.zeros(table.num_envs, bool)
    now = Timestep(jax.vmap(table.env.observe)(states), jnp.zeros(table.num_envs, jnp.float32), mask, nothing)
    lanes, observation = table.stepper.restart(bank, seats.lanes, states, now)
    played = Played(lanes.queue.fresh, now.reward, nothing, nothing, observation, table.seen(lanes.states))
    return Seats(lanes, seats.over & ~mask), played


def _stepped(table: Table, bank: Bank, seats: Seats, actions: Int32[Array, " envs"]) -> tuple[Seats, Played]:
    """One step of all lanes by the rules of the mode."""
    stepper = table.stepper
    states, step = stepper.advance(seats.lanes, actions)
    last_observation = last_views = None
    if table.mode == NEXT_STEP:
        # The step after an episode's end is not played: its action is ignored, and the lane starts again.
        lanes, observation = stepper.restart(bank, seats.lanes, states, _ended(step, seats.over))
        step = Timestep(
            observation,
            jnp.where(seats.over, 0, step.reward),
            step.terminated & ~seats.over,
            step.truncated & ~seats.over,
        )
    elif table.mode == SAME_STEP:
        last_observation, last_views = step.observation, table.seen(states)
        lanes, observation = stepper.restart(bank, seats.lanes, states, step)
    else:
        lanes, observation = eqx.tree_at(lambda these: these.states, seats.lanes, states), step.observation
    played = Played(
        fresh=lanes.queue.fresh,
        reward=step.reward,
        terminated=step.terminated,
        truncated=step.truncated,
        observation=observation,
        views=table.seen(lanes.states),
        last_observation=last_observation,
        last_views=last_views,
    )
    return Seats(lanes, step.done), played


def _ended(step: Timestep, over: Bool[Array, " envs"]) -> Timestep:
    """The step as one that ended just these lanes."""
    return Timestep(step.observation, step.reward, over, jnp.zeros_like(over))


def _with_queue(seats: Seats, place: Queue) -> Seats:
    return eqx.tree_at(lambda s: s.lanes.queue, seats, place)


def _stocked(env: MiniGrid, bank: Bank, place: Queue, needed: int) -> tuple[Bank, Queue]:
    """Makes chunks until so many levels are fresh."""
    fresh, barren = int(place.fresh), 0
    while fresh < needed:
        bank, place = _refill(env, bank, place)
        barren = barren + 1 if int(place.fresh) == fresh else 0
        fresh = int(place.fresh)
        if barren == HOPELESS:
            raise GobiError(
                f"{env.spec.id}: no level came through in {barren} chunks; ask for fewer or smaller rooms"
            )
    return bank, place


_refill = jax.jit(refill, static_argnums=0)
