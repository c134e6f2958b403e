"""States travel between Farama's game and ours and back at any moment, and both then play on alike."""

from __future__ import annotations

import itertools
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.core.world_object import Box, Key
from minigrid.wrappers import FullyObsWrapper

from gobi.envs.minigrid import State, cells, make, oracle
from gobi.envs.minigrid.rules import HEADINGS, PICKUP
from gobi.errors import GobiError, MissingExtra

DOORKEY, CORRIDOR, MAZE = (
    "MiniGrid-DoorKey-5x5-v0",
    "MiniGrid-KeyCorridorS4R3-v0",
    "MiniGrid-ObstructedMaze-1Dlhb-v0",
)
BOX_WITH_KEY = cells.BOX, cells.KEY
ODDS = [0.1, 0.1, 0.25, 0.2, 0.15, 0.18, 0.02]
"""Of left, right, forward, pickup, drop, toggle, done: a policy that lays its hands on things."""


def outlook(farama):
    """All that Farama's game can show of itself."""
    hands = farama.carrying and (farama.carrying.encode(), farama.carrying.contains)
    inside = [thing and thing.contains and thing.contains.encode() for thing in farama.grid.grid]
    image = farama.gen_obs()["image"].tolist()
    agent = (*map(int, farama.agent_pos), int(farama.agent_dir), farama.step_count)
    hands = hands and (hands[0], hands[1] and hands[1].encode())
    return agent, hands, inside, image, farama.grid.encode().tolist()


def move_to_something(farama, rng):
    """Puts Farama's agent before a random door, key, ball or box, so that episodes are about those."""
    places = [
        (x - dx, y - dy, heading)
        for x, y in itertools.product(range(farama.width), range(farama.height))
        for heading, (dx, dy) in enumerate(HEADINGS)
        if (thing := farama.grid.get(x, y)) is not None
        and thing.type in ("door", "key", "ball", "box")
        and farama.grid.get(x - dx, y - dy) is None
    ]
    x, y, heading = places[rng.integers(len(places))]
    farama.agent_pos, farama.agent_dir = (int(x), int(y)), heading


def moments(task: str, steps: int):
    """Farama's game at many moments of several episodes, and the action that comes next."""
    rng = np.random.default_rng(len(task))
    farama = oracle.new_farama(make(task))
    over = True
    for number in range(steps):
        if over:
            farama.reset(seed=number)
        if over or number % 10 == 0:
            move_to_something(farama, rng)
        action = int(rng.choice(7, p=ODDS))
        yield farama, action
        _, _, terminated, truncated, _ = farama.step(action)
        over = terminated or truncated


@pytest.mark.parametrize("task", [DOORKEY, CORRIDOR, MAZE])
def test_a_state_goes_to_farama_and_comes_back_as_it_was_and_both_games_go_on_alike(task, compiled):
    twin, step = oracle.new_farama(make(task)), compiled(task, "step")
    twin.reset(seed=0)
    carried = set()
    for farama, action in moments(task, 250):
        state = oracle.from_farama(farama)
        oracle.to_farama(state, twin)
        assert outlook(twin) == outlook(farama)
        assert eqx.tree_equal(oracle.from_farama(twin), state)
        seen, reward, terminated, truncated, _ = twin.step(action)
        after, timestep = step(state, jnp.int32(action))
        assert eqx.tree_equal(after, oracle.from_farama(twin))
        np.testing.assert_array_equal(timestep.observation, seen["image"])
        assert timestep.reward == np.float32(reward)
        assert (bool(timestep.terminated), bool(timestep.truncated)) == (terminated, truncated)
        held = int(state.carrying)
        carried.add((held & cells.OBJECT_MASK, held >> cells.CONTENTS_SHIFT & cells.OBJECT_MASK))
    assert len(carried) > 1
    assert task != MAZE or BOX_WITH_KEY in carried


@pytest.mark.parametrize("task", [DOORKEY, CORRIDOR, MAZE])
def test_our_levels_come_back_from_farama_as_they_were(task, first_levels):
    farama = oracle.new_farama(make(task))
    for number in range(20):
        level = jax.tree.map(lambda array, n=number: array[n], first_levels(task))
        assert eqx.tree_equal(oracle.from_farama(oracle.to_farama(level, farama)), level)


