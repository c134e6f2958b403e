"""A film of an agent trained on a control task: an episode, what its steps earned, and what was imagined."""

from __future__ import annotations

import numpy as np

from gobi.analysis import control_panel as panel
from gobi.analysis.control_bonus import Bonus, bonus
from gobi.analysis.control_episode import Episode, episode
from gobi.analysis.pictures import Frame
from gobi.envs.dmc.tasks import short

__all__ = ["Bonus", "Episode", "bonus", "episode", "frames"]


def frames(level: int, played: Episode, told: Bonus) -> list[Frame]:
    """The pictures of the film, one for each state that is shown."""
    earned = np.concatenate([[0], np.cumsum(played.rewards)]).astype(np.float32)
    drawer = panel.Panel(
        heading=f"{short(played.spec.id)}, episode {level}",
        max_steps=played.spec.max_steps,
        curve="memory m" if told.imagination else "return so far",
        values=told.imagination.sizes if told.imagination else earned,
        bonuses=told.paid if told.factors else None,
    )
    return [
        drawer.beside(picture, _moment(played, told, float(earned[number]), number))
        for number, picture in zip(played.shown, played.pictures, strict=True)
    ]


def _moment(played: Episode, told: Bonus, earned: float, number: int) -> panel.Moment:
    """What is told about one state."""
    step, its = number - 1, told.imagination
    pixels = len(played.spec.observation_shape) == 3
    imagined = None
    if its is not None and its.frames is not None and its.reconstructed is not None:
        imagined = panel.Imagined(
            reconstructed=its.reconstructed[number],
            frames=its.frames[number],
            new=its.new[number],
            own_new=bool(its.own_new[number]),
            counted=bool(its.counted[number]),
            more=int(its.more[number]),
        )
    return panel.Moment(
        step=number,
        action=played.actions[step] if number else None,
        earned=earned,
        bonus=float(told.paid[step]) if number else None,
        factors={name: float(part[step]) for name, part in told.factors.items() if number},
        seen=played.observations[number] if pixels else None,
        imagined=imagined,
    )
