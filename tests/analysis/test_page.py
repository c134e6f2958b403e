"""The page of a comparison: it stands alone, says what was found, and shows the numbers of the CSV file."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from compared_runs import N7, S3, cut, make_run

from gobi.analysis import drawing, page
from gobi.analysis.comparison import ALL, Comparison, compare
from gobi.analysis.pair_table import verdict

VOID = ("meta", "br")


class Cells(HTMLParser):
    """All tags, with the text of each cell that has a key; checks that every tag is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.key: str | None = None
        self.cells: dict[str, str] = {}
        self.ids: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.key = found.get("data-key")
        if self.key and tag == "small":
            self.cells[self.key] += " | "

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "td":
            self.key = None

    def handle_data(self, data):
        if self.key:
            self.cells[self.key] = self.cells.get(self.key, "") + data


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Comparison:
    """Three methods on two tasks; one fails now and then, one has a name that HTML could trip over."""
    folder = tmp_path_factory.mktemp("runs")
    for task in (N7, S3):
        make_run(folder / task / "gobi", task=task, pretraining=100_000)
        make_run(folder / task / "r3 <i>", task=task, reward="r3", solved_at=(3e6, 5e6, 7e6, math.inf))
        make_run(folder / task / "none", task=task, reward="none", solved_at=(math.inf,) * 4, world="none")
    return compare([folder], threshold=0.55)


@pytest.fixture(scope="module")
def text(found) -> str:
    return page.html(found)


def test_the_page_needs_nothing_from_anywhere(text):
    parsed = Cells(text)
    assert not {"script", "link", "iframe", "object", "img"} & {tag for tag, _ in parsed.tags}
    for _, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset")]
        assert (attributes.get("href") or "#").startswith("#")
    for remote in ("http:", "https:", "//", "@import", "url(", "@font-face"):
        assert remote not in text


def test_links_inside_the_page_lead_to_its_sections(text):
    tags = Cells(text).tags
    places = [found["id"] for _, found in tags if "id" in found]
    links = [found["href"] for tag, found in tags if tag == "a"]
    assert len(places) == len(set(places))
    assert {link[1:] for link in links} == set(places)
    assert "task-MultiRoom-N7-S8-v0" in places


def test_names_and_commands_are_text_and_never_markup(text, tmp_path):
    assert "<i>" not in text
    # Cards are files that anybody may have written.
    make_run(tmp_path / "a", card={"reward": "<u>", "task": "<u>&", "device": "<u>", "privileged": ["<u>"]})
    make_run(tmp_path / "b", card={"reward": "<s>", "task": "<u>&", "recipe_digest": "<s>"}, seeds=(0,))
    strange = page.html(compare([tmp_path]))
    assert "<u>" not in strange
    assert "<s>" not in strange
    Cells(strange)
    assert "<b>&" not in text
    assert "gobi train &lt;b&gt;&amp;" in text


def as_shown(row: dict[str, str]) -> str:
    """A line of comparison.csv as a cell of the page, written down once more."""
    name, seeds = row["statistic"], int(row["seeds"])

    def number(text: str) -> str:
        value = float(text)
        if name in ("frames_mean", "frames_median"):
            return f"{value / 1e6:.2f}M"
        if name == "seconds":
            return f"{value / 60:.1f} min"
        if name == "steps_per_second":
            return f"{value:,.0f}"
        return "under 0.001" if name == "permutation_area" and value < 0.001 else f"{value:.3f}"

    open_end = row["at_least"] == "True"
    if row["value"] == "inf":
        value = f"not by {number(row['frames'])}" if open_end else "never"
    elif name in ("solved", "solved_at_end"):
        value = f"{round(float(row['value']) * seeds)} of {seeds}"
    else:
        value = f"at least {number(row['value'])}" if open_end else number(row["value"])
    if not row["low"]:
        return value
    upper = f"from {number(row['low'])}" if row["high"] == "inf" else None
    return f"{value} | {upper or number(row['low']) + ' to ' + number(row['high'])}"


