"""Episodic curiosity with a comparator that learned on random play beforehand and stays as it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Key, UInt8

from gobi.envs.minigrid.bank import Bank, make_bank, refill
from gobi.envs.minigrid.environment import MiniGrid
from gobi.envs.minigrid.lanes import Lanes, Stepper
from gobi.errors import GobiError
from gobi.rewards.comparator import Comparator, Lessons
from gobi.rewards.ec import EC, Curious
from gobi.types import Spec


class PretrainedEC(EC):
    """Episodic curiosity whose comparator is given, and stays as it is. `pretrained` makes one.

    network:  the comparator.
    """

    network: Comparator = eqx.field(kw_only=True)

    def comparator(self, state: Curious) -> Comparator:
        """The given one."""
        del state
        return self.network

    def untaught(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> None:
        """There is nothing to teach."""
        del key, spec, num_envs

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv: those of `EC` but for the lessons."""
        return ("ec/similarity", "ec/remembered")


def pretrained(
    key: Key[Array, ""],
    env: MiniGrid,
    rollouts: int = 20,
    num_envs: int = 50,
    unroll: int = 100,
    batches: int = 50,
    bank: Bank | None = None,
    progress: Callable[[int, int, dict[str, float]], None] | None = None,
    **options: Any,
) -> PretrainedEC:
    """The reward with a fixed comparator, after `rollouts` x `num_envs` x `unroll` frames of random play.

    batches:   steps of Adam after each rollout.
    bank:      levels to play over and over; None makes new ones, of a seed drawn from the key.
    progress:  called after each rollout with its number, their total, and what was logged.
    options:   of `EC`.
    """
    if min(rollouts, num_envs, unroll) < 1:
        raise GobiError(
            f"pre-training needs rollouts, num_envs and unroll of at least 1, got {rollouts}, {num_envs}, "
            f"{unroll}"
        )
    reward = EC(batches=batches, **options)
    if reward.pretrain:
        raise GobiError("the frames of pre-training are rollouts x num_envs x unroll; leave pretrain out")
    weights, levels, playing, teaching = jax.random.split(key, 4)
    endless = bank is not None
    if bank is None:
        seed = int(jax.random.randint(levels, (), 0, np.iinfo(np.int32).max))
        bank = make_bank(env, seed, capacity=2 * num_envs)
    lanes, observation = jax.jit(Stepper(env, num_envs).reset)(bank)
    learner = reward.untaught(weights, env.spec, num_envs)
    assert learner is not None

    @jax.jit
    def rollout(bank: Bank, lanes: Lanes, observation: Array, learner: Lessons, keys: Any):
        lanes, observation, seen, done = _play(env, num_envs, unroll, bank, lanes, observation, keys[0])
        if not endless:
            bank, place = refill(env, bank, lanes.queue)
            lanes = dataclasses.replace(lanes, queue=place)
        learner, logged = reward.teach(learner, keys[1], seen, done)
        return bank, lanes, observation, learner, logged

    for number in range(rollouts):
        keys = tuple(jax.random.fold_in(one, number) for one in (playing, teaching))
        bank, lanes, observation, learner, logged = rollout(bank, lanes, observation, learner, keys)
        if progress is not None:
            progress(number + 1, rollouts, {name: float(value) for name, value in logged.items()})
    if not int(learner.count):
        raise GobiError(
            f"{env.spec.id}: no random episode was longer than {reward.far} steps, there was nothing to "
            "learn from; lower far, or play more"
        )
    return PretrainedEC(batches=batches, **options, network=learner.network)


def _play(
    env: MiniGrid,
    num_envs: int,
    unroll: int,
    bank: Bank,
    lanes: Lanes,
    observation: UInt8[Array, "envs 7 7 3"],
    key: Key[Array, ""],
) -> tuple[Lanes, UInt8[Array, "envs 7 7 3"], UInt8[Array, "time envs 7 7 3"], Bool[Array, "time envs"]]:
    """Uniformly random actions: where the lanes stand then, what was seen on the way, and where it ended."""
    stepper = Stepper(env, num_envs)
    actions = jax.random.randint(key, (unroll, num_envs), 0, env.spec.num_actions)

    def step(carry: tuple[Lanes, Array], action: Array):
        lanes, observation = carry
        after, step = stepper.step(bank, lanes, action)
        return (after, step.observation), (observation, step.done)

    (lanes, observation), (seen, done) = jax.lax.scan(step, (lanes, observation), actions)
    return lanes, observation, seen, done
