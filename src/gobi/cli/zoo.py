"""`gobi zoo`: the trained agents that ship with gobi."""

from __future__ import annotations

from gobi.cli.terminal import say, show
from gobi.zoo.catalogue import Entry, entries

NUMBERS = ("frames", "levels", "return", "best\nknown", "success", "kB")
HEADINGS = ("agent", "task", "learner", *NUMBERS, "actions", "chosen")


def zoo() -> None:
    """Lists the trained agents that ship with gobi, and how well each plays levels that it has not seen."""
    found = entries()
    if not found:
        say("the zoo is empty: no trained agent ships with this gobi")
        return
    show([_row(entry) for entry in found], HEADINGS, NUMBERS)
    say(
        "\nreturn, success: means over so many levels that were not seen in training, one episode on each\n"
        "chosen: which seed of its run, by the return at the end of training\n"
        f"gobi watch zoo/{found[0].name}; evaluate, heatmap, plot and compare take zoo/NAME, too\n"
        f'in Python: gobi.zoo.load("{found[0].name}")'
    )


def _row(entry: Entry) -> list[str]:
    return [
        entry.name,
        entry.task,
        entry.learner,
        f"{entry.frames:,}",
        f"{entry.levels:,}",
        f"{entry.mean_return:.3f}",
        "-" if entry.best_return is None else f"{entry.best_return:.3f}",
        f"{entry.success:.1%}",
        f"{entry.size / 1000:.0f}",
        entry.policy,
        entry.chosen,
    ]
