"""Comparisons: which runs are put together, what is refused, and over which frames they are measured."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
from compared_runs import N7, S3, cut, make_run

from gobi.analysis import statistics
from gobi.analysis.comparison import ALL, compare, frames_of, notes
from gobi.analysis.pairs import SHARED
from gobi.errors import GobiError


def labels(comparison) -> list[str]:
    return [method.label for method in comparison.methods]


# What is one method


def test_runs_of_one_method_and_task_are_one_group_with_all_their_seeds(tmp_path):
    make_run(tmp_path / "a", seeds=(0, 1))
    make_run(tmp_path / "b", seeds=(2, 3))
    found = compare([tmp_path])
    (group,) = found.groups
    assert [run.name for run in group.runs] == ["a", "b"]
    assert [curve.seed for curve in group.curves] == [0, 1, 2, 3]


def test_a_method_is_called_by_its_reward_and_what_else_tells_it_apart(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", world="real", settings={"world": "real"})
    make_run(tmp_path / "c", recipe="as_coded")
    make_run(tmp_path / "d", reward="count", world="none")
    assert labels(compare([tmp_path])) == ["gobi copying", "gobi real", "gobi as_coded", "count"]


def test_runs_that_differ_in_a_setting_are_two_methods_named_by_it(tmp_path):
    make_run(tmp_path / "a", settings={"steps": 1})
    make_run(tmp_path / "b", settings={"steps": 2})
    assert labels(compare([tmp_path])) == ["gobi steps=1", "gobi steps=2"]


def test_settings_that_differ_between_tasks_only_or_make_room_only_are_no_other_method(tmp_path):
    make_run(tmp_path / "a", task=N7, settings={"decay": 6e-7})
    make_run(tmp_path / "b", task=S3, settings={"decay": 5e-7}, seeds=(0, 1))
    make_run(tmp_path / "c", task=S3, settings={"decay": 5e-7, "bank": 8}, seeds=(2, 3))
    assert labels(compare([tmp_path])) == ["gobi"]


def test_another_planned_length_is_another_method_only_if_the_learning_rate_follows_it(tmp_path):
    for name, seeds, frames in (("a", (0, 1), 8e6), ("b", (2, 3), 4e6)):
        make_run(tmp_path / "linear" / name, seeds=seeds, frames=frames)
        make_run(
            tmp_path / "flat" / name, seeds=seeds, frames=frames, settings={"learning_rate_decay": "none"}
        )
    assert labels(compare([tmp_path / "linear"])) == ["gobi frames=8000000", "gobi frames=4000000"]
    assert labels(compare([tmp_path / "flat"])) == ["gobi"]


def test_fields_that_an_older_recipe_has_not_are_todays_defaults(tmp_path):
    make_run(tmp_path / "a", seeds=(0, 1))
    old = make_run(tmp_path / "b", seeds=(2, 3), card={"recipe_digest": "older"})
    recipe = json.loads((old / "recipe.json").read_text())
    del recipe["timeouts"]
    (old / "recipe.json").write_text(json.dumps(recipe))
    assert labels(compare([tmp_path])) == ["gobi"]


# What is refused


def refused(tmp_path, message: str, **options) -> None:
    with pytest.raises(GobiError, match=message) as told:
        compare([tmp_path], **options)
    assert "\n" not in str(told.value)


def test_the_same_seed_twice_is_refused(tmp_path):
    make_run(tmp_path / "a", seeds=(0, 1))
    make_run(tmp_path / "b", seeds=(1, 2))
    refused(tmp_path, "seed 1 of gobi on .*N7.* is both in a and in b")


def test_a_run_without_a_card_is_refused(tmp_path):
    (make_run(tmp_path / "a") / "card.json").unlink()
    refused(tmp_path, r"a has no card\.json that tells its task")


def test_runs_that_differ_in_something_that_nobody_can_say_are_refused(tmp_path):
    make_run(tmp_path / "a", seeds=(0, 1))
    (make_run(tmp_path / "b", seeds=(2, 3), settings={"steps": 2}) / "recipe.json").unlink()
    refused(tmp_path, r"b differs in its settings .* no readable recipe\.json")


def test_methods_without_a_task_in_common_are_refused(tmp_path):
    make_run(tmp_path / "a", task=N7)
    make_run(tmp_path / "b", task=S3, reward="count")
    refused(tmp_path, "no task has two methods .gobi ran on .*N7.*, count on .*S3R3")


def test_two_versions_of_a_task_under_one_name_are_refused(tmp_path):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", reward="count", card={"task_version": "corner start"})
    refused(tmp_path, "is not the same task in a .* and in b .'corner start'.")


def test_a_run_that_ends_before_the_others_pre_training_does_is_refused(tmp_path):
    make_run(tmp_path / "a", pretraining=500_000)
    make_run(tmp_path / "b", reward="count", frames=400_000)
    refused(tmp_path, "no frames in common: count ends at 400,000, where a was still in its 500,000 frames")


def test_unknown_and_empty_metrics_are_refused(tmp_path):
    make_run(tmp_path / "a")
    refused(tmp_path, "unknown metric 'retrun'; did you mean return", metric="retrun")
    refused(tmp_path, "unknown metric 'frames'", metric="frames")
    refused(tmp_path, "a has no value of rooms for seed 0", metric="rooms")


# What is measured


def test_pre_training_shifts_a_curve_to_the_right_and_counts_in_every_number(tmp_path):
    make_run(tmp_path / "a", pretraining=1_000_000)
    make_run(tmp_path / "b", reward="count", pretraining=0)
    found = compare([tmp_path], threshold=0.6)
    shifted, plain = (found.row(N7, name, "frames_mean") for name in ("gobi", "count"))
    # Rows come every 200,000 frames: the plateaus at 2, 2.5, 3 and 3.5 million are seen from the next one on.
    assert plain.value == np.mean([2.0e6, 2.6e6, 3.0e6, 3.6e6])
    assert shifted.value == plain.value + 1e6
    assert found.tasks[N7].horizon == 8e6
    line, other = found.lines
    before = line.frames <= 1e6
    assert (line.middle[before] == 0).all()
    assert (other.middle[before][1:] > 0).all()
    np.testing.assert_allclose(
        found.row(N7, "gobi", "area").value, found.row(N7, "count", "area").value - 0.6 * 1 / 8, atol=1e-3
    )


def test_a_method_that_was_stopped_early_does_not_cut_the_others_short(tmp_path):
    make_run(tmp_path / "a", frames=8e6)
    alone = compare([tmp_path], threshold=0.6)
    cut(make_run(tmp_path / "b", reward="count", solved_at=(4e6,) * 4), 2e6)
    found = compare([tmp_path], threshold=0.6)
    for name in ("final", "solved", "frames_mean", "frames_median", "success", "seconds"):
        assert found.row(N7, "gobi", name) == alone.row(N7, "gobi", name)
    np.testing.assert_array_equal(found.lines[0].middle, alone.lines[0].middle)
    assert found.row(N7, "gobi", "solved").value == 1.0
    assert found.row(N7, "count", "final").value == pytest.approx(0.3)
    assert [line.frames[-1] for line in found.lines] == [8e6, 2e6]


def test_areas_are_over_the_frames_that_all_have_and_it_is_said_which(tmp_path):
    make_run(tmp_path / "a", frames=8e6)
    cut(make_run(tmp_path / "b", reward="count", solved_at=(4e6,) * 4), 2e6)
    found = compare([tmp_path])
    assert found.tasks[N7].horizon == 2e6
    area = found.row(N7, "gobi", "area")
    # A straight line up to two million frames, of which its mean is the half.
    assert area.value == pytest.approx(np.mean(0.6 / np.array([2, 2.5, 3, 3.5])), abs=1e-3)
    assert (area.frames, found.row(N7, "gobi", "final").frames) == (2e6, 8e6)
    told = notes(found)
    assert any("areas are over the first 2.00M frames, where 'count' ends" in note for note in told)
    assert "MultiRoom-N7-S8-v0: not finished: b (2.00M of 8.00M)." in told


def test_the_frames_told_of_a_method_are_those_its_numbers_are_at(tmp_path):
    task = "dmc/pendulum_swingup"
    short = make_run(tmp_path / "a", task=task, reward="re3", world="none", seeds=(0,), frames=2e5)
    cut(make_run(tmp_path / "b", task=task, reward="re3", world="none", seeds=(1,), frames=5e5), 4e5)
    (group,) = (found := compare([tmp_path])).groups
    assert found.row(task, "re3", "final").frames == 2e5
    assert frames_of(group) == "200k (not finished: 400k of 500k)"
    assert frames_of(compare([short]).groups[0]) == "200k"


def test_two_methods_are_compared_over_the_frames_of_both_whatever_a_third_has(tmp_path):
    # The one that is behind at two million frames is ahead in the end.
    make_run(tmp_path / "a", plateau=0.1, solved_at=(1e6,) * 4)
    make_run(tmp_path / "b", reward="r3", plateau=0.6, solved_at=(8e6,) * 4)
    pair = compare([tmp_path]).row(N7, "gobi", "improvement_final", "r3")
    assert (pair.value, pair.frames) == (0.0, 8e6)
    cut(make_run(tmp_path / "c", reward="count"), 1e6)
    found = compare([tmp_path])
    assert found.row(N7, "gobi", "improvement_final", "r3") == pair
    for score in ("area", "final"):
        # At a million frames it stands at 0.075, the one that was stopped there at 0.17 and more.
        other = found.row(N7, "r3", f"improvement_{score}", "count")
        assert (other.value, other.frames) == (0.0, 1e6)


def test_a_seed_that_never_reached_the_threshold_is_censored(tmp_path):
    make_run(tmp_path / "a", solved_at=(2e6, math.inf, math.inf, math.inf))
    found = compare([tmp_path])
    mean, median = (found.row(N7, "gobi", name) for name in ("frames_mean", "frames_median"))
    reached = 2e6 * 0.9 * 0.68 / 0.6
    assert found.tasks[N7].threshold == pytest.approx(0.9 * 0.68)
    assert reached > 2e6
    assert (mean.value, mean.at_least) == (8e6, True)
    assert (median.value, median.low) == (math.inf, None)
    found = compare([tmp_path], threshold=0.6)
    mean, median = (found.row(N7, "gobi", name) for name in ("frames_mean", "frames_median"))
    assert (mean.value, mean.at_least) == ((2e6 + 3 * 8e6) / 4, True)
    assert (median.value, median.high) == (math.inf, math.inf)
    assert found.row(N7, "gobi", "solved").value == 0.25


def staggered(folder, task=N7, end=1.6e6):
    """Four seeds: the first solved the task and was watched to its end, the others were stopped before."""
    make_run(folder / "whole", task=task, seeds=(0,), solved_at=(2e6,))
    cut(make_run(folder / "stopped", task=task, seeds=(1, 2, 3)), end)


def test_each_seed_is_watched_to_its_own_end_for_the_threshold_and_to_the_common_one_otherwise(tmp_path):
    staggered(tmp_path)
    found = compare([tmp_path], threshold=0.6)
    names = ("solved", "solved_at_end", "frames_mean", "frames_median")
    solved, stayed, mean, median = (found.row(N7, "gobi", name) for name in names)
    assert (solved.value, stayed.value, solved.frames) == (0.25, 0.25, 8e6)
    # At two million frames nobody else was watched any more.
    assert (median.value, median.low, median.high) == (2e6, 2e6, math.inf)
    assert (mean.value, mean.at_least) == (2e6, True)
    final = found.row(N7, "gobi", "final")
    assert (final.frames, final.value) == (1.6e6, pytest.approx(np.mean(0.96 / np.array([2, 2, 2.5, 3]))))
    assert found.lines[0].frames[-1] == found.tasks[N7].horizon == 1.6e6


def test_a_seed_that_was_stopped_leaves_the_risk_at_its_own_end(tmp_path):
    """By hand: of four seeds one solves it, of the three left one is stopped, then one of two solves it."""
    make_run(tmp_path / "a", seeds=(0, 1, 2), solved_at=(2e6, 4e6, math.inf))
    cut(make_run(tmp_path / "b", seeds=(3,), solved_at=(math.inf,)), 3e6)
    found = compare([tmp_path], threshold=0.6)
    assert found.row(N7, "gobi", "frames_median").value == 4e6
    assert found.row(N7, "gobi", "frames_mean").value == pytest.approx(2e6 + 2e6 * 3 / 4 + 4e6 * 3 / 8)


def test_over_all_tasks_the_threshold_counts_over_the_frames_that_all_methods_have(tmp_path):
    """Also for the method that is itself the shortest: its longer seeds had more time than the others."""
    for task in (N7, S3):
        staggered(tmp_path / task / "a", task)
        make_run(tmp_path / task / "b", task=task, reward="count", solved_at=(2e6,) * 4)
    found = compare([tmp_path], threshold=0.6)
    assert (found.row(N7, "gobi", "solved").value, found.row(N7, "count", "solved").value) == (0.25, 1.0)
    for method in ("gobi", "count"):
        assert found.row(ALL, method, "solved").value == found.row(ALL, method, "solved_at_end").value == 0.0


@pytest.mark.parametrize(
    ("solved_at", "stopped", "told"),
    [
        # All four were stopped.
        ((), (math.inf,) * 4, (True, 1.6e6)),
        # If those two that were stopped got there, half of the seeds would have.
        ((math.inf,) * 2, (math.inf,) * 2, (True, 1.6e6)),
        # Whatever becomes of the one that was stopped, most have failed.
        ((math.inf,) * 3, (math.inf,), (False, 8e6)),
        # The second of four has not been seen before 1.6 million frames.
        ((1e6,), (math.inf,) * 3, (True, 1.6e6)),
    ],
)
def test_a_median_is_never_only_if_most_seeds_had_their_time(tmp_path, solved_at, stopped, told):
    if solved_at:
        seeds = tuple(range(len(solved_at)))
        make_run(tmp_path / "whole", seeds=seeds, solved_at=solved_at)
    seeds = tuple(range(len(solved_at), 4))
    cut(make_run(tmp_path / "stopped", seeds=seeds, solved_at=stopped), 1.6e6)
    row = compare([tmp_path], threshold=0.6).row(N7, "gobi", "frames_median")
    assert (row.value, row.at_least, row.frames) == (math.inf, *told)


def count_episodes(folder, per_row: float):
    """The same run with so many more episodes ended at each of its rows."""
    file = folder / "metrics.csv"
    heading, *rows = file.read_text().splitlines()
    place, frames = (heading.split(",").index(name) for name in ("episodes", "frames"))
    fields = [row.split(",") for row in rows]
    first = float(fields[0][frames])
    for row in fields:
        row[place] = str(per_row * float(row[frames]) / first)
    file.write_text("\n".join([heading, *(",".join(row) for row in fields), ""]))
    return folder


def test_a_mean_over_a_few_lucky_episodes_has_not_reached_the_threshold(tmp_path):
    """Rows come every 200,000 frames; the hundredth episode ends at the fifth."""
    lucky = make_run(tmp_path / "a", solved_at=(1.0, 1.0, 1.0, 3e6))
    assert compare([tmp_path], threshold=0.6).row(N7, "gobi", "frames_mean").value == (3 * 2e5 + 3e6) / 4
    count_episodes(lucky, 20)
    found = compare([tmp_path], threshold=0.6)
    assert found.row(N7, "gobi", "frames_mean").value == (3 * 1e6 + 3e6) / 4
    assert found.row(N7, "gobi", "solved").value == 1.0
    # Curves and areas are of all rows.
    assert found.groups[0].curves[0].values[1] == 0.6


def test_a_run_of_fewer_than_a_hundred_episodes_does_not_reach_the_threshold_nor_stay_there(tmp_path):
    count_episodes(make_run(tmp_path / "a"), 2)
    for metric in ("return", "success"):
        found = compare([tmp_path], metric, threshold=0.6)
        assert found.row(N7, "gobi", "solved").value == found.row(N7, "gobi", "solved_at_end").value == 0.0
        assert found.row(N7, "gobi", "final").value > 0.5
    # What is no mean over episodes is known from the first row on.
    assert compare([tmp_path], "seconds", threshold=1.0).row(N7, "gobi", "frames_mean").value == 2e5


def test_evaluations_of_control_tasks_count_however_few_episodes_have_ended(tmp_path):
    task = "dmc/hopper_hop"
    count_episodes(make_run(tmp_path / "a", task=task, plateau=600.0, solved_at=(2e6,) * 4), 1)
    assert compare([tmp_path], threshold=600.0).row(task, "gobi", "frames_mean").value == 2e6


def test_a_run_without_a_column_of_episodes_is_read_as_it_is(tmp_path):
    file = make_run(tmp_path / "a") / "metrics.csv"
    place = file.read_text().splitlines()[0].split(",").index("episodes")
    rows = [line.split(",") for line in file.read_text().splitlines()]
    file.write_text("".join(",".join(row[:place] + row[place + 1 :]) + "\n" for row in rows))
    found = compare([tmp_path], threshold=0.6)
    assert found.row(N7, "gobi", "frames_mean").value == np.mean([2.0e6, 2.6e6, 3.0e6, 3.6e6])


def test_all_tasks_are_summed_up_as_shares_of_what_can_be_reached_over_seeds_and_tasks(tmp_path):
    for reward, scale in (("gobi", 1.0), ("count", 0.5)):
        for task, best in ((N7, 0.68), (S3, 0.93)):
            make_run(tmp_path / reward / task, reward=reward, task=task, plateau=scale * best,
                     card={"best_return": best})  # fmt: skip
    found = compare([tmp_path])
    assert found.normalised
    assert found.row(ALL, "gobi", "final_iqm").value == pytest.approx(1.0)
    assert found.row(ALL, "count", "final_iqm").value == pytest.approx(0.5)
    areas = {
        task: np.array([statistics.area_under_curve(c.frames, c.values, 8e6) for c in group.curves]) / best
        for group, (task, best) in zip(found.groups[2:], ((S3, 0.93), (N7, 0.68)), strict=True)
        if group.task == task
    }
    row = found.row(ALL, "gobi", "area_iqm")
    expected = statistics.bootstrap(list(areas.values()), statistics.interquartile_mean, seed=0)
    assert len(areas) == 2
    assert row.value == pytest.approx(float(statistics.interquartile_mean(np.concatenate([*areas.values()]))))
    assert (row.low, row.high) == pytest.approx(expected)
    assert found.row(SHARED, "count", "improvement_area", "gobi").value == 0.0
    assert found.row(SHARED, "count", "permutation_area", "gobi").value == pytest.approx(2 / 70**2)


HOP, RUN = "dmc/hopper_hop", "dmc/walker_run"


@pytest.mark.parametrize(
    ("tasks", "summed", "final"),
    [
        ((N7, S3), {N7, S3}, 0.5 / 0.68),
        ((N7, S3, HOP), {N7, S3}, 0.5 / 0.68),
        ((N7, HOP, RUN), set(), None),
        ((HOP, RUN), {HOP, RUN}, 500.0),
    ],
)
def test_only_returns_on_one_scale_are_summed_up_and_it_is_said_which_were_left_out(
    tmp_path, tasks, summed, final
):
    for number, task in enumerate(tasks):
        for reward in ("gobi", "none"):
            plateau = 500.0 if task.startswith("dmc/") else 0.5
            make_run(tmp_path / f"{number}" / reward, task=task, reward=reward, plateau=plateau)
    found = compare([tmp_path])
    assert set(found.summed) == summed
    row = found.row(ALL, "gobi", "final_iqm")
    assert (row and row.value) == (final and pytest.approx(final))
    assert (ALL in {line.task for line in found.lines}) == bool(summed)
    told = [note for note in notes(found) if note.startswith("The best return is not known on")]
    left = [task for task in found.common if task not in summed and task.startswith("dmc/")]
    assert len(told) == bool(left)
    assert all(task in told[0] for task in left)
    if left:
        assert f"summed up {'over 2 of the 3 tasks' if summed else 'over none'}." in told[0]


def test_other_metrics_than_the_return_need_no_best_one(tmp_path):
    for task in (N7, HOP):
        make_run(tmp_path / task.replace("/", "-"), task=task)
    found = compare([tmp_path], "success")
    assert (found.normalised, len(found.summed)) == (False, 2)
    assert found.row(ALL, "gobi", "final_iqm").value == 1.0


def test_methods_are_summed_up_over_the_frames_that_all_have_so_that_the_longer_is_not_the_better(tmp_path):
    for task in (N7, S3):
        make_run(tmp_path / "a" / task, task=task, plateau=0.68)
        cut(make_run(tmp_path / "b" / task, task=task, plateau=0.68, reward="count"), 3e6)
    found = compare([tmp_path])
    for name in ("final_iqm", "area_iqm", "solved", "success", "seconds"):
        ours, theirs = (found.row(ALL, method, name) for method in ("gobi", "count"))
        assert (ours.value, ours.low, ours.high) == (theirs.value, theirs.low, theirs.high), name
    assert found.row(N7, "gobi", "solved").value == 1.0


def test_methods_are_summed_up_over_the_tasks_that_all_of_them_have(tmp_path):
    make_run(tmp_path / "a", task=N7)
    make_run(tmp_path / "b", task=S3)
    make_run(tmp_path / "c", task=N7, reward="count")
    found = compare([tmp_path])
    assert found.common == [N7]
    assert found.row(ALL, "gobi", "final_iqm") is None
    assert found.row(N7, "gobi", "improvement_area", "count").value == 0.5
    assert any(note.startswith("Not every method has runs on KeyCorridorS3R3-v0") for note in notes(found))


def test_one_run_of_one_seed_is_described_without_intervals_and_said_to_be_alone(tmp_path):
    make_run(tmp_path / "a", seeds=(5,))
    found = compare([tmp_path])
    assert all(row.low is None and row.high is None for row in found.rows)
    assert found.lines[0].low is None
    told = " ".join(notes(found))
    assert "nothing to compare" in told
    assert "one seed only of 'gobi', so no interval is possible" in told


def test_wall_clock_is_the_training_time_of_the_runs_to_the_methods_end(tmp_path):
    make_run(tmp_path / "a", seeds=(0, 1), frames=8e6, pretraining=1_000_000)
    make_run(tmp_path / "b", seeds=(2, 3, 4), frames=8e6, pretraining=1_000_000)
    make_run(tmp_path / "c", reward="count", frames=4e6)
    found = compare([tmp_path])
    # A row says one second for every 100,000 frames of the run, however many seeds it has.
    assert found.row(N7, "gobi", "seconds").value == pytest.approx(80 + 80)
    assert found.row(N7, "count", "seconds").value == pytest.approx(40)
    assert found.row(N7, "gobi", "steps_per_second").value == pytest.approx(5 * 8e6 / 160)


def test_the_numbers_and_curves_as_csv_are_those_of_the_comparison(tmp_path):
    make_run(tmp_path / "a", solved_at=(2e6, 3e6, math.inf, math.inf))
    make_run(tmp_path / "b", reward="count")
    found = compare([tmp_path])
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert len(rows) == len(found.rows)
    for row, expected in zip(rows, found.rows, strict=True):
        assert float(row["value"]) == expected.value
        assert row["low"] == ("" if expected.low is None else str(expected.low))
        assert (row["task"], row["method"], row["metric"]) == (N7, expected.method, "return")
    points = list(csv.DictReader(io.StringIO(found.curves_to_csv())))
    assert len(points) == sum(len(line.frames) for line in found.lines)
    assert float(points[-1]["return"]) == found.lines[-1].middle[-1]


def test_the_bootstraps_seed_moves_intervals_and_nothing_else(tmp_path):
    times = tuple(np.random.default_rng(0).uniform(1e6, 6e6, 9).tolist())
    make_run(tmp_path / "a", seeds=tuple(range(9)), solved_at=times)
    one, same, other = (compare([tmp_path], seed=seed) for seed in (0, 0, 1))
    assert one.to_csv() == same.to_csv() != other.to_csv()
    assert [row.value for row in one.rows] == [row.value for row in other.rows]


# What a look costs


def looking(folder, **changes):
    """A run that looks around three times at each step."""
    return make_run(folder, **{"card": {"peeks": 24_000_000}, "pretraining": 100_000, **changes})


def not_looking(folder, **changes):
    card = {"privileged": [], "peeks": 0}
    return make_run(folder, **{"reward": "noveld", "world": "none", "card": card, **changes})


def test_looks_without_a_step_are_free_unless_they_are_to_be_counted(tmp_path):
    looking(tmp_path / "a")
    not_looking(tmp_path / "b")
    free, counted = (compare([tmp_path], threshold=0.6, peeks=peeks) for peeks in ("free", "counted"))
    assert labels(free) == ["gobi", "noveld"]
    assert labels(counted) == ["gobi peeks=counted", "noveld"]
    before, after = free.row(N7, "gobi", "frames_mean"), counted.row(N7, "gobi peeks=counted", "frames_mean")
    # Every step is four frames, those of pre-training too.
    seen = [2.0e6, 2.6e6, 3.0e6, 3.6e6]
    assert before.value == np.mean(seen) + 1e5
    assert after.value == 4 * (np.mean(seen) + 1e5)
    for found in (free, counted):
        assert found.tasks[N7].horizon == 8e6
        assert found.row(N7, "noveld", "frames_mean").value == np.mean(seen)


def test_counted_looks_move_what_is_compared_to_where_the_steps_were_fewer(tmp_path):
    """At 8 million frames, four a step, it stands where it stood after 2 million steps, pre-training less."""
    looking(tmp_path / "a")
    not_looking(tmp_path / "b", plateau=0.45, solved_at=(1e6,) * 4)
    free, found = (compare([tmp_path], peeks=peeks) for peeks in ("free", "counted"))
    name, steps = "gobi peeks=counted", 8e6 / 4 - 1e5
    shares = np.minimum(1, steps / np.array([2e6, 2.5e6, 3e6, 3.5e6]))
    assert free.row(N7, "gobi", "improvement_final", "noveld").value == 1.0
    assert found.row(N7, name, "improvement_final", "noveld").value == np.mean(0.6 * shares > 0.45)
    half = np.interp(8e6, found.lines[0].frames, found.lines[0].middle)
    assert half == pytest.approx(0.6 * np.mean(shares), abs=5e-3)
    assert (found.lines[0].frames[-1], found.groups[0].end) == (4 * 8.1e6, 4 * 8.1e6)
    # Steps are steps: a look takes no step, so looking does not make a method faster.
    assert found.row(N7, name, "seconds").value == pytest.approx(80)
    assert found.row(N7, name, "steps_per_second").value == pytest.approx(4e5)


def test_a_run_that_looks_around_can_be_shown_both_ways_beside_one_that_does_not(tmp_path):
    looking(tmp_path / "a")
    not_looking(tmp_path / "b")
    both = compare([tmp_path], threshold=0.25, peeks="both")
    assert labels(both) == ["gobi", "gobi peeks=counted", "noveld"]
    for peeks, name in (("free", "gobi"), ("counted", "gobi peeks=counted")):
        alone = compare([tmp_path], threshold=0.25, peeks=peeks)
        for statistic in ("final", "area", "frames_mean", "success", "seconds"):
            assert both.row(N7, name, statistic) == alone.row(N7, name, statistic)
    assert [run.name for run in both.runs(N7)] == ["a", "b"]
    curves = list(csv.DictReader(io.StringIO(both.curves_to_csv())))
    assert {row["method"] for row in curves} == set(labels(both))


def test_what_looks_cost_and_what_help_cannot_be_counted_is_said(tmp_path):
    looking(tmp_path / "a")
    make_run(tmp_path / "b", world="real", card={"privileged": ["simulator"], "peeks": 0})
    assert not any("Looks" in note for note in notes(compare([tmp_path])))
    told = notes(compare([tmp_path], peeks="both"))
    assert any("each step of 'gobi copying peeks=counted' counts as 4 frames" in note for note in told)
    assert "Not to be counted in looks: 'gobi real' reads the simulator." in told
    nobody = notes(compare([tmp_path / "b"], peeks="counted"))
    assert any("there is nothing to count" in note for note in nobody)


def test_a_run_that_looked_around_and_does_not_say_how_often_is_refused_if_that_matters(tmp_path):
    """As one is that was killed before its first checkpoint."""
    looking(tmp_path / "a", card={"frames": 0, "peeks": 0})
    assert compare([tmp_path]).tasks[N7].horizon == 8.1e6
    with pytest.raises(GobiError, match="its card does not tell how often"):
        compare([tmp_path], peeks="counted")


# Control tasks


def test_sparse_control_tasks_begin_at_nothing_and_dense_ones_at_their_first_evaluation(tmp_path):
    for task in ("dmc/hopper_hop", "dmc/walker_run"):
        make_run(tmp_path / task, task=task, frames=4e5, solved_at=(1e3,) * 4, plateau=100.0)
    sparse, dense = compare([tmp_path]).groups
    assert (sparse.task, dense.task) == ("dmc/hopper_hop", "dmc/walker_run")
    assert (sparse.curves[0].frames[0], sparse.curves[0].values[0]) == (0.0, 0.0)
    assert (dense.curves[0].frames[0], dense.curves[0].values[0]) == (1e4, 100.0)


def test_a_task_of_gymnasium_s_begins_at_its_first_episodes_not_at_nothing(tmp_path):
    make_run(tmp_path / "car", task="gym/MountainCar-v0", frames=4e5, solved_at=(1e3,) * 4, plateau=-200.0)
    (car,) = compare([tmp_path]).groups
    assert (car.curves[0].frames[0], car.curves[0].values[0]) == (1e4, -200.0)


def test_on_control_tasks_nothing_is_solved_and_learning_rates_do_not_fall(tmp_path):
    for reward, frames in (("re3", 4e5), ("none", 2e5)):
        make_run(tmp_path / reward, task="dmc/hopper_hop", reward=reward, frames=frames)
    found = compare([tmp_path])
    assert not {row.statistic for row in found.rows} & {"solved", "success", "frames_mean"}
    told = " ".join(notes(found))
    assert "nobody knows the best return" in told
    assert "learning rates" not in told
    assert found.tasks["dmc/hopper_hop"].horizon == 2e5


def test_how_often_a_run_was_evaluated_makes_no_other_method_and_k_does(tmp_path):
    for seed, settings in enumerate(({}, {"evaluate_every": 500}, {"steps": 2})):
        make_run(tmp_path / str(seed), task="dmc/hopper_hop", seeds=(seed,), frames=4e5, settings=settings)
    found = compare([tmp_path])
    assert labels(found) == ["gobi steps=1", "gobi steps=2"]
    assert [len(one.curves) for one in found.groups] == [2, 1]
    # A control run has no fields of a grid's recipe.
    assert "unroll" not in (found.groups[0].runs[0].settings or {})


# Clocks


@pytest.mark.parametrize(
    ("card", "told"),
    [
        ({"started": "2030-01-01T00:59:00+00:00", "finished": "2030-01-01T02:00:00+00:00"}, True),
        ({"started": "2030-01-01T01:00:00+00:00", "finished": "2030-01-01T02:00:00+00:00"}, False),
        ({"started": "2030-01-01T00:59:00", "finished": None, "seconds": 60.0}, True),
        ({"started": "once upon a time"}, False),
        ({}, False),
    ],
)
def test_runs_at_the_same_time_on_one_kind_of_device_may_have_slowed_each_other(tmp_path, card, told):
    hour = {"started": "2030-01-01T00:00:00+00:00", "finished": "2030-01-01T01:00:00+00:00"}
    make_run(tmp_path / "a", card=hour)
    make_run(tmp_path / "b", reward="r3", card=card)
    make_run(tmp_path / "c", reward="count", card=hour | {"device": "another"})
    found = [note for note in notes(compare([tmp_path])) if "went on at the same time" in note]
    assert [note.endswith("may have shared it: a, b.") for note in found] == [True] * told


def test_of_very_many_such_runs_the_first_are_named(tmp_path):
    hour = {"started": "2030-01-01T00:00:00+00:00", "finished": "2030-01-01T01:00:00+00:00"}
    for seed in range(10):
        make_run(tmp_path / f"run{seed}", seeds=(seed,), card=hour)
    (found,) = (note for note in notes(compare([tmp_path])) if "went on at the same time" in note)
    assert found.endswith("may have shared it: run0, run1, run2, run3, run4, run5, run6, run7 and 2 more.")


def test_runs_of_a_pack_tell_that_their_wall_clock_is_a_share(tmp_path):
    make_run(tmp_path / "a", card={"beside": 4})
    make_run(tmp_path / "b", reward="r3")
    assert "trained in one process: a." in notes(compare([tmp_path]))[-1]
