"""The policies draw every action, and the biased one really uses doors, keys, balls and boxes."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gobi
from gobi.envs.minigrid import cells, policies, rules
from gobi.envs.minigrid.bank import numbered_levels
from gobi.envs.minigrid.state import level

DRAWS = 5000
DRAW = {
    policy: jax.jit(jax.vmap(policy, in_axes=(0, None))) for policy in (policies.uniform, policies.biased)
}
RED_KEY = cells.pack(cells.KEY, cells.RED)
BALL = cells.pack(cells.BALL, cells.BLUE)


def facing(cell, carrying=0):
    """An agent in a 3x3 grid, looking at a cell to its right."""
    grid = jnp.full((3, 3), cells.WALL_CELL).at[1, 1].set(cells.EMPTY_CELL).at[2, 1].set(jnp.uint16(cell))
    state = level(grid, jnp.array([1, 1], jnp.int32), jnp.int32(0))
    return eqx.tree_at(lambda s: s.carrying, state, jnp.uint16(carrying))


def shares(policy, state, draws=DRAWS):
    """How often each action is played in a state."""
    actions = DRAW[policy](jax.random.split(jax.random.key(0), draws), state)
    return np.bincount(np.asarray(actions), minlength=rules.NUM_ACTIONS) / draws


def door(state, colour=cells.RED):
    return cells.pack(cells.DOOR, colour, state)


@pytest.mark.parametrize(
    ("what", "cell", "carrying", "favourite"),
    [
        ("an empty cell", cells.EMPTY_CELL, 0, rules.FORWARD),
        ("the goal", cells.GOAL_CELL, 0, rules.FORWARD),
        ("an open door", door(cells.OPEN), 0, rules.FORWARD),
        ("a closed door", door(cells.CLOSED), 0, rules.TOGGLE),
        ("a closed door, with a key", door(cells.CLOSED), RED_KEY, rules.TOGGLE),
        ("a lock and its key", door(cells.LOCKED), RED_KEY, rules.TOGGLE),
        ("a key", RED_KEY, 0, rules.PICKUP),
        ("a ball", BALL, 0, rules.PICKUP),
        ("a box", cells.pack(cells.BOX, cells.GREY, contents=RED_KEY), 0, rules.TOGGLE),
        ("a box, with full hands", cells.pack(cells.BOX, cells.GREY), BALL, rules.TOGGLE),
    ],
)
def test_biased_does_what_suits_the_thing_in_front(what, cell, carrying, favourite):
    assert np.argmax(shares(policies.biased, facing(cell, carrying))) == favourite, what


@pytest.mark.parametrize("cell", [cells.WALL_CELL, door(cells.LOCKED), BALL])
def test_biased_turns_away_from_what_it_can_do_nothing_with(cell):
    of_blue_key = shares(policies.biased, facing(cell, cells.pack(cells.KEY, cells.BLUE)))
    assert of_blue_key[rules.LEFT] + of_blue_key[rules.RIGHT] > 0.5


def test_biased_plays_each_action_as_often_as_its_table_says():
    assert {sum(weights) for weights in policies.WEIGHTS.values()} == {100}
    for name, cell in [("way is free", cells.EMPTY_CELL), ("key or ball", RED_KEY)]:
        expected = np.array(policies.WEIGHTS[name]) / 100
        found = shares(policies.biased, facing(cell), draws=50_000)
        assert np.abs(found - expected).max() < 0.007, name


def test_biased_puts_things_down_now_and_then_but_not_at_once():
    assert 0.1 < shares(policies.biased, facing(cells.EMPTY_CELL, BALL))[rules.DROP] < 0.3
    assert shares(policies.biased, facing(cells.EMPTY_CELL))[rules.DROP] < 0.05


def test_biased_tries_a_lock_without_its_key_less_often_than_with_it():
    without = shares(policies.biased, facing(door(cells.LOCKED)))[rules.TOGGLE]
    wrong = shares(policies.biased, facing(door(cells.LOCKED, cells.BLUE), RED_KEY))[rules.TOGGLE]
    right = shares(policies.biased, facing(door(cells.LOCKED), RED_KEY))[rules.TOGGLE]
    assert 0 < without < right / 2
    assert 0 < wrong < right / 2


def test_no_action_is_ever_ruled_out():
    things = [cells.EMPTY_CELL, cells.WALL_CELL, cells.GOAL_CELL, BALL, RED_KEY, cells.pack(cells.BOX)]
    doors = [door(state) for state in (cells.OPEN, cells.CLOSED, cells.LOCKED)]
    for cell in things + doors:
        for carrying in (0, BALL, RED_KEY):
            assert shares(policies.biased, facing(cell, carrying)).min() > 0, (cell, carrying)


def test_uniform_plays_all_actions_alike_whatever_the_state():
    for cell in (cells.WALL_CELL, BALL):
        assert np.abs(shares(policies.uniform, facing(cell)) - 1 / 7).max() < 0.03


def events(policy, lanes=256, steps=100):
    """What happens in the lanes: things picked up, dropped, doors that change, boxes opened."""
    env = gobi.make("MiniGrid-ObstructedMaze-2Dlhb-v0")

    def step(state, key):
        ahead = rules.front(state)
        after, _ = rules.move(state, policy(key, state))
        cell, new = state.grid[ahead[0], ahead[1]], after.grid[ahead[0], ahead[1]]
        kind, changed = cells.object_of(cell), cell != new
        full, still_full = state.carrying != cells.NOTHING, after.carrying != cells.NOTHING
        unlocked = (kind == cells.DOOR) & (cells.state_of(cell) == cells.LOCKED) & changed
        found = {
            "pickup": ~full & still_full,
            "drop": full & ~still_full,
            "door": (kind == cells.DOOR) & changed,
            "unlock": unlocked,
            "box opened": (kind == cells.BOX) & changed & (full == still_full),
        }
        return after, found

    def lane(state, key):
        return jax.tree.map(jnp.sum, jax.lax.scan(step, state, jax.random.split(key, steps))[1])

    keys = jax.random.split(jax.random.key(1), lanes)
    found = jax.jit(jax.vmap(lane))(numbered_levels(env, 0, 0, lanes), keys)
    return {name: int(np.sum(counts)) for name, counts in found.items()}


def test_biased_brings_about_many_more_events_than_uniform():
    busy, idle = events(policies.biased), events(policies.uniform)
    for name in ("pickup", "drop", "door"):
        assert busy[name] > 3 * idle[name], (name, busy, idle)
    # A level has only two boxes, and each can be opened once.
    assert busy["box opened"] > 1.5 * idle["box opened"], (busy, idle)
    assert busy["unlock"] > idle["unlock"], (busy, idle)
