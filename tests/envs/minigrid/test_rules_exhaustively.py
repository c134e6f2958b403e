"""Every action on every kind of thing, with everything in hand, against Farama's own objects."""

from __future__ import annotations

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Ball, Box, Door, Floor, Goal, Key, Lava, Wall
from minigrid.minigrid_env import MiniGridEnv

from gobi.envs.minigrid import DoorKey, cells, make

FARAMAS = {
    int(cells.EMPTY_CELL): lambda: None,
    int(cells.WALL_CELL): Wall,
    cells.pack(cells.FLOOR, cells.BLUE): Floor,
    cells.pack(cells.DOOR, cells.RED, cells.OPEN): lambda: Door("red", is_open=True),
    cells.pack(cells.DOOR, cells.RED, cells.CLOSED): lambda: Door("red"),
    cells.pack(cells.DOOR, cells.RED, cells.LOCKED): lambda: Door("red", is_locked=True),
    cells.pack(cells.DOOR, cells.GREEN, cells.LOCKED): lambda: Door("green", is_locked=True),
    cells.pack(cells.KEY, cells.RED): lambda: Key("red"),
    cells.pack(cells.KEY, cells.GREEN): lambda: Key("green"),
    cells.pack(cells.BALL, cells.BLUE): lambda: Ball("blue"),
    cells.pack(cells.BOX, cells.GREY): lambda: Box("grey"),
    cells.pack(cells.BOX, cells.GREY, 0, cells.pack(cells.KEY, cells.RED)): lambda: Box("grey", Key("red")),
    int(cells.GOAL_CELL): Goal,
    cells.pack(cells.LAVA, cells.RED): Lava,
}
"""What can lie in front of the agent, and Farama's object for it."""

env = make(DoorKey(5))
LIMIT = env.spec.max_steps


class FaramasCorridor(MiniGridEnv):
    """The same corridor with Farama's own objects, and none of our code."""

    def __init__(self):
        space = MissionSpace(mission_func=lambda: "walk")
        super().__init__(mission_space=space, width=5, height=3, max_steps=LIMIT)

    def _gen_grid(self, width, height):
        raise NotImplementedError

    def lay_out(self, thing, carried):
        self.grid.wall_rect(0, 0, 5, 3)
        self.grid.set(2, 1, thing)
        self.grid.set(3, 1, None)
        self.agent_pos, self.agent_dir, self.carrying, self.step_count = (1, 1), 0, carried, 0

    def outcome(self, action):
        """The corridor's three cells, hands, agent, reward, end and view: all that an action can change."""
        observation, reward, terminated, truncated, _ = self.step(action)
        corridor = [packed(self.grid.get(x, 1)) or int(cells.EMPTY_CELL) for x in (1, 2, 3)]
        agent = [*map(int, self.agent_pos), self.agent_dir, packed(self.carrying)]
        return corridor, agent, [np.float32(reward), terminated, truncated], observation["image"].tolist()


def packed(thing) -> int:
    return 0 if thing is None else cells.pack(*thing.encode(), packed(thing.contains))


def our_outcome(state, timestep):
    agent = [*map(int, state.position), int(state.direction), int(state.carrying)]
    end = [timestep.reward, bool(timestep.terminated), bool(timestep.truncated)]
    return state.grid[1:4, 1].tolist(), agent, end, timestep.observation.tolist()


def test_every_action_on_every_thing_with_everything_in_hand_ends_as_in_farama(sketch):
    hands = [0, *(thing for thing in FARAMAS if cells.can_pick_up(jnp.uint16(thing)))]
    cases = list(itertools.product(FARAMAS, hands, range(7)))
    blank = sketch("#####", "#>..#", "#####")
    things, held, actions = np.array(cases).T
    batch = jax.tree.map(lambda part: jnp.repeat(part[None], len(cases), axis=0), blank)
    batch = eqx.tree_at(
        lambda s: (s.grid, s.carrying),
        batch,
        (batch.grid.at[:, 2, 1].set(things.astype(np.uint16)), jnp.asarray(held, jnp.uint16)),
    )
    ends = jax.jit(jax.vmap(env.step))(batch, jnp.asarray(actions, jnp.int32))
    ends = jax.tree.map(np.asarray, ends)
    farama = FaramasCorridor()
    for number, (thing, hand, action) in enumerate(cases):
        farama.lay_out(FARAMAS[thing](), FARAMAS[hand]() if hand else None)
        ours = our_outcome(*jax.tree.map(functools.partial(np.take, indices=number, axis=0), ends))
        assert ours == farama.outcome(action), (thing, hand, action)
