"""A run on a control task from start to end: all seeds side by side, each with an environment in a process.

An agent step of all seeds: a thread waits for every agent's action and sends it. Meanwhile, and while the
environments simulate and draw, the device is handed its work: to settle the step before (its bonus, the
replay, the world model's lessons), and to learn. When a step is received, the next action is worked out
first, from what is seen now. To hand over work takes a host about as long as the work takes a fast device;
this way neither waits for the other, and an environment for neither.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from gobi.envs.dmc import Step, Worker
from gobi.errors import MissingExtra
from gobi.training import checkpoints
from gobi.training.control import assembly, parcel, pictures, seat
from gobi.training.control.evaluation import Evaluator, Played, seeds_of
from gobi.training.control.parcel import Parcel
from gobi.training.control.recipe import ControlRecipe
from gobi.training.control.record import ControlRecord
from gobi.training.control.seat import Seat
from gobi.training.folder import Folder, Plan, alone
from gobi.training.pack import CHECKPOINT_SECONDS, Listener
from gobi.training.record import Outcome
from gobi.training.stopping import Stopping
from gobi.training.trainer import NotFinite, Row
from gobi.worlds.rssm import RSSM

LISTEN_SECONDS = 1.0
"""Between two words on how far it is."""


class _Made(NamedTuple):
    """A step that was made.

    view:    what the agent saw before it.
    action:  what it did.
    sent:    the step, on the device.
    first:   the next episode's first observation, if this one ended.
    """

    view: Any
    action: Any
    sent: Parcel
    first: np.ndarray | None


def go(
    folder: Folder,
    plan: Plan[ControlRecipe],
    listener: Listener | None = None,
    checkpoint: str | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stopping: Stopping | None = None,
) -> Outcome:
    """Trains to the end, from the last checkpoint if there is one.

    checkpoint:          the name of an earlier one to go on from.
    checkpoint_seconds:  time between checkpoints. When they are made changes nothing in what is learned.
    stopping:            when to stop before the end; by default when the user asks for it.
    """
    listener = listener or Listener()
    with alone(folder):
        found = checkpoints.chosen(folder.checkpoints, checkpoint)
        record = ControlRecord(folder, plan, found)
        run = _Run(record, listener, checkpoint_seconds, stopping or Stopping(listener.say))
        try:
            run.train()
        finally:
            run.close()
    return record.outcome()


class _Run:
    """One process's part of a run."""

    def __init__(self, record: ControlRecord, listener: Listener, every: float, stopping: Stopping):
        self.record, self.listener, self.checkpoint_seconds, self.stopping = record, listener, every, stopping
        self.recipe: ControlRecipe = record.recipe
        self.seeds = record.plan.seeds
        self.workers: list[Worker] = []
        self.evaluator: Evaluator | None = None
        self.opened = False
        self.actions: list[Any] = list(record.actions)
        """What comes next, perhaps still being worked out; none before the first step."""
        self.sender = ThreadPoolExecutor(1, "sender")
        self.unsettled: list[_Made] = []
        """The last step of each seed, as long as it is not settled."""

    def train(self) -> None:
        """From where the record stands to the end."""
        self.listener.stage("starting environments", 0, len(self.seeds))
        self.workers = [assembly.worker(self.recipe, seed) for seed in self.seeds]
        self.program = seat.program(self.recipe, self.workers[0].spec)
        self.evaluator = Evaluator(self.recipe, self.program, self.recipe.evaluation_episodes)
        self.seats = self._restored() if self.record.checkpoint else self._started()
        self.record.open(self.program, self.seats[0])
        self.opened = True
        self.listener.stage("compiling", 0, 1)
        with self.stopping:
            self._go_on()

    def close(self) -> None:
        """Ends the processes and closes the files."""
        self.sender.shutdown()
        for worker in self.workers:
            worker.close()
        if self.evaluator:
            self.evaluator.close()
        if self.opened:
            self.record.close()

    def _started(self) -> list[Seat]:
        seats = [self.program.start(seed) for seed in self.seeds]
        firsts = [worker.reset() for worker in self.workers]
        seats = [self.program.see_first(one, seen) for one, seen in zip(seats, firsts, strict=True)]
        return [self.program.begin(one, seen) for one, seen in zip(seats, firsts, strict=True)]

    def _restored(self) -> list[Seat]:
        self.workers[0].reset()
        seats, environments = self.record.restored(self.program, self.workers[0].save())
        for worker, saved in zip(self.workers, environments, strict=True):
            worker.load(saved)
        return seats

    def _go_on(self) -> None:
        record, recipe = self.record, self.recipe
        saved = spoke = since = time.perf_counter()
        while record.steps < recipe.agent_steps:
            self._step()
            over = record.steps >= recipe.agent_steps
            now = time.perf_counter()
            if over or record.steps % recipe.steps_per_row == 0:
                self._end_row(since)
                now = since = time.perf_counter()
            elif now - spoke > LISTEN_SECONDS:
                speed = recipe.action_repeat * len(self.seeds) * self.pace(record.passed + now - since)
                self.listener.row(record.frames, recipe.all_frames, record.last or {}, speed)
                spoke = now
            why = self.stopping.why()
            if over or why or now - saved > self.checkpoint_seconds:
                record.passed += now - since
                self._save(finished=over)
                saved = since = time.perf_counter()
            if why and not over:
                raise why

    def pace(self, seconds: float) -> float:
        """Agent steps per second since the last row."""
        return (self.record.steps % self.recipe.steps_per_row) / max(seconds, 1e-9)

    def _step(self) -> None:
        """One agent step of every seed."""
        program, record, step = self.program, self.record, self.record.steps
        learns = step >= self.recipe.random_steps and step % self.recipe.updates_every == 0
        actions = self.actions or [self._choose(place) for place in range(len(self.seeds))]
        sending = self.sender.submit(self._send, actions, record.frames)
        self._settle()
        if learns:
            self.seats = [program.update(one, record.updates) for one in self.seats]
        record.steps += 1
        record.updates += learns
        self.actions = []
        try:
            sending.result()
        except NotFinite:
            # Then some loss was no number before: that is what one should hear of.
            self._told()
            raise
        self.unsettled = [self._receive(place, action) for place, action in enumerate(actions)]

    def _receive(self, place: int, action: Any) -> _Made:
        """A step that this action led to. The agent sees where it is now, and chooses what comes next."""
        view, reached = self.seats[place].view, self.workers[place].receive()
        sent = parcel.packed(reached)
        first = self.workers[place].reset() if reached.done else None
        if first is None and not self._at_random:
            self.seats[place], follows = self.program.see_and_act(self.seats[place], sent)
        else:
            one = self.program.see(self.seats[place], sent)
            self.seats[place] = one if first is None else self.program.see_first(one, first)
            follows = self._choose(place)
        self.actions.append(follows)
        self._note(place, reached)
        return _Made(view, action, sent, first)

    def _settle(self) -> None:
        """Collects the last step, gives the lessons due, and begins what comes after an episode's end."""
        program, made, self.unsettled = self.program, self.unsettled, []
        for place, one in enumerate(made):
            self.seats[place] = program.collect(self.seats[place], one.view, one.action, one.sent)
        if made:
            self._teach()
        for place, one in enumerate(made):
            if one.first is not None:
                # After the lessons: what they taught holds for the next episode.
                self.seats[place] = program.begin(self.seats[place], one.first)

    def _note(self, place: int, reached: Step) -> None:
        """Writes a step into the diary."""
        diary = self.record.diaries[place]
        diary.earned += reached.reward
        if reached.done:
            diary.returns.append(diary.earned)
            diary.earned = 0.0
            diary.episodes += 1

    def _send(self, actions: list[Any], frames: int) -> None:
        """Waits until the device has worked out what to do, and lets the environments do it."""
        for worker, action in zip(self.workers, map(np.asarray, actions), strict=True):
            if not np.isfinite(action).all():
                raise NotFinite(f"the action became {action} after {frames:,} frames")
            worker.send(action)

    def _teach(self) -> None:
        lessons, record = self.program.lessons, self.record
        if lessons is None:
            return
        for _ in range(assembly.lessons_due(self.recipe, lessons, record.steps)):
            self.seats = [self.program.teach(one, record.lessons) for one in self.seats]
            record.lessons += 1

    @property
    def _at_random(self) -> bool:
        """Whether the next action is still drawn blindly."""
        return self.record.steps < self.recipe.random_steps

    def _choose(self, place: int) -> Any:
        """A seed's next action, perhaps one that the device is still working out."""
        one, program = self.seats[place], self.program
        if self._at_random:
            draw = np.random.default_rng([self.seeds[place], self.record.steps])
            return draw.uniform(-1, 1, program.spec.action_size).astype(np.float32)
        return program.act(program.acting(one.learner), one.view, one.key, one.steps)

    def _end_row(self, since: float) -> None:
        """Evaluates, and writes a row."""
        record, recipe = self.record, self.recipe
        told = self._told()
        self.seats = [self.program.afresh(one) for one in self.seats]
        begun = time.perf_counter()
        played = self._evaluated()
        evaluated = time.perf_counter() - begun
        row = _row(told, played, record)
        record.passed += time.perf_counter() - since
        steps = record.steps % recipe.steps_per_row or recipe.steps_per_row
        frames = steps * recipe.action_repeat
        speed = frames * len(self.seeds) / record.passed
        record.log(row, frames, evaluated)
        self._draw()
        self.listener.row(record.frames, recipe.all_frames, row, speed)

    def _evaluated(self) -> list[Played]:
        assert self.evaluator is not None
        number = -(-self.record.steps // self.recipe.steps_per_row)
        return [
            self.evaluator.play(
                self.program.acting(one.learner), seeds_of(seed, number, self.recipe.evaluation_episodes)
            )
            for one, seed in zip(self.seats, self.seeds, strict=True)
        ]

    def _draw(self) -> None:
        """A picture of what the first seed's world model sees and imagines."""
        if not (isinstance(self.program.model, RSSM) and self.record.lessons):
            return
        try:
            pictures.draw(self.record.folder.pictures, self.program, self.seats[0], self.record.frames)
        except MissingExtra as error:
            self.listener.say(f"no pictures of the world model: {error}")

    def _told(self) -> list[dict[str, float]]:
        """The metrics since the last row, with the last step settled; refuses what is not a number."""
        self._settle()
        told = [self.program.told(one) for one in self.seats]
        self.record.check(told)
        return told

    def _save(self, finished: bool) -> None:
        self._told()
        self.record.actions = [np.asarray(action) for action in self.actions]
        self.record.save(self.seats, [worker.save() for worker in self.workers], finished)


def _row(told: list[dict[str, float]], played: list[Played], record: ControlRecord) -> Row:
    """What is known of an interval, by column, one number for each seed."""
    dropped = [sum(value for name, value in one.items() if name.startswith("dropped/")) for one in told]
    returns = [np.mean(diary.returns) if diary.returns else np.nan for diary in record.diaries]
    row = {
        **{name: [one.get(name, np.nan) for one in told] for name in told[0]},
        "return": [np.mean(one.returns) for one in played],
        "success": [np.mean(one.returns > 0) for one in played],
        "length": [np.mean(one.lengths) for one in played],
        "training_return": returns,
        "episodes": [diary.episodes for diary in record.diaries],
        "updates": [record.updates] * len(told),
        "dropped": dropped,
    }
    return {name: np.asarray(values, np.float32) for name, values in row.items()}
