"""A comparison as one HTML page that needs nothing else: no network, no scripts, no fonts of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from gobi.analysis import statistics
from gobi.analysis.card_table import cards
from gobi.analysis.cells import method_cell, number_cell, table, text_cell
from gobi.analysis.comparison import ALL, Comparison, frames_of, millions, notes
from gobi.analysis.drawing import DARK, LIGHT, label, svg, swatch
from gobi.analysis.grouping import Method
from gobi.analysis.meanings import COLUMNS, EXPLAINED
from gobi.analysis.pair_table import pair_table
from gobi.envs.dmc import is_control
from gobi.envs.minigrid.registry import bare

PEEKS = {
    "free": "Looks without a step (peeks) do not.",
    "counted": "So do looks without a step (peeks).",
    "both": "Runs with looks without a step (peeks) are shown twice: these free, and counted as frames.",
}
FRAMES = "frames"
STYLE = Path(__file__).with_name("page.css")


def html(comparison: Comparison) -> str:
    """The whole page."""
    title = _title(comparison)
    sections = [
        f"<h1>{escape(title)}</h1>",
        *_preface(comparison),
        *_methods(comparison),
        *_curves(comparison),
        *_over_all(comparison),
        *pair_table(comparison),
        *(part for task in comparison.tasks for part in _task(comparison, task)),
        *cards(comparison),
        *_explained(),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE.read_text()}{_palette()}</style></head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def _title(comparison: Comparison) -> str:
    methods, tasks = len(comparison.methods), list(comparison.tasks)
    where = bare(tasks[0]) if len(tasks) == 1 else f"{len(tasks)} tasks"
    if methods == 1:
        return f"{comparison.methods[0].label} on {where}"
    return f"{methods} methods on {where}"


def _preface(comparison: Comparison) -> list[str]:
    every = [run for task in comparison.tasks for run in comparison.runs(task)]
    runs, seeds = len(every), sum(len(run.seeds) for run in every)
    about = (
        f"{runs} run{'s' * (runs > 1)}, {seeds} seed{'s' * (seeds > 1)}; "
        f"compared: {label(comparison.metric)}. "
        f"Intervals: 95 %, {statistics.RESAMPLES:,} resamples drawn with seed {comparison.seed}. "
    )
    if not all(map(is_control, comparison.tasks)):
        about += f"Pre-training counts as frames. {PEEKS[comparison.peeks]}"
    links = [("methods", "Methods"), ("curves", "Learning curves")]
    links += [("all", "All tasks")] * bool(comparison.summed)
    links += [("pairs", "Method against method")] * (len(comparison.methods) > 1)
    links += [(_anchor(task), bare(task)) for task in comparison.tasks]
    links += [("cards", "Cards"), ("meaning", "What the numbers mean")]
    places = "".join(f'<a href="#{escape(at)}">{escape(text)}</a>' for at, text in links)
    found = "".join(f"<li>{escape(note)}</li>" for note in notes(comparison))
    known = f'<ul class="notes">{found}</ul>' if found else ""
    return [f"<p>{escape(about)}</p>", f"<nav>{places}</nav>", known]


def _methods(comparison: Comparison) -> list[str]:
    """What was grouped, and why."""
    headings = (
        "method",
        "reward",
        "recipe",
        "world",
        "told apart by",
        "uses beyond the task",
        "runs",
        "seeds",
    )
    rows = []
    for number, method in enumerate(comparison.methods):
        groups = [one for one in comparison.groups if one.method == method]
        runs = [run for one in groups for run in one.runs]
        privileged = dict.fromkeys(name for run in runs for name in run.card.get("privileged", ()))
        settings = ", ".join(f"{name} = {value}" for name, value in method.settings)
        seeds = "; ".join(f"{len(one.curves)} on {bare(one.task)}" for one in groups)
        words = (method.reward, method.recipe, method.world, settings or "-", ", ".join(privileged) or "-")
        cells = [text_cell(text, name) for text, name in zip(words, headings[1:], strict=False)]
        cells += [text_cell(str(len(runs)), "runs"), text_cell(seeds, "seeds")]
        rows.append(f"<tr>{method_cell(number, method)}{''.join(cells)}</tr>")
    about = (
        "Runs count as one method if they have the same reward, recipe and world and, on each task, the same "
        "settings; room for levels and codes, snapshots, and how often a run is evaluated do not matter."
    )
    return [f'<h2 id="methods">Methods</h2><p class="quiet">{about}</p>', table(headings, rows)]


def _curves(comparison: Comparison) -> list[str]:
    """All panels under one legend."""
    names = enumerate(comparison.methods)
    legend = "".join(f"<span>{swatch(number)}{escape(method.label)}</span>" for number, method in names)
    panels = [ALL] * bool(comparison.summed) + list(comparison.tasks)
    figures = [
        f"<figure><figcaption>{escape(bare(task))}</figcaption>{svg(comparison, task)}</figure>"
        for task in panels
    ]
    about = f"{label(comparison.metric).capitalize()}: mean over seeds, each seed thin, 95 % bootstrap band."
    if panels[0] == ALL:
        about += " All tasks: interquartile mean over seeds and tasks" + _scores(comparison)
    kind = "panels" if len(panels) > 1 else "panel"
    return [
        f'<h2 id="curves">Learning curves</h2><p class="quiet">{escape(about)}</p>',
        f'<div class="legend">{legend}</div><div class="{kind}">{"".join(figures)}</div>',
    ]


def _scores(comparison: Comparison) -> str:
    return ", as shares of each task's best known return." if comparison.normalised else ", as they are."


def _over_all(comparison: Comparison) -> list[str]:
    if not comparison.summed:
        return []
    names = ", ".join(map(bare, comparison.summed))
    about = f"Interquartile means (IQM) over the seeds and tasks ({names}){_scores(comparison)}"
    about += " All numbers are over the frames that all methods of a task have."
    wanted = ("final_iqm", "area_iqm", "solved", "solved_at_end", "success", "seconds")
    return [
        f'<h2 id="all">All tasks</h2><p class="quiet">{escape(about)}</p>',
        _numbers(comparison, ALL, wanted),
    ]


def _task(comparison: Comparison, task: str) -> list[str]:
    about = comparison.tasks[task]
    facts = [f"Areas: over the first {millions(about.horizon)} frames, which all methods have."]
    if about.threshold is not None:
        facts.append(f"Threshold: {label(comparison.metric)} {about.threshold:.3f}.")
    if about.best:
        facts.append(f"Best return known: {about.best:.3f}.")
    known = {row.statistic for row in comparison.rows if row.task == task}
    return [
        f'<h2 id="{escape(_anchor(task))}">{escape(bare(task))}</h2><p class="quiet">{" ".join(facts)}</p>',
        _numbers(comparison, task, [name for name in COLUMNS if name in known], _lengths(comparison, task)),
    ]


def _lengths(comparison: Comparison, task: str) -> dict[Method, str]:
    """The frames of each method on a task, and how far runs are that have not come to their end."""
    return {one.method: frames_of(one) for one in comparison.groups if one.task == task}


def _numbers(
    comparison: Comparison, task: str, wanted: Sequence[str], lengths: Mapping[Method, str] | None = None
) -> str:
    """A table with one line for each method; its frames come first where they are known."""
    rows = []
    for number, method in enumerate(comparison.methods):
        found = [comparison.row(task, method.label, name) for name in wanted]
        if any(found):
            cells = [number_cell(row, COLUMNS[name]) for row, name in zip(found, wanted, strict=True)]
            cells[:0] = [text_cell(lengths[method], FRAMES)] if lengths else []
            rows.append(f"<tr>{method_cell(number, method)}{''.join(cells)}</tr>")
    return table(("method", *[FRAMES] * bool(lengths), *(COLUMNS[name] for name in wanted)), rows)


def _explained() -> list[str]:
    parts = [f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in EXPLAINED.items()]
    return ['<h2 id="meaning">What the numbers mean</h2>', f"<dl>{''.join(parts)}</dl>"]


def _anchor(task: str) -> str:
    return "task-" + "".join(sign if sign.isalnum() else "-" for sign in bare(task))


def _palette() -> str:
    def rules(colours: Sequence[str]) -> str:
        return " ".join(f".m{number} {{ --c: {colour}; }}" for number, colour in enumerate(colours))

    return f"{rules(LIGHT)}\n@media (prefers-color-scheme: dark) {{ {rules(DARK)} }}\n"
