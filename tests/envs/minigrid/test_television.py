"""A noisy television changes its colour at random at every step, and is nothing but that."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gobi.envs.minigrid import (
    DoorKey,
    Empty,
    KeyCorridor,
    MultiRoom,
    Noisy,
    ObstructedMaze,
    Stepper,
    cells,
    make,
    make_bank,
    numbered_levels,
    oracle,
    render,
    rules,
)
from gobi.envs.minigrid.state import nth
from gobi.worlds import Simulator, collect

NOISY, PLAIN = make("MultiRoom-N4-S5-noisy"), make("MultiRoom-N4-S5")
COUNT = 60


@pytest.fixture(scope="module")
def levels():
    return jax.tree.map(np.asarray, numbered_levels(NOISY, seed=3, start=0, count=COUNT))


@jax.jit
def played(levels, actions):
    """The states that the actions lead to, [time, level]."""

    def step(states, action):
        states, _ = jax.vmap(NOISY.step, in_axes=(0, None))(states, action)
        return states, states

    return jax.lax.scan(step, levels, actions)[1]


def tiles(grid: np.ndarray) -> np.ndarray:
    return grid & cells.OBJECT_MASK == cells.FLOOR


def colours(states) -> np.ndarray:
    """The television's colour in each state."""
    grid = np.asarray(states.grid)
    assert (tiles(grid).sum(axis=(-2, -1)) == 1).all()
    return (tiles(grid) * (grid >> cells.COLOUR_SHIFT & cells.COLOUR_MASK)).sum(axis=(-2, -1))