def test_a_carried_box_keeps_its_key_on_the_way_there_and_back(sketch):
    held = cells.pack(cells.BOX, cells.GREY, 0, cells.pack(cells.KEY, cells.RED))
    state = sketch("#####", "#>..#", "#...#", "#..G#", "#####", carrying=held, step_count=17)
    farama = oracle.to_farama(state, oracle.new_farama(make(DOORKEY)))
    assert isinstance(farama.carrying, Box)
    assert isinstance(farama.carrying.contains, Key)
    assert farama.carrying.contains.color == "red"
    assert farama.step_count == 17
    assert eqx.tree_equal(oracle.from_farama(farama), state)


@pytest.mark.parametrize("in_hands", [False, True])
def test_the_target_is_the_very_object_that_farama_waits_for(first_levels, in_hands):
    level = jax.tree.map(lambda array: array[0], first_levels(MAZE))
    grid, ball = np.array(level.grid), level.target
    ((x, y),) = np.argwhere(grid == ball)
    if in_hands:
        grid[x, y] = cells.EMPTY_CELL
    state = State(
        grid=jnp.asarray(grid),
        position=jnp.array([x - 1, y], jnp.int32),
        direction=jnp.int32(0),
        carrying=jnp.uint16(ball if in_hands else 0),
        target=jnp.uint16(ball),
        step_count=jnp.int32(0),
    )
    farama = oracle.to_farama(state, oracle.new_farama(make(MAZE)))
    _, reward, terminated, _, _ = farama.step(PICKUP)
    assert terminated
    assert reward > 0


def test_wrappers_are_seen_through():
    farama = oracle.new_farama(make(DOORKEY))
    farama.reset(seed=3)
    wrapped = FullyObsWrapper(farama)
    state = oracle.from_farama(wrapped)
    assert eqx.tree_equal(state, oracle.from_farama(farama))
    assert oracle.to_farama(state, wrapped) is wrapped


def test_panorama_and_full_grid_are_faramas_at_many_moments_and_leave_its_game_alone(compiled):
    around, whole = compiled(MAZE, "panorama"), compiled(MAZE, "full_grid")
    for number, (farama, _) in enumerate(moments(MAZE, 100)):
        if number % 5 == 0:
            state, before = oracle.from_farama(farama), outlook(farama)
            np.testing.assert_array_equal(around(state), oracle.farama_panorama(farama))
            np.testing.assert_array_equal(whole(state), oracle.farama_full_grid(farama))
            assert outlook(farama) == before


def test_faramas_levels_begin_with_the_seeds_first_and_differ_afterwards():
    env = make(CORRIDOR)
    levels = oracle.farama_levels(env, seed=4, count=3)
    farama = oracle.new_farama(env)
    farama.reset(seed=4)
    assert eqx.tree_equal(jax.tree.map(lambda array: array[0], levels), oracle.from_farama(farama))
    assert levels.grid.shape == (3, 10, 10)
    assert len({grid.tobytes() for grid in levels.grid}) == 3


def test_a_state_of_another_size_is_refused_naming_both_sizes(first_levels):
    level = jax.tree.map(lambda array: array[0], first_levels(CORRIDOR))
    with pytest.raises(GobiError, match=r"\(10, 10\).*\(5, 5\)"):
        oracle.to_farama(level, oracle.new_farama(make(DOORKEY)))


def test_a_box_in_a_box_is_refused():
    with pytest.raises(GobiError, match="a box inside a box"):
        oracle.packed(Box("grey", Box("grey", Key("red"))))


def test_a_minigrid_whose_sizes_have_changed_is_refused():
    with pytest.raises(GobiError, match="5x5 with 9 steps"):
        oracle.new_farama(make(DOORKEY), max_steps=9)


def test_without_minigrid_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid.envs", None)
    with pytest.raises(MissingExtra, match=r"pip install 'gobi\[minigrid\]'"):
        oracle.new_farama(make(DOORKEY))
