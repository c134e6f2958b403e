"""What the numbers of a comparison are called, and what they mean."""

from __future__ import annotations

STATISTICS = {
    "final": "mean of the metric at the method's end, bootstrap interval over seeds",
    "final_iqm": "interquartile mean of the metric at the method's end, stratified bootstrap interval",
    "area": "mean of the metric over the frames that all methods have (area under the curve per frame)",
    "area_iqm": "interquartile mean of these areas over seeds and tasks, stratified bootstrap interval",
    "solved": "share of seeds that reached the threshold, each by its own end, Wilson's interval",
    "solved_at_end": "share of seeds that reached the threshold and are there at their own end",
    "frames_mean": "mean frames to the threshold if nobody is watched beyond the longest seed's end",
    "frames_median": "Kaplan-Meier median of the frames to the threshold",
    "success": "success rate at the method's end, Wilson's interval with as many trials as seeds",
    "seconds": "wall-clock of training to the method's end, summed over the runs",
    "steps_per_second": "steps of all seeds together per second of wall-clock",
    "improvement_area": "how often a seed has a larger area than one of the other, to their common end",
    "improvement_final": "how often a seed is higher than one of the other, at their common end",
    "permutation_area": "how often equal methods would differ at least so much in area, permutation test",
}
"""By their names in comparison.csv."""

COLUMNS = {
    "final": "at the end, mean",
    "final_iqm": "at the end, IQM",
    "area": "area, mean",
    "area_iqm": "area, IQM",
    "solved": "seeds at the threshold",
    "solved_at_end": "there at the end",
    "frames_mean": "frames to it, mean",
    "frames_median": "frames to it, median",
    "success": "success at the end",
    "seconds": "wall-clock",
    "steps_per_second": "steps per second",
}
"""Headings of the page's tables."""

EXPLAINED = {
    "Interval": (
        "The small numbers: 95 %, over seeds. The bootstrap draws seeds anew inside each task, so it says "
        "how the result would move with other seeds, not with other tasks or settings. With four seeds or "
        "fewer it is too narrow more often than 1 time in 20."
    ),
    "At the end": (
        "The metric where the method ends: after the frames that all of its seeds have; over all tasks, "
        "after those that all methods of a task have. Return and success are means over a seed's last 100 "
        "episodes, on control tasks over those of its last evaluation."
    ),
    "IQM": (
        "The interquartile mean: of the middle half of all seeds (and tasks). One odd seed moves it less "
        "than the mean; it also hides one failed seed in four, which the number of seeds at the threshold "
        "does not."
    ),
    "Area": (
        "The mean of the metric over the frames that all methods have, pre-training included, during which "
        "return and success are 0. It rewards learning early as well as ending high."
    ),
    "Frames to the threshold": (
        "When a seed's metric was first at the threshold or above; not before 100 episodes have ended, as "
        "the first to end are those that were solved. It is a noisy mean, which may touch the threshold and "
        "fall below it again: 'there at the end' counts the seeds that end there. Each seed is watched to "
        "its own end. One that never got there is censored: it needs more frames than it had, nobody knows "
        "how many. The median is Kaplan and Meier's; its upper end is open where the seeds are too few to "
        "have one, and 'not by' is said of seeds that are not finished. The mean counts a seed that failed "
        "as the end of the longest, and one that was stopped before as those went on that were not; it is "
        "too small where any failed, and shown as 'at least'."
    ),
    "Success": (
        "The share of solved episodes at the method's end, with Wilson's interval for as many trials as "
        "there are seeds: wide, because few seeds say little of the next one."
    ),
    "Probability of improvement": (
        "How often a random seed of one method beats a random seed of the other on the same task, over the "
        "frames that both have, ties counted half; 0.5 is no difference. It says how surely, not by how "
        "much."
    ),
    "Equal methods would": (
        "How often two equal methods would have areas at least as different as these, either way: an exact "
        "permutation test of the probability of improvement, which deals the seeds of each task out to the "
        "two methods in all possible ways. A method is called better only if this is below 0.05 and the "
        "interval of the probability leaves out one half."
    ),
    "Wall-clock": (
        "Of training up to the method's end, compiling included, pre-training not; runs are added up, the "
        "seeds of one run share its time. It is comparable on the same device only."
    ),
}
"""For the reader of the page."""
