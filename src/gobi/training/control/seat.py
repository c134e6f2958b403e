"""One seed on the device: what it has learned, what it has seen, and the compiled steps of its loop.

An agent step takes three calls: `update`, `see_and_act` and `collect`. Only an action is ever waited for.
Every draw comes from the seed's key and the number of the step, so that nothing random has to be kept. Calls
are made to cost their host little: few arrays go in and out, and few numbers cross to the device.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Key

from gobi.agents.rad import Batch, Learner, Replay, empty
from gobi.rewards.control import Reachability, Replayed
from gobi.training.control import assembly, parcel, paying
from gobi.training.control.changing import Change, Held
from gobi.training.control.parcel import Parcel
from gobi.training.control.paying import Knobs
from gobi.training.control.recipe import ControlRecipe
from gobi.types import Spec, Transition

ACTING, UPDATING, LEARNING = range(3)
"""What a draw is for."""

COLUMN_OF = {"critic_loss": "value_loss", "actor_loss": "policy_loss", "policy_entropy": "entropy"}
"""The learner's names for what grids have too."""

LAST = ("coefficient", "temperature")
"""Of these an interval keeps the last value, of the others the mean."""

HELD = ("learner", "reward", "replay", "told")
"""The parts of a seat that are held as their leaves."""

Told = Float32[Array, "metrics 2"]
"""Sums of metrics since the last row, and over how many values."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Seat:
    """What one seed has on the device. While it is trained its larger parts are `Held`; see `whole`.

    learner:  actor, critics, temperature and their optimisers.
    reward:   the intrinsic reward's state.
    replay:   what was lived through.
    view:     what the agent sees now: the last frames, or the state.
    steps:    steps made so far.
    told:     metrics since the last row, in the order of `Program.metrics`.
    key:      the seed.
    """

    learner: Any
    reward: Any
    replay: Any
    view: Any
    steps: Any
    told: Any
    key: Any


class Program:
    """The compiled parts, the same for all seeds. What a call changes of what is held is used up."""

    def __init__(self, recipe: ControlRecipe, spec: Spec):
        self.recipe, self.spec, self.knobs = recipe, spec, jax.device_put(paying.knobs(recipe))
        self.agent = assembly.learner(recipe)
        self.reward = assembly.reward(recipe, spec)
        self.slots = assembly.slots(recipe, spec)
        self.lessons = self.reward.lessons
        episodic = self.reward.episodic if isinstance(self.reward, Replayed) else self.reward
        self.model = None
        # A world that has no lessons is none.
        if isinstance(episodic, Reachability) and self.lessons is not None:
            self.model = episodic.world
        self._acted = jax.jit(self._act)
        self._looked = jax.jit(self._look, donate_argnums=1)
        # Bound once: an Equinox module binds its methods anew, and slowly, whenever one is asked for.
        self._is_full = self.agent.is_full
        self._updated = {full: Change(functools.partial(self._update, full)) for full in (True, False)}
        self._seen = jax.jit(self._see)
        self._seen_and_acted = jax.jit(self._see_and_act)
        self._first_seen = jax.jit(self._shown)
        self._collected = Change(self._collect)
        self._begun = Change(self._begin)
        self._taught = Change(self._teach)
        self._init = jax.jit(self._start)
        self._acting: Held | None = None

    def start(self, seed: int) -> Seat:
        """Before the first step."""
        return held(self._init(jax.random.key(seed)))

    def shapes(self) -> Seat:
        """The structure of a whole seat."""
        return jax.eval_shape(self._start, _some_key())

    @functools.cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of what is told of updates and lessons."""

        def all_of_them(key):
            learner, reward, replay = self._empty(key, key)
            _, _, told = self._learned(True, learner, reward, replay, key, jnp.int32(0), self.knobs)
            if self.lessons is not None:
                told |= self._lesson(reward, replay, key)[1]
            return told

        return tuple(jax.eval_shape(all_of_them, _some_key()))

    def told(self, seat: Seat) -> dict[str, float]:
        """Metrics since the last row: means, where there was at least one value; of some the last value."""
        (told,) = seat.told.leaves
        sums = np.asarray(told)
        return {
            name: float(total / count)
            for name, (total, count) in zip(self.metrics, sums, strict=True)
            if count
        }

    def world(self, seat: Seat) -> Any:
        """The state of a seat's world model; None where the reward has none."""
        if self.model is None:
            return None
        reward = seat.reward.tree
        return (reward[0] if isinstance(self.reward, Replayed) else reward).world

    def acting(self, learner: Held) -> Held:
        """The part of a learner that acts."""
        if self._acting is None:
            numbers = jax.tree.unflatten(learner.structure, range(len(learner.leaves)))
            self._acting = Held.of(numbers.acting)
        return Held([learner.leaves[at] for at in self._acting.leaves], self._acting.structure)

    def act(self, acting: Held, view: Any, key: Any, step: Any) -> Float32[Array, " size"]:
        """What to do at the step of this number, drawn from the policy."""
        return self._acted(acting, view, key, step)

    def look(self, acting: Held, views: Any, frames: Any, first: Any) -> tuple[Any, Any]:
        """What several agents with the same weights see now, and the mean action there; uses `views` up."""
        return self._looked(acting, views, frames, first)

    def see(self, seat: Seat, reached: Parcel) -> Seat:
        """A step led there; the agent can act upon it before the rest is done."""
        view, steps = self._seen(seat.view, seat.steps, reached)
        return dataclasses.replace(seat, view=view, steps=steps)

    def see_and_act(self, seat: Seat, reached: Parcel) -> tuple[Seat, Float32[Array, " size"]]:
        """`see`, then `act` upon it, in one call: everything waits for that."""
        acting = self.acting(seat.learner)
        view, steps, action = self._seen_and_acted(acting, seat.view, seat.key, seat.steps, reached)
        return dataclasses.replace(seat, view=view, steps=steps), action

    def see_first(self, seat: Seat, observation: np.ndarray) -> Seat:
        """An episode begins with this, which is then what the agent sees."""
        return dataclasses.replace(seat, view=self._first_seen(observation))

    def begin(self, seat: Seat, observation: np.ndarray) -> Seat:
        """An episode begins, for the reward and in the replay."""
        reward, replay = self._begun([seat.reward, seat.replay], observation)
        return dataclasses.replace(seat, reward=reward, replay=replay)

    def update(self, seat: Seat, update: int) -> Seat:
        """The gradient step of this number."""
        learner, reward, told = self._updated[self._is_full(update)](
            [seat.learner, seat.reward, seat.told], seat.replay, seat.key, seat.steps, self.knobs
        )
        return dataclasses.replace(seat, learner=learner, reward=reward, told=told)

    def collect(self, seat: Seat, view: Any, action: Any, reached: Parcel) -> Seat:
        """A step was made, from what was seen in `view`."""
        # What a call is not given costs its host nothing.
        moment = (seat.steps, self.knobs) if self.recipe.paid == "made" else ()
        reward, replay = self._collected([seat.reward, seat.replay], view, action, reached, *moment)
        return dataclasses.replace(seat, reward=reward, replay=replay)

    def teach(self, seat: Seat, lesson: int) -> Seat:
        """One lesson of the world model, by its number."""
        reward, told = self._taught([seat.reward, seat.told], seat.replay, seat.key, np.int32(lesson))
        return dataclasses.replace(seat, reward=reward, told=told)

    def afresh(self, seat: Seat) -> Seat:
        """The same with no metrics told."""
        return dataclasses.replace(seat, told=Held.of(jnp.zeros((len(self.metrics), 2))))

    def _start(self, key: Key[Array, ""]) -> Seat:
        learner_key, reward_key, key = jax.random.split(key, 3)
        learner, reward, replay = self._empty(learner_key, reward_key)
        first = jnp.zeros(self.spec.observation_shape, self.spec.observation_dtype)
        told = jnp.zeros((len(self.metrics), 2))
        return Seat(learner, reward, replay, self._shown(first), jnp.int32(0), told, key)

    def _empty(self, learner_key: Key[Array, ""], reward_key: Key[Array, ""]) -> tuple[Learner, Any, Replay]:
        learner = self.agent.init(learner_key, self.spec)
        return learner, self.reward.init(reward_key, self.spec, 1), empty(self.slots, self.spec)

    def _act(self, acting: Held, view: Any, key: Any, step: Any) -> Float32[Array, " size"]:
        return self.agent.act(acting.tree, _draw(key, ACTING, step), view, explore=True)

    def _look(self, acting: Held, views: Any, frames: Any, first: Any) -> tuple[Any, Any]:
        if views.ndim == frames.ndim:
            views = frames
        else:
            shown = jax.vmap(self._shown)(frames)
            moved = jnp.concatenate([views[:, 1:], frames[:, None]], axis=1)
            views = jnp.where(first, shown, moved)
        return views, self.agent.act(acting.tree, jax.random.key(0), views, explore=False)

    def _update(
        self,
        full: bool,
        state: list[Any],
        replay: Replay,
        key: Any,
        step: Any,
        knobs: Knobs,
    ) -> tuple[Learner, Any, Told]:
        learner, reward, told = state
        key = _draw(key, UPDATING, step)
        learner, reward, metrics = self._learned(full, learner, reward, replay, key, step, knobs)
        return learner, reward, self._added(told, metrics)

    def _learned(
        self, full: bool, learner: Learner, reward: Any, replay: Replay, key: Any, step: Any, knobs: Knobs
    ) -> tuple[Learner, Any, dict[str, Any]]:
        drawing, bonus_key, learning = jax.random.split(key, 3)
        batch: Batch = replay.sample(drawing, self.recipe.batch, self.recipe.stack)
        reward, total, metrics = paying.replayed(
            self.reward, reward, bonus_key, batch, knobs, step, self.recipe.paid
        )
        learner, losses = self.agent.update(learner, learning, batch, total, full=full, replay=replay)
        losses = {COLUMN_OF.get(name, name): value for name, value in losses.items()}
        return learner, reward, metrics | losses

    def _begin(self, state: list[Any], observation: Any) -> tuple[Any, Replay]:
        reward, replay = state
        return self.reward.begin(reward, jnp.asarray(observation)), replay.begin(observation)

    def _collect(
        self, state: list[Any], view: Any, action: Any, reached: Parcel, *moment: Any
    ) -> tuple[Any, Replay]:
        reward, replay = state
        observation = parcel.observation(reached, self.spec)
        earned, terminated, truncated = parcel.earned(reached)
        left = view[-1] if self.spec.observation_dtype == "uint8" else view
        transition = Transition(
            before={"frame": left[None], "slot": replay.slot[None]},
            action=action[None],
            after={"frame": observation[None]},
            reward=earned[None],
            terminated=terminated[None],
            truncated=truncated[None],
        )
        reward, stored = self.reward.step(reward, transition)
        if self.recipe.paid == "made":
            steps, knobs = moment
            reward, stored = paying.made(self.reward, reward, stored, replay.slot, knobs, steps)
        return reward, replay.add(action, earned, terminated, stored[0], observation)

    def _see(self, view: Any, steps: Any, reached: Parcel) -> tuple[Any, Any]:
        observation = parcel.observation(reached, self.spec)
        stacked = view.ndim > observation.ndim
        return jnp.concatenate([view[1:], observation[None]]) if stacked else observation, steps + 1

    def _see_and_act(
        self, acting: Held, view: Any, key: Any, steps: Any, reached: Parcel
    ) -> tuple[Any, Any, Any]:
        view, steps = self._see(view, steps, reached)
        return view, steps, self._act(acting, view, key, steps)

    def _teach(self, state: list[Any], replay: Replay, key: Any, lesson: Any) -> tuple[Any, Told]:
        reward, told = state
        reward, metrics = self._lesson(reward, replay, _draw(key, LEARNING, lesson))
        return reward, self._added(told, metrics)

    def _lesson(self, reward: Any, replay: Replay, key: Any) -> tuple[Any, dict[str, Any]]:
        assert self.lessons is not None
        drawing, learning = jax.random.split(key)
        sequences: Any = replay.sequences(drawing, self.lessons.batch, self.lessons.length)
        return self.reward.learn(reward, learning, sequences)

    def _added(self, told: Told, metrics: dict[str, Any]) -> Told:
        """Adds what one call told; of some metrics only the last value counts."""
        values = jnp.stack([jnp.asarray(metrics.get(name, 0), jnp.float32) for name in self.metrics])
        known = np.array([name in metrics for name in self.metrics])
        last = known & np.array([_only_last(name) for name in self.metrics])
        rows = jnp.stack([values, jnp.asarray(known, jnp.float32)], axis=1)
        return jnp.where(last[:, None], rows, told + rows)

    def _shown(self, first: Any) -> Any:
        """What an agent sees at an episode's start: its first frame, as often as it sees frames."""
        if self.spec.observation_dtype != "uint8":
            return first
        return jnp.broadcast_to(first, (self.recipe.stack, *first.shape))


@functools.lru_cache(maxsize=4)
def program(recipe: ControlRecipe, spec: Spec) -> Program:
    """The program of a recipe; one that was compiled in this process is found again."""
    return Program(recipe, spec)


def held(seat: Seat) -> Seat:
    """A whole seat, ready to be trained."""
    return dataclasses.replace(seat, **{name: Held.of(getattr(seat, name)) for name in HELD})


def whole(seat: Seat) -> Seat:
    """A seat whose parts are trees, as they are kept and looked at."""
    return dataclasses.replace(seat, **{name: getattr(seat, name).tree for name in HELD})


def _only_last(name: str) -> bool:
    return name in LAST or name.startswith(("load/", "dropped/"))


def _some_key() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


def _draw(key: Key[Array, ""], purpose: int, number: Any) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.fold_in(key, purpose), number)
