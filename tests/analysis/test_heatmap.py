"""Heatmaps: visits and views counted as Farama's own environment counts them, and what the picture shows."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_runs import DOORKEY, add_snapshot, made_run

from gobi import make
from gobi.agents import networks
from gobi.analysis import evaluation, heatmap
from gobi.envs.minigrid import cells, numbered_levels, oracle
from gobi.envs.minigrid.state import nth, reachable_cells
from gobi.errors import GobiError
from gobi.training import trained

LEVELS, EPISODES = (1, 3), 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = made_run(tmp_path_factory.mktemp("runs") / "run", DOORKEY, frames=600, snapshots=3)
    for frames in (200, 400, 600):
        add_snapshot(path, frames)
    return path


@pytest.fixture(scope="module")
def agent(folder) -> trained.Trained:
    return trained.load(folder)


@pytest.fixture(scope="module")
def found(agent) -> list[heatmap.Map]:
    return heatmap.maps(agent, LEVELS, EPISODES)


def seen_by_farama(farama, state) -> set[tuple[int, int]]:
    """The cells inside the grid that are in view, as Farama's environment works them out."""
    oracle.to_farama(state, farama)
    env = farama.unwrapped
    _, visible = env.gen_obs_grid()
    places = set()
    for x, y in np.ndindex(env.width, env.height):
        inside = env.relative_coords(x, y)
        if inside is not None and visible[inside]:
            places.add((x, y))
    return places


def test_visits_and_views_are_those_of_single_episodes_watched_by_farama(agent, found):
    farama = oracle.new_farama(agent.env)
    policy, step = jax.jit(agent.actor(0).__call__), jax.jit(agent.env.step)
    keys = jax.random.split(jax.random.key(agent.level_seed), len(LEVELS) * EPISODES)
    for row, one in enumerate(found):
        visits, seen, solved = np.zeros_like(one.visits), np.zeros_like(one.seen), 0
        for key in keys[row * EPISODES : (row + 1) * EPISODES]:
            state = nth(numbered_levels(agent.env, agent.level_seed, LEVELS[row], 1), 0)
            view, carry, time, done = agent.env.observe(state), agent.actor(0).initial(1), 0, False
            while True:
                visits[tuple(np.asarray(state.position))] += 1
                for place in seen_by_farama(farama, state):
                    seen[place] = True
                if done:
                    break
                logits, _, carry = policy(view[None], jnp.array([time == 0]), carry)
                noise = jax.random.gumbel(jax.random.fold_in(key, time), (7,))
                state, timestep = step(state, jnp.argmax(logits[0] + noise))
                view, done, time = timestep.observation, bool(timestep.done), time + 1
                solved += float(timestep.reward) > 0
        np.testing.assert_array_equal(one.visits, visits)
        np.testing.assert_array_equal(one.seen, seen)
        assert one.successes == solved


@pytest.mark.parametrize("task", ["MiniGrid-DoorKey-8x8-v0", "MiniGrid-Empty-8x8-v0"])
def test_what_is_in_view_is_where_farama_sees_it(task):
    """From each heading; in the empty room one sees through walls, so views reach beyond the grid."""
    env = make(task)
    levels = numbered_levels(env, 3, 0, 8)
    levels = eqx.tree_at(lambda s: s.direction, levels, jnp.arange(8, dtype=jnp.int32) % 4)
    shape = levels.grid.shape
    nothing = jnp.arange(8), jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool)
    policy = networks.build("compact", env.spec, jax.random.key(0))
    _, visits, seen = heatmap._watch(nothing, evaluation.begin(env, policy, levels))
    farama = oracle.new_farama(env)
    for number in range(8):
        state = nth(levels, number)
        expected = np.zeros(shape[1:], bool)
        expected[tuple(zip(*seen_by_farama(farama, state), strict=True))] = True
        np.testing.assert_array_equal(seen[number], expected)
        assert np.argwhere(np.asarray(visits[number])).tolist() == [state.position.tolist()]


def test_cells_that_can_be_reached_are_those_of_the_level(found, agent):
    for one in found:
        assert one.reachable.sum() == int(reachable_cells(jax.tree.map(jnp.asarray, one.level)))
        assert one.reachable[tuple(one.level.position)]
        assert not (one.visits[~one.reachable] > 0).any()