def room_of(level) -> set[tuple[int, int]]:
    """The cells that the agent can get to without opening a door, things carried away if need be."""
    found, todo = set(), [tuple(level.position.tolist())]
    while todo:
        x, y = todo.pop()
        if (x, y) not in found and level.grid[x, y] & cells.OBJECT_MASK not in (cells.WALL, cells.DOOR):
            found.add((x, y))
            todo += [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
    return found


def test_a_level_is_that_of_the_plain_task_with_one_tile_in_the_agents_room(levels):
    plain = jax.tree.map(np.asarray, numbered_levels(PLAIN, seed=3, start=0, count=COUNT))
    np.testing.assert_array_equal(np.where(tiles(levels.grid), cells.EMPTY_CELL, levels.grid), plain.grid)
    for name in ("position", "direction", "carrying", "target", "step_count"):
        np.testing.assert_array_equal(getattr(levels, name), getattr(plain, name))
    places = []
    for number in range(COUNT):
        level = nth(levels, number)
        ((x, y),) = np.argwhere(tiles(level.grid)).tolist()
        assert (x, y) in room_of(level)
        assert [x, y] != level.position.tolist()
        places.append((x - level.position[0], y - level.position[1]))
    assert len(set(places)) > 8


@pytest.mark.parametrize(
    "task",
    [MultiRoom(1, 4), DoorKey(5), KeyCorridor(3, 3), ObstructedMaze(quarters=1, agent_room=(2, 1)), Empty(5)],
)
def test_every_family_has_a_place_for_it(task):
    env = make(Noisy(task))
    levels = jax.tree.map(np.asarray, numbered_levels(env, seed=0, start=0, count=20))
    assert env.spec.id == f"{task.name}-noisy"
    assert (tiles(levels.grid).sum(axis=(1, 2)) == 1).all()
    for number in range(20):
        level = nth(levels, number)
        (tile,) = map(tuple, np.argwhere(tiles(level.grid)).tolist())
        assert tile in room_of(level) - {tuple(level.position.tolist())}


def test_a_plain_task_carries_no_noise():
    state, _ = jax.jit(PLAIN.step)(nth(numbered_levels(PLAIN, 0, 0, 1), 0), jnp.int32(rules.LEFT))
    assert state.noise is None
    assert len(jax.tree.leaves(state)) == 6


def test_all_colours_are_equally_likely_whatever_came_before(levels):
    states = played(levels, jnp.full(300, rules.LEFT))
    shown = np.concatenate([colours(levels)[None], colours(states)])
    assert stats.chisquare(np.bincount(shown.ravel(), minlength=6)).pvalue > 0.01
    for apart in (1, 2, 7):
        pairs = (6 * shown[:-apart] + shown[apart:]).ravel()
        assert stats.chisquare(np.bincount(pairs, minlength=36)).pvalue > 0.01
    # Nor does one level know anything of the next.
    assert stats.chisquare(np.bincount((6 * shown[:, :-1] + shown[:, 1:]).ravel())).pvalue > 0.01


def test_colours_are_those_of_the_level_and_the_step_whatever_is_done(levels):
    turning, walking = (played(levels, jnp.full(20, action)) for action in (rules.LEFT, rules.FORWARD))
    np.testing.assert_array_equal(colours(turning), colours(walking))
    assert len({row.tobytes() for row in colours(turning).T}) == COUNT


def test_everything_else_is_as_in_farama(levels):
    """Farama plays along; it is told the colour after each step, as it knows of no television."""
    farama = oracle.new_farama(NOISY)
    farama.reset(seed=0)
    step, rng = jax.jit(NOISY.step), np.random.default_rng(0)
    panorama, full_grid = jax.jit(NOISY.panorama), jax.jit(NOISY.full_grid)
    crossed = 0
    for number in range(6):
        state = nth(levels, number)
        (place,) = np.argwhere(tiles(state.grid)).tolist()
        oracle.to_farama(state, farama)
        for action in rng.choice(7, 40, p=[0.15, 0.15, 0.5, 0.05, 0.05, 0.05, 0.05]):
            state, timestep = step(state, jnp.int32(action))
            _, reward, terminated, _, _ = farama.step(int(action))
            farama.grid.get(*place).color = cells.COLOUR_NAMES[int(colours(state))]
            assert (float(timestep.reward), bool(timestep.terminated)) == (pytest.approx(reward), terminated)
            np.testing.assert_array_equal(timestep.observation, farama.gen_obs()["image"])
            np.testing.assert_array_equal(panorama(state), oracle.farama_panorama(farama))
            np.testing.assert_array_equal(full_grid(state), oracle.farama_full_grid(farama))
            crossed += state.position.tolist() == place
            if timestep.done:
                break
    assert crossed > 0


def test_a_picture_shows_the_tile_in_its_colour(levels):
    """Of two moments in which the agent does nothing, the pictures differ in one cell."""
    states = played(levels, jnp.full(8, rules.DONE))
    shown = colours(states)[:, 0]
    one, other = (nth(nth(states, time), 0) for time in (0, int(np.argmax(shown != shown[0]))))
    changed = np.any(render.frame(NOISY, one) != render.frame(NOISY, other), axis=-1)
    size = render.tile_size_for(NOISY)
    ((x, y),) = np.argwhere(tiles(np.asarray(one.grid)))
    assert set(map(tuple, (np.argwhere(changed) // size).tolist())) == {(y, x)}


def test_the_simulator_knows_the_next_colour(levels):
    world = Simulator(NOISY)
    imagined, _ = jax.jit(world.imagine)((), jax.random.split(jax.random.key(0), COUNT), {"state": levels})
    for action in world.actions:
        _, timestep = jax.jit(jax.vmap(NOISY.step, in_axes=(0, None)))(levels, jnp.int32(action))
        np.testing.assert_array_equal(imagined[:, action], timestep.observation)


def test_lanes_that_end_take_the_noise_of_their_next_level():
    stepper, bank = Stepper(NOISY, 4), make_bank(NOISY, seed=0, capacity=64)
    turns = jnp.full((NOISY.spec.max_steps, 4), rules.LEFT)

    @jax.jit
    def turned(bank):
        start, _ = stepper.reset(bank)
        return jax.lax.scan(lambda lanes, turn: stepper.step(bank, lanes, turn), start, turns)[0]

    lanes = turned(bank)
    np.testing.assert_array_equal(lanes.states.noise, bank.levels.noise[4:8])
    np.testing.assert_array_equal(lanes.states.grid, bank.levels.grid[4:8])


def test_random_play_for_a_world_model_sees_its_colours_change():
    data = collect(make("MultiRoom-N2-S4-noisy"), jax.random.key(0), 400, num_envs=8)
    seen = [views[..., 1][views[..., 0] == cells.FLOOR] for views in (data.panorama, data.after)]
    assert all(set(np.unique(one).tolist()) == set(range(6)) for one in seen)