def test_every_number_in_the_tables_is_that_of_the_csv_file(found, text):
    cells = Cells(text).cells
    rows = {
        "|".join(row[name] for name in ("task", "method", "other", "statistic")): row
        for row in csv.DictReader(io.StringIO(found.to_csv()))
    }
    assert set(cells) == set(rows)
    for key, shown in cells.items():
        assert shown == as_shown(rows[key]), key
    assert sum(" | " in shown for shown in cells.values()) > 30
    assert {"never", "at least 8.00M"} <= set(cells.values())


def test_the_median_of_runs_that_are_not_finished_is_not_said_to_be_never(tmp_path):
    cut(make_run(tmp_path / "a", solved_at=(math.inf,) * 4), 1.8e6)
    make_run(tmp_path / "b", reward="none", solved_at=(math.inf,) * 4)
    cells = Cells(page.html(compare([tmp_path]))).cells
    assert cells[f"{N7}|gobi||frames_median"] == "not by 1.80M"
    assert cells[f"{N7}|none||frames_median"] == "never"


def test_tasks_that_are_not_summed_up_have_no_part_in_the_section_of_all_tasks(tmp_path):
    for task in (N7, S3, "dmc/hopper_hop"):
        make_run(tmp_path / task.replace("/", "-"), task=task)
    text = page.html(compare([tmp_path]))
    assert "over the seeds and tasks (KeyCorridorS3R3-v0, MultiRoom-N7-S8-v0), as shares" in text
    make_run(tmp_path / "alone" / "a", task=N7)
    make_run(tmp_path / "alone" / "b", task="dmc/hopper_hop")
    assert 'id="all"' not in page.html(compare([tmp_path / "alone"]))


def test_every_statistic_of_a_table_has_a_label_that_narrow_screens_show(text):
    cells = [found for tag, found in Cells(text).tags if tag == "td" and "data-key" in found]
    assert cells
    assert all(found.get("data-label") for found in cells)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "@media (max-width: 700px)" in text


def test_both_colour_schemes_have_a_colour_for_every_method_that_can_be_read_on_its_ground(text):
    light, dark = text.index(".m0 { --c:"), text.rindex("prefers-color-scheme: dark")
    assert light < dark < text.rindex(".m0 { --c:")
    grounds = re.findall(r"--paper: (#\w{6})", page.STYLE.read_text())
    assert len(grounds) == 2
    for ground, colours in zip(grounds, (drawing.LIGHT, drawing.DARK), strict=True):
        for colour in colours:
            # Letters and lines: the web's rules ask for 3 between a large letter or a graphic and its ground.
            assert contrast(ground, colour) > 4, colour


def contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines define it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_curves_are_told_apart_by_dash_and_letter_too(found):
    drawn = ElementTree.fromstring(drawing.svg(found, N7))
    lines = [element for element in drawn.iter() if element.get("class") == "line"]
    letters = [element.text for element in drawn.iter() if (element.get("class") or "").startswith("letter")]
    assert len({line.get("stroke-dasharray") for line in lines}) == len(lines) == 3
    assert sorted(letters) == ["A", "B", "C"]
    assert drawn.get("aria-label") == drawn[0].text
    assert "A gobi" in drawn[0].text


@pytest.mark.parametrize("task", [N7, ALL])
def test_nothing_is_drawn_outside_the_panel_and_no_two_letters_touch(found, task):
    drawn = ElementTree.fromstring(drawing.svg(found, task))
    shapes = [element.get("points") for element in drawn.iter() if element.get("points")]
    for points in shapes:
        for point in points.split():
            x, y = map(float, point.split(","))
            assert drawing.LEFT <= x <= drawing.WIDTH - drawing.RIGHT + 0.1
            assert 0 <= y <= drawing.HEIGHT - drawing.BOTTOM + 0.1
    heights = sorted(
        float(text.get("y", "")) for text in drawn.iter() if (text.get("class") or "").startswith("letter")
    )
    assert all(b - a >= drawing.LETTER - 0.11 for a, b in itertools.pairwise(heights))


