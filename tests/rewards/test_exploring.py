"""Probes: memory, world, reward and learner make an agent explore, and without a bonus it does not."""

from __future__ import annotations

import far_goal
import jax
import pytest
from recordings import Recorded

from gobi.envs.minigrid import fixed_levels, make
from gobi.rewards import R1, R2, R3, GoBI, Nothing, Reward
from gobi.training import loop as loops
from gobi.training.loop import knobs
from gobi.training.recipe import Recipe
from gobi.worlds import Simulator

TASK = "MiniGrid-MultiRoom-N2-S4-v0"


def test_on_the_bonus_alone_an_agent_learns_to_go_through_the_door():
    """Two rooms and forty steps: random play stands in the door in every fourth episode or so."""
    doors = through_doors(GoBI(Simulator(make(TASK))), rows=4)
    assert doors[0] < 0.6
    assert doors[-1] > 0.8
    assert max(through_doors(Nothing(), rows=4)) < 0.6


@pytest.mark.parametrize("make_reward", [GoBI, R1, R2], ids=lambda made: made.__name__)
def test_each_part_leads_to_the_end_of_a_corridor_that_chance_never_reaches(make_reward):
    far_goal.must_beat_no_bonus(make_reward(Recorded(actions=(0, 1))), updates=100)


def test_so_does_the_lifelong_part_alone():
    far_goal.must_beat_no_bonus(R3(), updates=100)


def through_doors(reward: Reward, rows: int) -> list[float]:
    """The share of the last episodes that went through the door, after each row of fifty updates."""
    recipe = Recipe(
        task=TASK,
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
    bank, loop = fixed_levels(env, seed=0, count=64), loops.loop(env, recipe)
    row = jax.jit(lambda state: loop.updates(reward, knobs(recipe), bank, state, 50))
    state, doors = loop.init(reward, bank, jax.random.key(2)), []
    for _ in range(rows):
        state, metrics = row(state)
        doors.append(float(metrics["doors"]))
    return doors
