"""How often a run's world model is right about what its own agent does, and what it gets wrong.

    python benchmarks/model_errors.py runs/ObstructedMaze-Full-v1-gobi

The agent of the newest checkpoint plays on new levels; the model that was pre-trained for the run predicts
the view after each of its steps. Prints the share of exact predictions, by action too, and common errors.
"""

from __future__ import annotations

import argparse
import collections
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gobi.envs.minigrid import Stepper, make_bank
from gobi.envs.minigrid.rules import NUM_ACTIONS
from gobi.training import trained, world_model
from gobi.worlds import erase_movable
from gobi.worlds.network import FRONT

LANES, STEPS = 16, 300


def main() -> None:
    """Prints what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=4, help="of 300 steps in 16 lanes; the last one counts")
    options = parser.parse_args()
    agents = trained.load(options.run)
    network = world_model.load_or_train(options.run, agents.recipe, agents.env, lambda *_: None).network
    panorama, action, target = played(agents, options.rounds)
    if agents.recipe.erase_movable:
        target = np.asarray(erase_movable(jnp.asarray(target)))
    predicted = guesses(network, panorama, action)
    wrong = (predicted != target).any(-1)
    exact = ~wrong.any((1, 2))
    print(f"{agents.frames:,} frames: {exact.mean():.1%} of {len(exact):,} views exact")
    for number in range(NUM_ACTIONS):
        if (chosen := action == number).any():
            print(f"  action {number}: {exact[chosen].mean():.1%} of {chosen.sum():,}")
    triples = zip(
        predicted[wrong].tolist(), target[wrong].tolist(), panorama[:, FRONT][wrong].tolist(), strict=True
    )
    counted = collections.Counter((tuple(p), tuple(t), tuple(b)) for p, t, b in triples)
    for (guess, true, before), count in counted.most_common(10):
        print(f"  {count} cells predicted {guess}, true {true}, before {before}")


def played(agents: trained.Trained, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Panoramas, actions and next views of the last round, all steps in a row."""
    env, policy = agents.env, agents.actor(agents.seeds[0])
    bank, stepper = make_bank(env, agents.level_seed, 256), Stepper(env, LANES)

    def step(carry: Any, key: Any):
        lanes, observation, first, memory = carry
        logits, _, memory = policy(observation, first, memory)
        action = jax.random.categorical(key, logits).astype(jnp.int32)
        states, timestep = stepper.advance(lanes, action)
        seen = jax.vmap(env.panorama)(lanes.states), action, timestep.observation
        lanes, observation = stepper.restart(bank, lanes, states, timestep)
        return (lanes, observation, timestep.done, memory), seen

    play = jax.jit(lambda carry, key: jax.lax.scan(step, carry, jax.random.split(key, STEPS)))
    carry: Any = (*stepper.reset(bank), jnp.ones(LANES, bool), policy.initial(LANES))
    seen: Any = None
    for number in range(rounds):
        carry, seen = play(carry, jax.random.key(number))
    panorama, action, after = (np.asarray(part).reshape(-1, *part.shape[2:]) for part in seen)
    return panorama, action, after


def guesses(network: Any, panorama: np.ndarray, action: np.ndarray, rows: int = 480) -> np.ndarray:
    """The predicted views ahead."""

    @jax.jit
    def predict(panorama, action):
        keys = jax.random.split(jax.random.key(0), len(action))
        return network.predict(network.encode(panorama), action[:, None], keys, jnp.ones(1))[:, 0, -1]

    parts = range(0, len(action), rows)
    return np.concatenate([np.asarray(predict(panorama[i : i + rows], action[i : i + rows])) for i in parts])


if __name__ == "__main__":
    main()