@pytest.mark.parametrize(
    "rewards",
    [
        ("gobi", "r3"),
        ("gobi", *(f"a reward with the longest name of all of them {n}" for n in range(12))),
        ("gobi", *(" ".join(f"setting{n}=its value" for n in range(last)) for last in range(3, 12))),
        ("gobi", *(f"reward_options={','.join(f'option{n}=value' for n in range(last))}" for last in (8, 9))),
    ],
)
def test_the_legend_of_a_picture_fits_into_it_and_leaves_room_for_the_curves(tmp_path, rewards):
    for number, reward in enumerate(rewards):
        make_run(tmp_path / str(number), card={"reward": reward, "recipe_digest": reward})
    figure = drawing.picture(compare([tmp_path]), N7)
    figure.draw_without_rendering()
    (legend,), (axis,) = figure.legends, figure.axes
    inside, around = legend.get_window_extent(), figure.bbox
    assert around.x0 <= inside.x0 < inside.x1 <= around.x1
    assert around.y0 <= inside.y0 < inside.y1 <= axis.get_window_extent().y0
    assert axis.get_window_extent().height > 0.5 * figure.dpi * 4


def test_all_letters_stay_inside_however_many_lines_end_at_the_same_height():
    ends = [(number, 370.0 + number % 2, 20.0) for number in range(10)]
    many = drawing._letters([*ends, (10, 371.0, 229.0), (11, 371.0, 230.0)])
    heights = [float(re.search(r'y="([\d.]+)"', one)[1]) for one in many]
    assert max(heights) <= drawing.HEIGHT - drawing.BOTTOM + 4
    assert len(set(heights)) == 12
    assert [drawing.letter(number) for number in (0, 25, 26, 52)] == ["A", "Z", "AA", "BA"]


def test_the_letter_of_a_line_that_ends_early_stands_where_it_ends():
    early, late = drawing._letters([(0, 100.0, 50.0), (1, 371.0, 50.0)])
    assert 'x="105.0" y="54.0"' in early
    assert 'x="376.0" y="54.0"' in late


def test_a_method_that_is_not_finished_is_marked_and_pairs_tell_their_frames(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", reward="r3")
    cut(make_run(tmp_path / "c", reward="count"), 2e6)
    text = page.html(compare([tmp_path]))
    shown = re.findall(r'data-label="(frames|over frames)"><span>([^<]*)<', text)
    assert [words for label, words in shown if label == "frames"] == [
        "8.00M", "8.00M", "2.00M (not finished: 2.00M of 8.00M)",
    ]  # fmt: skip
    assert [words for label, words in shown if label == "over frames"] == ["8.00M", "2.00M", "2.00M"]
    assert "Areas: over the first 2.00M frames, which all methods have." in text


SOON = (2e6, 2.5e6, 3e6, 3.5e6)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ((4e6, 4.5e6, 5e6, 5.5e6), "A is better"),
        ((1e6, 1.1e6, 1.2e6, 1.3e6), "B is better"),
        ((2.2e6, 2.6e6, 2.9e6, 3.4e6), "cannot be told apart"),
        # One pair of sixteen is lost: the bootstrap is sure, and equal methods do as well one time in 18.
        ((3.4e6, 4.5e6, 5e6, 5.5e6), "cannot be told apart"),
        # No seed lost: the bootstrap is sure, though with so few seeds one time in 15 would look so.
        ((4e6, 4.5e6), "too few seeds to tell"),
        ((4e6,), "too few seeds to tell"),
    ],
)
def test_a_verdict_says_no_more_than_the_seeds_do(tmp_path, theirs, words):
    make_run(tmp_path / "a", solved_at=SOON)
    make_run(tmp_path / "b", reward="r3", solved_at=theirs, seeds=tuple(range(len(theirs))))
    (pair,) = compare([tmp_path]).pairs
    assert verdict(pair, "A", "B") == words


