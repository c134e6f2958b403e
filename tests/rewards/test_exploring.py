"""A probe: memory, world, reward and learner together make an agent explore."""

from __future__ import annotations

import jax

from gobi.envs.minigrid import fixed_levels, make
from gobi.rewards import GoBI
from gobi.training import loop as loops
from gobi.training.loop import knobs
from gobi.training.recipe import Recipe
from gobi.worlds import Simulator


def test_on_the_bonus_alone_an_agent_learns_to_go_through_the_door():
    """Two rooms and forty steps: random play stands in the door in every fourth episode or so."""
    recipe = Recipe(
        task="MiniGrid-MultiRoom-N2-S4-v0",
        recipe="test",
        frames=1_000_000,
        coefficient=0.2,
        decay=0.0,
        extrinsic=0.0,
        network="compact",
        num_envs=16,
        unroll=20,
        learning_rate=3e-3,
        entropy_cost=5e-3,
    )
    env = make(recipe.task)
    reward, bank, loop = GoBI(Simulator(env)), fixed_levels(env, seed=0, count=64), loops.loop(env, recipe)
    row = jax.jit(lambda state: loop.updates(reward, knobs(recipe), bank, state, 50))
    state, doors = loop.init(reward, bank, jax.random.key(2)), []
    for _ in range(4):
        state, metrics = row(state)
        doors.append(float(metrics["doors"]))
    assert doors[0] < 0.6
    assert doors[-1] > 0.8
