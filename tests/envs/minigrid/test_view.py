"""What can be seen of a state is what MiniGrid shows of it."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import WorldObj
from minigrid.minigrid_env import MiniGridEnv
from minigrid.wrappers import FullyObsWrapper

from gobi.envs.minigrid import State, cells, make, rules, view

WIDTH, HEIGHT = 11, 6
KEY, BALL = cells.pack(cells.KEY, cells.YELLOW), cells.pack(cells.BALL, cells.BLUE)
BOX = cells.pack(cells.BOX, cells.GREY, 0, cells.pack(cells.KEY, cells.RED))
OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR = (
    cells.pack(cells.DOOR, cells.PURPLE, state) for state in (cells.OPEN, cells.CLOSED, cells.LOCKED)
)
FLOOR, LAVA = cells.pack(cells.FLOOR, cells.BLUE), cells.pack(cells.LAVA, cells.RED)
EMPTY, WALL, GOAL = int(cells.EMPTY_CELL), int(cells.WALL_CELL), int(cells.GOAL_CELL)
CLEAR = np.array([EMPTY, KEY, BALL, BOX, OPEN_DOOR, FLOOR, GOAL, LAVA], np.uint16)
OPAQUE = np.array([WALL, CLOSED_DOOR, LOCKED_DOOR], np.uint16)
ENTERABLE = (EMPTY, OPEN_DOOR, FLOOR, GOAL, LAVA)

egocentric, panorama, full_grid = map(jax.jit, (view.egocentric, view.panorama, view.full_grid))


class FaramasView(MiniGridEnv):
    """An environment of Farama's that only looks."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT, **options):
        space = MissionSpace(mission_func=lambda: "look")
        super().__init__(mission_space=space, width=width, height=height, max_steps=9, **options)

    def _gen_grid(self, width, height):
        raise NotImplementedError

    def show(self, state: State):
        """Takes over a state, objects decoded by Farama from the three channels alone."""
        for x, y in np.ndindex(self.width, self.height):
            self.grid.set(x, y, decoded(int(state.grid[x, y])))
        self.agent_pos, self.agent_dir = tuple(map(int, state.position)), int(state.direction)
        self.carrying = decoded(int(state.carrying))

    def towards(self, direction: int):
        self.agent_dir = direction
        return self.gen_obs()["image"]


def decoded(cell: int):
    return WorldObj.decode(cell & 15, cell >> 4 & 7, cell >> 7 & 3)


def visible_by_brute_force(clear):
    """MiniGrid's visibility, cell by cell: light starts at the agent and never comes back down.

    Row by row upwards, first from left to right, then from right to left; each lit cell that can be seen past
    lights the next one of the sweep, and the two above.
    """
    lit = np.zeros((7, 7), bool)
    lit[3, 6] = True
    for row in range(6, -1, -1):
        for columns, onwards in ((range(6), 1), (range(6, 0, -1), -1)):
            for column in columns:
                if lit[column, row] and clear[column, row]:
                    lit[column + onwards, row] = True
                    if row > 0:
                        lit[column, row - 1] = lit[column + onwards, row - 1] = True
    return lit


def random_states(rng: np.random.Generator, count: int, width: int, height: int) -> State:
    """Grids full of random things, more or less opaque, the agent at any cell it may stand on."""
    opaque = rng.random((count, width, height)) < rng.uniform(0, 0.7, (count, 1, 1))
    shape = opaque.shape
    empty = rng.random(shape) < rng.uniform(0, 1, (count, 1, 1))
    grid = np.where(opaque, rng.choice(OPAQUE, shape), np.where(empty, EMPTY, rng.choice(CLEAR, shape)))
    position = np.stack([rng.integers(0, width, count), rng.integers(0, height, count)], axis=1)
    grid[np.arange(count), position[:, 0], position[:, 1]] = rng.choice(ENTERABLE, count)
    return stacked(
        grid=grid.astype(np.uint16),
        position=position.astype(np.int32),
        direction=rng.integers(0, 4, count).astype(np.int32),
        carrying=rng.choice(np.array([0, 0, KEY, BALL, BOX], np.uint16), count),
        target=np.zeros(count, np.uint16),
        step_count=np.zeros(count, np.int32),
    )