def test_lanes_that_have_ended_do_not_count_any_more(sketch):
    """One lane is over at once and another walks on: only the second one leaves a trace."""
    states = jax.tree.map(lambda *parts: jnp.stack(parts), *[sketch("#####", "#>..#", "#####")] * 2)
    lanes = jnp.array([0, 1])
    kept = lanes, jnp.zeros((2, 5, 3), jnp.int32), jnp.zeros((2, 5, 3), bool)
    playing = evaluation.Playing(
        states=states,
        observation=jnp.ones((2, 7, 7, 3), jnp.uint8),
        carry=(),
        total=jnp.zeros(2),
        length=jnp.zeros(2, jnp.int32),
        over=jnp.array([True, False]),
        fresh=jnp.array([False, True]),
    )
    _, visits, seen = heatmap._watch(kept, playing)
    assert visits.sum(axis=(1, 2)).tolist() == [0, 1]
    assert seen.any(axis=(1, 2)).tolist() == [False, True]


def test_stages_are_evenly_spaced_snapshots_with_the_last_among_them(folder, tmp_path):
    assert [agent.frames for agent in heatmap.stages(folder, None)] == [200, 400, 600]
    assert [agent.frames for agent in heatmap.stages(folder, 2)] == [200, 600]
    assert [agent.frames for agent in heatmap.stages(folder, 1)] == [600]
    assert [agent.frames for agent in heatmap.stages(folder, at=(0, 90, 550))] == [200, 600]
    without = Path(shutil.copytree(folder, tmp_path / "run"))
    shutil.rmtree(without / "snapshots")
    (only,) = heatmap.stages(without)
    assert only.frames == 600


# The picture


def test_the_picture_has_a_column_for_each_snapshot_and_a_row_for_each_level(found):
    figure = heatmap.draw(DOORKEY, [found, found])
    *panes, _bar = figure.axes
    assert [axis.get_title() for axis in panes] == ["600 frames", "600 frames", "", ""]
    assert [axis.get_ylabel() for axis in panes] == ["level 1", "", "level 3", ""]
    assert f"visited {found[1].row['share_visited']:.0%}" in panes[3].get_xlabel()


def test_each_kind_of_cell_has_its_own_colour(found):
    one = found[0]
    visits, seen = np.zeros_like(one.visits), np.zeros_like(one.seen)
    visits[1, 1], seen[1, 1], seen[1, 2], seen[0, 0] = 5, True, True, True
    grid = np.full_like(one.level.grid, cells.EMPTY_CELL)
    grid[0, 0] = grid[0, 1] = cells.WALL_CELL
    level = jax.tree.map(np.copy, one.level)
    object.__setattr__(level, "grid", grid)
    made = heatmap.Map(0, 0, level, 1, visits, seen, seen, 0)
    (image,) = heatmap.draw(DOORKEY, [[made]]).axes[0].get_images()
    colours = [tuple(image.get_array()[y, x]) for x, y in ((1, 1), (1, 2), (3, 3), (0, 0), (0, 1))]
    assert len(set(colours)) == 5
    assert colours[1] == (1, 1, 1), "white: seen, never visited"


def test_the_numbers_lie_beside_the_picture(found, tmp_path):
    out = tmp_path / "new" / "map.png"
    heatmap.save(out, DOORKEY, [found, found])
    assert out.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(out.with_suffix(".csv").read_text().splitlines()))
    assert [(row["frames"], row["level"]) for row in rows] == [("600", "1"), ("600", "3")] * 2
    first, one = rows[0], found[0]
    assert float(first["share_visited"]) == pytest.approx(
        (one.visits > 0).sum() / one.reachable.sum(), abs=1e-5
    )
    assert 0 < float(first["share_visited"]) <= float(first["share_seen"]) <= 1


def test_a_wrong_ending_is_refused(found, tmp_path):
    with pytest.raises(GobiError, match=r"must end in one of \.png, \.pdf, \.svg"):
        heatmap.save(tmp_path / "map.gif", DOORKEY, [found])