S4 = "MiniGrid-KeyCorridorS4R3-v0"
LATER, EARLIER = (4e6, 4.5e6, 5e6, 5.5e6), (1e6, 1.1e6, 1.2e6, 1.3e6)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ((LATER, LATER, LATER), "A is better"),
        # Over all three tasks the first is ahead, by interval and by permutation.
        ((LATER, LATER, EARLIER), "tasks disagree: A is better on 2, B on 1 of 3"),
        ((LATER, EARLIER, EARLIER), "tasks disagree: A is better on 1, B on 2 of 3"),
        ((LATER, LATER, (2e6, 2.1e6, 2.8e6, 3.4e6)), "A is better, though behind on 1 of 3 tasks"),
        ((EARLIER, EARLIER, (2.2e6, 2.6e6, 3.4e6, 4e6)), "B is better, though behind on 1 of 3 tasks"),
    ],
)
def test_a_verdict_over_tasks_that_disagree_says_so(tmp_path, theirs, words):
    for task, times in zip((N7, S3, S4), theirs, strict=True):
        make_run(tmp_path / task / "a", task=task, solved_at=SOON)
        make_run(tmp_path / task / "b", task=task, reward="r3", solved_at=times)
    (pair,) = compare([tmp_path]).pairs
    assert verdict(pair, "A", "B") == words


def test_where_tasks_disagree_nothing_is_decided(tmp_path):
    make_run(tmp_path / "a", solved_at=SOON)
    make_run(tmp_path / "b", reward="r3", solved_at=(5e6, 6e6, 6.5e6, 7e6))
    (pair,) = compare([tmp_path]).pairs
    assert pair.decided
    ahead = dataclasses.replace(pair, verdict="better", on=["better", "better", "better", "worse"])
    assert ahead.disagree
    assert not ahead.decided


def test_cards_stand_side_by_side_with_what_differs_marked(text):
    assert '<tr class="differs"><th scope="row">≠ reward</th>' in text
    # Two of three runs have the world of the usual kind.
    assert '<th scope="row">≠ world</th><td>copying</td><td class="odd">none</td><td>copying</td>' in text
    assert '<tr><th scope="row">device</th><td>cpu</td></tr>' in text
    assert '<th scope="row">versions: jax</th>' in text


def test_the_page_says_whether_looks_count_and_shows_a_run_that_is_compared_twice_once(tmp_path):
    make_run(tmp_path / "looks", card={"peeks": 24_000_000})
    make_run(tmp_path / "does not", reward="noveld", card={"privileged": [], "peeks": 0})
    shown = {peeks: page.html(compare([tmp_path], peeks=peeks)) for peeks in ("free", "counted", "both")}
    assert "Looks without a step (peeks) do not." in shown["free"]
    assert "frames, pre-training included</text>" in shown["free"]
    assert "So do looks without a step (peeks)." in shown["counted"]
    assert "frames, pre-training and peeks included</text>" in shown["counted"]
    assert "frames, pre-training included, peeks as named</text>" in shown["both"]
    assert "2 runs, 8 seeds" in shown["both"]
    assert shown["both"].count('<th scope="col">B C looks</th>') == 1
    assert all("counts as 4 frames" in shown[peeks] for peeks in ("counted", "both"))


def test_a_single_run_of_a_single_seed_gets_a_page_that_says_so(tmp_path):
    text = page.html(compare([make_run(tmp_path / "a", seeds=(0,))]))
    assert "<title>gobi on MultiRoom-N7-S8-v0</title>" in text
    assert "nothing to compare" in text
    assert "no interval is possible" in text
    assert "Method against method" not in text
    assert 'class="band"' not in text
    assert "<small>" not in text
    assert Cells(text).cells[f"{N7}|gobi||final"] == "0.600"


def test_a_metric_without_a_threshold_has_no_frames_to_it(tmp_path):
    text = page.html(compare([make_run(tmp_path / "a")], metric="seconds"))
    assert "frames to it" not in text
    assert f"{N7}|gobi||area" in Cells(text).cells