def stacked(**parts) -> State:
    """A state whose arrays have one more axis than the record's annotations allow."""
    names = ("grid", "position", "direction", "carrying", "target", "step_count")
    return jax.vmap(lambda *each: State(*each))(*(jnp.asarray(parts[name]) for name in names))


def one_of(states: State, number: int) -> State:
    return jax.tree.map(functools.partial(np.take, indices=number, axis=0), states)


@pytest.fixture(scope="module")
def strewn() -> State:
    return jax.tree.map(np.asarray, random_states(np.random.default_rng(0), 250, WIDTH, HEIGHT))


def test_occlusion_is_minigrids_on_thousands_of_random_masks():
    rng = np.random.default_rng(1)
    count = 6000
    clear = rng.random((count, 7, 7)) < rng.uniform(0.1, 1, (count, 1, 1))
    clear[:, 3, 6] = True
    grid = np.where(clear, rng.choice(CLEAR, clear.shape), rng.choice(OPAQUE, clear.shape))
    grid[:, 3, 6] = EMPTY
    # The agent at the foot of a 7 x 7 grid, looking up: the view is the grid.
    state = stacked(
        grid=grid.astype(np.uint16),
        position=np.tile(np.array([3, 6], np.int32), (count, 1)),
        direction=np.full(count, 3, np.int32),
        carrying=np.zeros(count, np.uint16),
        target=np.zeros(count, np.uint16),
        step_count=np.zeros(count, np.int32),
    )
    seen = np.asarray(jax.jit(jax.vmap(view.egocentric))(state))
    visible = np.stack([visible_by_brute_force(mask) for mask in clear])
    assert 0.2 < visible.mean() < 0.9
    np.testing.assert_array_equal(seen[..., 0] != cells.UNSEEN, visible)
    everything = np.asarray(cells.encode(state.grid))
    np.testing.assert_array_equal(seen, np.where(visible[..., None], everything, 0))


def test_views_of_random_states_are_faramas(strewn):
    seen = np.asarray(jax.jit(jax.vmap(view.egocentric))(strewn))
    farama = FaramasView()
    for number, image in enumerate(seen):
        farama.show(one_of(strewn, number))
        np.testing.assert_array_equal(image, farama.gen_obs()["image"], err_msg=f"state {number}")


def test_panoramas_of_random_states_are_faramas_views_to_the_right_back_left_and_front(strewn):
    seen = np.asarray(jax.jit(jax.vmap(view.panorama))(strewn))
    farama = FaramasView()
    for number in range(0, len(seen), 2):
        state = one_of(strewn, number)
        farama.show(state)
        around = [farama.towards((int(state.direction) + turn) % 4) for turn in (1, 2, 3, 0)]
        np.testing.assert_array_equal(seen[number], around, err_msg=f"state {number}")


def test_full_grids_of_random_states_are_faramas(strewn):
    seen = np.asarray(jax.jit(jax.vmap(view.full_grid))(strewn))
    farama = FaramasView()
    for number in range(0, len(seen), 2):
        farama.show(one_of(strewn, number))
        expected = FullyObsWrapper(farama).observation({})["image"]
        np.testing.assert_array_equal(seen[number], expected, err_msg=f"state {number}")


def test_views_through_walls_are_faramas(strewn):
    look = functools.partial(view.egocentric, see_through_walls=True)
    seen = np.asarray(jax.jit(jax.vmap(look))(strewn))
    farama = FaramasView(see_through_walls=True)
    for number in range(0, len(seen), 2):
        farama.show(one_of(strewn, number))
        np.testing.assert_array_equal(seen[number], farama.gen_obs()["image"], err_msg=f"state {number}")
    assert (seen[..., 0] != cells.UNSEEN).all()


