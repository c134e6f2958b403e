"""The cards and recipes of runs side by side, with what differs between them marked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from gobi.analysis.comparison import Comparison
from gobi.analysis.drawing import letter
from gobi.analysis.runs import Run
from gobi.envs.minigrid.registry import bare
from gobi.training.card import ABOUT_THE_OCCASION

Fields = dict[str, str]


def cards(comparison: Comparison) -> list[str]:
    """A table for each task, or one for all if no task has two runs."""
    about = (
        "Rows marked ≠ differ between the runs; in them, values unlike those of most runs are bold. "
        "What is the same in all runs is below each table."
    )
    alone = sum(len(comparison.runs(task)) for task in comparison.tasks) == 1
    sections = ['<h2 id="cards">Cards</h2>', "" if alone else f'<p class="quiet">{about}</p>']
    by_task = {bare(task): comparison.runs(task) for task in comparison.tasks}
    if max(map(len, by_task.values())) == 1:
        by_task = {"all runs": [run for runs in by_task.values() for run in runs]}
    letters: dict[str, str] = {}
    for one in comparison.groups:
        for run in one.runs:
            # A run that is shown twice has two letters.
            before = f"{letters[run.name]} " if run.name in letters else ""
            letters[run.name] = before + letter(comparison.methods.index(one.method))
    for name, runs in by_task.items():
        sections.append("" if alone else f"<h3>{escape(name)}</h3>")
        sections.append(_side_by_side(runs, [f"{letters[run.name]} {run.name}" for run in runs]))
    return sections


def fields(run: Run) -> Fields:
    """Everything that is known of how a run was made, as texts; the recipe's fields after the card's."""
    known: dict[str, Any] = {}
    for name, value in run.card.items():
        known |= (
            {f"{name}: {part}": value[part] for part in value} if isinstance(value, dict) else {name: value}
        )
    for name, value in (run.settings or {}).items():
        # What the card calls frames is how far the run came; the recipe has what was planned.
        if name in ("world", "frames"):
            known[f"recipe: {name}"] = value
        else:
            known.setdefault(name, value)
    if isinstance(known.get("commit"), str):
        digits, plus, changes = known["commit"].partition("+")
        known["commit"] = digits[:12] + plus + changes
    return {name.replace("_", " "): _text(value) for name, value in known.items()}


def _side_by_side(runs: Sequence[Run], headings: Sequence[str]) -> str:
    each = [fields(run) for run in runs]
    names = list(dict.fromkeys(name for one in each for name in one))
    rows = {name: [one.get(name, "-") for one in each] for name in names}
    if len(runs) == 1:
        return _table(headings, [_row(name, values, False) for name, values in rows.items()])
    occasion = [name for name in names if name in ABOUT_THE_OCCASION]
    differing = [name for name in names if len(set(rows[name])) > 1 and name not in occasion]
    same = [name for name in names if name not in occasion and name not in differing]
    marked = [_row(name, rows[name], True) for name in differing]
    others = [_row(name, rows[name], False) for name in occasion]
    shared = _table(["in all runs"], [_row(name, rows[name][:1], False) for name in same])
    summary = f"the same in all {len(runs)} runs ({len(same)} fields)"
    return _table(headings, [*marked, *others]) + f"<details><summary>{summary}</summary>{shared}</details>"


def _row(name: str, values: Sequence[str], differs: bool) -> str:
    if not differs:
        return (
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(v)}</td>" for v in values)}</tr>'
        )
    (usual, count), *_ = Counter(values).most_common(1)
    # Where no value is that of most runs, none of them is odd.
    odd = 2 * count > len(values)
    cells = "".join(
        f'<td class="odd">{escape(value)}</td>' if odd and value != usual else f"<td>{escape(value)}</td>"
        for value in values
    )
    return f'<tr class="differs"><th scope="row">≠ {escape(name)}</th>{cells}</tr>'


def _table(headings: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings)
    return (
        f'<div class="scroll"><table class="cards"><thead><tr><th scope="col">field</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return value if isinstance(value, str) else json.dumps(value)
