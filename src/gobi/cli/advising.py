"""What a run says about its bonus's size, once, when there is enough to judge it by."""

from __future__ import annotations

import numpy as np

from gobi.adapters.advice import Sizes, advice
from gobi.training import checkpoints
from gobi.training.episodes import KEPT
from gobi.training.folder import Folder
from gobi.training.pack import Listener
from gobi.training.trainer import Row

FRAMES = 100_000


class Advising(Listener):
    """Hands on what a run tells, and adds a line of advice after its first 100,000 frames."""

    def __init__(
        self, inner: Listener, folder: Folder, coefficient: float, reward: str = "", repeat: int = 1
    ):
        """A run that is taken up again after them has had its advice.

        coefficient:  as it was set; rows tell what its decay has left of it.
        repeat:       frames that an action lasts: a bonus is paid once for all of them.
        """
        self.inner, self.coefficient, self.reward, self.repeat = inner, coefficient, reward, repeat
        self.begun = max((int(path.name) for path in checkpoints.available(folder.checkpoints)), default=0)
        self.at_first: float | None = None

    def stage(self, what: str, done: int, total: int) -> None:
        """Handed on."""
        self.inner.stage(what, done, total)

    def row(self, frames: int, total: int, row: Row, steps_per_second: float) -> None:
        """Handed on, and listened to."""
        self.inner.row(frames, total, row, steps_per_second)
        if "bonus" not in row:
            return
        if self.at_first is None:
            self.at_first = _mean(row, "bonus")
        if self.begun < FRAMES <= frames:
            self.begun = frames
            if np.any(row.get("bonus_share", 0) > 0):
                sizes = _sizes(row, self.at_first, self.repeat)
                self.say(f"advice: {advice(sizes, self.coefficient, frames, self.reward)}")

    def say(self, text: str) -> None:
        """Handed on."""
        self.inner.say(text)


def _sizes(row: Row, at_first: float, repeat: int) -> Sizes:
    """The last episodes, by what a row tells of them: of all seeds together, at most a hundred."""
    episodes = min(int(_mean(row, "episodes")), KEPT)
    # Where no step costs anything, as on grids, a return is a gain, and only who solves the task has one.
    gain = max(_mean(row, "gain" if "gain" in row else "return"), 0.0)
    share = next((_mean(row, name) for name in ("rewarded", "success") if _told(row, name)), 1.0)
    # What was earned, some episode has earned; of how many seeds it is one, their mean share tells.
    rewarded = max(1, round(share * episodes)) if gain else 0
    steps = _mean(row, "length") / repeat
    return Sizes(
        bonus=np.zeros(1),
        earned=np.zeros(1),
        episodes=episodes,
        bonuses=abs(_mean(row, "bonus") * _mean(row, "coefficient")) * steps * episodes,
        rewarded=rewarded,
        returns=gain / share * rewarded if share else gain * episodes,
        at_first=at_first,
        late=_mean(row, "bonus"),
    )


def _told(row: Row, name: str) -> bool:
    """Whether a row tells it of any seed: tasks of others need not say whether they were solved."""
    return name in row and bool(np.isfinite(row[name]).any())


def _mean(row: Row, name: str) -> float:
    """Over the seeds; 0 where it is not told."""
    return float(np.nan_to_num(row[name]).mean()) if name in row else 0.0