def test_the_panorama_is_what_turning_on_the_spot_would_show(compiled, first_levels):
    task = "MiniGrid-ObstructedMaze-1Dlhb-v0"
    step, around = compiled(task, "step"), compiled(task, "panorama")
    for number in range(5):
        state = jax.tree.map(jnp.asarray, one_of(first_levels(task), number))
        turning, shown = state, []
        for _ in range(4):
            turning, timestep = step(turning, jnp.int32(rules.RIGHT))
            shown.append(timestep.observation)
        np.testing.assert_array_equal(around(state), np.stack(shown))


ROOM = (
    "#########",
    "#K..#...#",
    "#...D...#",
    "#...#...#",
    "#>..#...#",
    "#...#...#",
    "#########",
)


@pytest.mark.parametrize(
    ("door", "picture"),
    [
        (OPEN_DOOR, [".....#?", ".....#?", ".....#?", "#D####?", ".....#?", ".....#?", "K....#?"]),
        (CLOSED_DOOR, ["???????", "???????", "???????", "#D####?", ".....#?", ".....#?", "K....#?"]),
    ],
)
def test_looking_right_the_view_has_the_grids_right_at_its_top_and_hides_what_doors_hide(
    sketch, door, picture
):
    seen = np.asarray(egocentric(sketch(*ROOM, K=KEY, D=door)))
    letters = {cells.UNSEEN: "?", cells.EMPTY: ".", cells.WALL: "#", cells.DOOR: "D", cells.KEY: "K"}
    assert ["".join(letters[int(kind)] for kind in row) for row in seen[..., 0].T] == picture
    np.testing.assert_array_equal(seen[1, 3], [cells.DOOR, cells.PURPLE, door >> 7])


@pytest.mark.parametrize("thing", [KEY, BALL, BOX])
def test_what_is_carried_is_seen_in_the_agents_own_cell(sketch, thing):
    state = sketch("#####", "#...#", "#.>.#", "#...#", "#####", carrying=thing, under=OPEN_DOOR)
    seen = np.asarray(egocentric(state))
    np.testing.assert_array_equal(seen[3, 6], [thing & 15, thing >> 4 & 7, 0])


@pytest.mark.parametrize("under", [OPEN_DOOR, GOAL, FLOOR, EMPTY])
def test_with_empty_hands_the_agents_own_cell_looks_empty_whatever_it_stands_on(sketch, under):
    state = sketch("#####", "#...#", "#.>.#", "#...#", "#####", under=under)
    np.testing.assert_array_equal(egocentric(state)[3, 6], [cells.EMPTY, 0, 0])


def test_what_a_box_holds_is_not_seen(sketch):
    rows = ("#####", "#...#", "#.>X#", "#...#", "#####")
    holding, hollow = sketch(*rows, X=BOX), sketch(*rows, X=cells.pack(cells.BOX, cells.GREY))
    np.testing.assert_array_equal(egocentric(holding), egocentric(hollow))
    np.testing.assert_array_equal(panorama(holding), panorama(hollow))
    np.testing.assert_array_equal(full_grid(holding), full_grid(hollow))


def test_the_full_grid_hides_what_is_carried_and_what_the_agent_stands_on(sketch):
    rows = ("#####", "#...#", "#.v.#", "#...#", "#####")
    seen = np.asarray(full_grid(sketch(*rows, carrying=KEY, under=OPEN_DOOR)))
    np.testing.assert_array_equal(seen, full_grid(sketch(*rows)))
    np.testing.assert_array_equal(seen[2, 2], [cells.AGENT, cells.RED, 1])


def test_looking_around_changes_nothing(sketch):
    state = sketch("#####", "#...#", "#.>X#", "#...#", "#####", X=BOX)
    before = jax.tree.map(np.array, state)
    panorama(state), egocentric(state), full_grid(state)
    assert eqx.tree_equal(before, jax.tree.map(np.array, state))
    assert int(state.step_count) == 0


def test_only_the_empty_tasks_are_seen_through():
    assert make("MiniGrid-Empty-5x5-v0").generator.see_through_walls
    others = ("DoorKey-5x5", "KeyCorridorS3R3", "MultiRoom-N6", "ObstructedMaze-1Dlhb")
    assert not any(make(name).generator.see_through_walls for name in others)
