"""The scripted solver: its plans are played through the real rules, and compared with brute force."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import State, ceilings, cells, make, numbered_levels, oracle, registry, rules, solver
from gobi.envs.minigrid.solver import board, bounds
from gobi.errors import GobiError

MAZE = "MiniGrid-ObstructedMaze-2Dlhb-v0"
RED_KEY, GREEN_KEY = cells.pack(cells.KEY, cells.RED), cells.pack(cells.KEY, cells.GREEN)
TARGET = cells.pack(cells.BALL, cells.BLUE)
THINGS = {
    "r": RED_KEY,
    "g": GREEN_KEY,
    "T": TARGET,
    "o": cells.pack(cells.BALL, cells.GREEN),
    "R": cells.pack(cells.DOOR, cells.RED, cells.LOCKED),
    "N": cells.pack(cells.DOOR, cells.GREEN, cells.LOCKED),
    "d": cells.pack(cells.DOOR, cells.YELLOW, cells.CLOSED),
    "b": cells.pack(cells.BOX, cells.GREY),
    "x": cells.pack(cells.BOX, cells.GREY, contents=RED_KEY),
    "t": cells.pack(cells.BOX, cells.GREY, contents=TARGET),
}
ENOUGH = 20_000

move = jax.jit(rules.move)


@jax.jit
def all_moves(states: State) -> tuple[State, rules.Outcome]:
    """Each of the states after each action that can change anything."""
    return jax.vmap(lambda state: jax.vmap(lambda action: rules.move(state, action))(jnp.arange(6)))(states)


def succeeds(state: State, plan: list[int] | None) -> bool:
    """Whether a plan ends in success, and not before its last action."""
    assert plan is not None
    ends = []
    for action in plan:
        state, outcome = move(state, jnp.int32(action))
        ends.append((bool(outcome.success), bool(outcome.terminated)))
    return ends[-1] == (True, True) and not any(terminated for _, terminated in ends[:-1])


def fewest_actions(state: State, batch: int = 512) -> int:
    """The length of a shortest plan, by looking at every state that the rules allow, nearest first."""
    edge = jax.tree.map(lambda array: np.asarray(array)[None], state)
    seen: set[bytes] = set()
    length = 0
    while len(edge.direction):
        length += 1
        found = []
        for start in range(0, len(edge.direction), batch):
            part = jax.tree.map(lambda array, start=start: array[start : start + batch], edge)
            size = len(part.direction)
            padded = jax.tree.map(lambda array: np.resize(array, (batch, *array.shape[1:])), part)
            after, outcome = jax.tree.map(
                lambda array, size=size: np.asarray(array)[:size], all_moves(padded)
            )
            if outcome.success.any():
                return length
            after = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), after)
            new = []
            for row in np.flatnonzero(~outcome.terminated.reshape(-1)):
                pose = bytes([*after.position[row], after.direction[row]])
                name = after.grid[row].tobytes() + after.carrying[row].tobytes() + pose
                if name not in seen:
                    seen.add(name)
                    new.append(row)
            found.append(jax.tree.map(lambda array, new=new: array[new], after))
        edge = jax.tree.map(lambda *arrays: np.concatenate(arrays), *found)
    raise AssertionError("cannot be solved")


def one_of(levels: State, number: int) -> State:
    return jax.tree.map(lambda array: array[number], levels)


ROOMS = {
    "a goal, straight ahead": ["#####", "#>.G#", "#####"],
    "a goal behind a closed door": ["#######", "#<.d.G#", "#######"],
    "a goal behind a locked door": ["#######", "#>.R.G#", "#r.####", "#######"],
    "many doors, or a way around them": ["###########", "#>dddddddG#", "#.........#", "###########"],
    "a goal beside lava": ["#####", "#>LG#", "#...#", "#####"],
    "a ball to fetch": ["#####", "#>.T#", "#####"],
    "a ball in a box": ["#####", "#>.t#", "#####"],
    "a ball behind a locked door": ["########", "#>.R..T#", "#r.#####", "########"],
    "the key in a box": ["########", "#>.R..T#", "#x.#####", "########"],
    "a ball before the door": ["########", "#>oR..T#", "#r.#####", "########"],
    "a ball before the door and the key in a box": ["########", "#>oR..T#", "#x.#####", "########"],
    "an empty box before the door": ["########", "#>bR..T#", "#r.#####", "########"],
    "the key before the door": ["########", "#>rR..T#", "#..#####", "########"],
    "the box with the key before the door": ["########", "#>xR..T#", "#..#####", "########"],
    "rooms of one cell": ["#######", "###.###", "#rd>RT#", "###.###", "#######"],
    "a key behind another lock": ["##########", "#>.R.g#..#", "#r.#..N.T#", "##########"],
    "two balls in a corridor": ["#########", "#.>.oo.T#", "#########"],
    "a choice of two locks": ["########", "#>.R.T##", "#rg#..##", "#..N..##", "########"],
}


@pytest.mark.parametrize("rows", ROOMS.values(), ids=ROOMS.keys())
def test_a_small_room_is_solved_by_as_few_actions_as_there_can_be(sketch, rows):
    wants_ball = any("T" in row or "t" in row for row in rows)
    state = sketch(*rows, target=TARGET if wants_ball else 0, **THINGS)
    assert solver.solvable(state)
    assert succeeds(state, solver.solve(state))
    best = solver.solve(state, effort=ENOUGH)
    assert succeeds(state, best)
    assert best is not None
    assert len(best) == fewest_actions(state)


@pytest.mark.parametrize("carrying", [RED_KEY, GREEN_KEY, THINGS["o"], THINGS["x"], THINGS["t"]])
def test_an_episode_can_be_solved_with_something_in_the_hands(sketch, carrying):
    state = sketch("########", "#>.R..T#", "#.r#####", "########", carrying=carrying, target=TARGET, **THINGS)
    best = solver.solve(state, effort=ENOUGH)
    assert succeeds(state, best)
    assert best is not None
    assert len(best) == fewest_actions(state)


def test_with_the_target_in_the_hands_another_pick_up_is_enough(sketch):
    state = sketch("####", "#>.#", "####", carrying=TARGET, target=TARGET)
    assert solver.solve(state) == [rules.PICKUP]
    assert succeeds(state, [rules.PICKUP])


HOPELESS = {
    "a lock without a key": ["########", "#>oR..T#", "#..#####", "########"],
    "a key of another colour": ["########", "#>oR..T#", "#g.#####", "########"],
    "the key behind its own door": ["########", "#>.R.rT#", "########"],
    "two locks, each before the other's key": [
        "###########",
        "#>..R.T.Ng#",
        "#...#######",
        "#...N..rR.#",
        "###########",
    ],
    "no way at all": ["######", "#>.#T#", "######"],
    "lava on the only way": ["######", "#>.LT#", "######"],
    "nothing to fetch": ["####", "#>.#", "####"],
}


@pytest.mark.parametrize("rows", HOPELESS.values(), ids=HOPELESS.keys())
def test_a_level_without_a_solution_is_recognised(sketch, rows):
    state = sketch(*rows, target=TARGET, **THINGS)
    assert not solver.solvable(state)
    assert solver.solve(state) is None


def test_a_maze_whose_ball_fell_on_the_box_is_recognised():
    levels = oracle.farama_levels(make(MAZE), seed=0, count=60)
    boxes = np.count_nonzero(levels.grid & cells.OBJECT_MASK == cells.BOX, axis=(1, 2))
    lost, whole = np.flatnonzero(boxes == 1), np.flatnonzero(boxes == 2)
    assert len(lost) > 0
    # Only the first box can be lost, and it holds the key to the room of the target.
    assert not any(solver.solvable(one_of(levels, number)) for number in lost)
    assert all(solver.solvable(one_of(levels, number)) for number in whole)


@pytest.mark.parametrize("task", registry.TASKS)
def test_plans_for_every_task_win_faramas_own_game(task):
    farama = oracle.new_farama(make(task))
    for seed in range(3):
        farama.reset(seed=seed)
        level = oracle.from_farama(farama)
        plan = solver.solve(level)
        assert solver.solvable(level) == (plan is not None)
        if plan is None:
            continue
        *before, (_, reward, terminated, _, _) = [farama.step(action) for action in plan]
        assert terminated
        assert not any(earlier[2] or earlier[3] for earlier in before)
        assert reward == 1 - 0.9 * (len(plan) / farama.max_steps)


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("MiniGrid-Empty-5x5-v0", 1),
        ("MiniGrid-MultiRoom-N2-S4-v0", 10),
        ("MiniGrid-DoorKey-5x5-v0", 10),
        ("MiniGrid-KeyCorridorS3R2-v0", 5),
        ("MiniGrid-ObstructedMaze-1Dlh-v0", 3),
        ("MiniGrid-ObstructedMaze-1Dlhb-v0", 1),
    ],
)
def test_no_plan_is_shorter_than_the_solvers(task, count):
    levels = oracle.farama_levels(make(task), seed=0, count=count)
    for number in range(count):
        level = one_of(levels, number)
        plan = solver.solve(level, effort=ENOUGH)
        assert succeeds(level, plan)
        assert plan is not None
        assert len(plan) == fewest_actions(level)


def test_more_effort_shortens_plans_and_never_lengthens_them():
    levels = oracle.farama_levels(make(MAZE), seed=1, count=6)
    plans = [
        [solver.solve(one_of(levels, number), effort) or [] for effort in (0, 30, 300)] for number in range(6)
    ]
    lengths = np.array([[len(plan) for plan in row] for row in plans])
    assert (np.diff(lengths, axis=1) <= 0).all()
    assert lengths[:, 2].sum() < lengths[:, 0].sum()


def after_random_play(levels: State, steps: int) -> State:
    """The levels some way into episodes that have not ended."""
    count = len(levels.direction)
    chances = [0.12, 0.12, 0.36, 0.14, 0.08, 0.18]
    actions = np.random.default_rng(0).choice(6, size=(count, steps), p=chances).astype(np.int32)

    def unless_over(state, action):
        after, outcome = rules.move(state, action)
        return jax.tree.map(lambda old, new: jnp.where(outcome.terminated, old, new), state, after), None

    def played(state, actions):
        return jax.lax.scan(unless_over, state, actions)[0]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(played))(levels, actions))


@pytest.mark.parametrize("task", [MAZE, "MiniGrid-KeyCorridorS3R3-v0"])
def test_an_episode_can_be_solved_from_wherever_it_has_come_to(task):
    env = make(task)
    levels = oracle.farama_levels(env, seed=2, count=20)
    states = after_random_play(levels, steps=150)
    plans = [solver.solve(one_of(states, number)) or [] for number in range(20)]
    solvable = [solver.solvable(one_of(levels, number)) for number in range(20)]
    assert (ceilings.play(env, states, plans) > 0).tolist() == solvable


def test_what_is_left_is_never_overestimated():
    def least(state: State, laid_down: bool) -> int:
        level = board.board(state)
        bound = bounds.Bounds(level).left(level.things, level.hands, frozenset(), laid_down)
        return min((distance[level.pose] + rest for distance, rest in bound), default=0)

    env, laid_down = make("MiniGrid-ObstructedMaze-1Dlhb-v0"), 0
    states = after_random_play(oracle.farama_levels(env, seed=5, count=6), steps=30)
    for number in range(6):
        state = one_of(states, number)
        plan = solver.solve(state, effort=ENOUGH) or []
        for done, action in enumerate(plan):
            assert least(state, laid_down=False) <= len(plan) - done
            if action == rules.DROP:
                laid_down += 1
                assert least(state, laid_down=True) <= len(plan) - done - 1
            state, _ = move(state, jnp.int32(action))
    assert laid_down > 6


def test_a_ceiling_is_the_mean_over_all_levels_solvable_or_not():
    env, count, calls = make(MAZE), 25, []
    found = ceilings.measure(env, count, seed=7, effort=0, after_each=lambda: calls.append(None))
    levels = jax.tree.map(np.asarray, numbered_levels(env, 7, 0, 3 * count))
    plans = [solver.solve(one_of(levels, number)) for number in range(count)]
    lengths = [len(plan) for plan in plans if plan]
    assert 0 < len(calls) == len(lengths) < count
    returns = [1 - 0.9 * length / env.spec.max_steps for length in lengths]
    assert (found.levels, found.counted, found.seed, found.failures) == (count, count, 7, 0)
    assert found.solvable_share == len(lengths) / count
    assert found.mean_steps == pytest.approx(np.mean(lengths))
    assert found.best_return == pytest.approx(sum(returns) / count)

    closer = ceilings.measure(env, count, seed=7, counted=3 * count, effort=0)
    solvable = [solver.solvable(one_of(levels, number)) for number in range(3 * count)]
    assert closer.counted == 3 * count
    assert closer.solvable_share == np.mean(solvable) != found.solvable_share
    assert closer.mean_steps == found.mean_steps
    assert closer.best_return == pytest.approx(np.mean(solvable) * np.mean(returns))


def test_a_plan_that_fails_or_comes_too_late_earns_nothing():
    env = make("MiniGrid-Empty-5x5-v0")
    levels = oracle.farama_levels(env, seed=0, count=5)
    plan = solver.solve(one_of(levels, 0))
    assert plan is not None
    wait = [rules.DONE] * (env.spec.max_steps - len(plan))
    plans = [plan, plan[:-1], [*wait, *plan], [*wait, rules.DONE, *plan], []]
    expected = [1 - 0.9 * len(plan) / env.spec.max_steps, 0, 0.1, 0, 0]
    np.testing.assert_allclose(ceilings.play(env, levels, plans), expected, rtol=1e-6)


def test_a_solver_that_gives_up_shows_as_failures(monkeypatch):
    monkeypatch.setattr(solver, "solve", lambda level, effort: [rules.DONE])
    found = ceilings.measure(make("MiniGrid-Empty-5x5-v0"), 3, seed=0)
    assert (found.solvable_share, found.best_return, found.mean_steps, found.failures) == (1, 0, 0, 3)


def test_a_ceiling_of_no_levels_is_refused():
    with pytest.raises(GobiError, match="at least one level"):
        ceilings.measure(make("MiniGrid-Empty-5x5-v0"), 0, seed=0)


def test_the_ceilings_of_all_tasks_come_with_the_package():
    known = ceilings.known()
    assert list(known) == list(registry.TASKS)
    for task, ceiling in known.items():
        assert ceiling.failures == 0, task
        assert 0.5 < ceiling.best_return < ceiling.solvable_share, task
        can_lose_keys = "v0: " in registry.TASKS[task].version or "2Q-middle" in task
        assert ceiling.solvable_share == 1 or can_lose_keys, task
    assert known["MiniGrid-Empty-5x5-v0"].best_return == pytest.approx(1 - 0.9 * 5 / 100)
