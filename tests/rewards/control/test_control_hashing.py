"""Reachability on control tasks with what is learned: an RSSM as its world, an auto-encoder as its hash."""

from __future__ import annotations

import functools
from itertools import pairwise

import control_play
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from control_play import IMAGES, PICTURES, Table

from gobi.agents.rad.replay import Sequences
from gobi.memory.learned_codes import CodeSettings, LearnedCodes
from gobi.rewards.control import Lessons, Reachability, hashing
from gobi.worlds.rssm import RSSM, Sizes


def begun(reward: Reachability):
    """The state before the first step."""
    return jax.jit(reward.init, static_argnums=1)(jax.random.key(3), PICTURES)


def sequences() -> Sequences:
    frames = jnp.zeros((2, 12, *PICTURES.observation_shape), jnp.uint8)
    return Sequences(frames, jnp.zeros((2, 12, 2)), jnp.zeros((2, 12)))


def test_what_a_learned_hash_learns_takes_effect_with_the_next_episode():
    reward = Reachability(Table(), codes="learned", bits=16)
    state = jax.eval_shape(lambda: reward.init(jax.random.key(0), PICTURES))
    assert isinstance(state.hashing.hash, LearnedCodes)
    settings = CodeSettings(bits=16, latent=16, depth=2, learning_rate=0.1)
    tiny = jax.jit(LearnedCodes.init, static_argnums=1)(jax.random.key(1), settings)
    state = begun(Reachability(Table()))
    learning = hashing.Hashing(tiny, tiny.network, None, None, "half")
    state = eqx.tree_at(lambda s: s.hashing, state, learning)

    codes = jax.jit(lambda state: state.hashing(jnp.asarray(IMAGES)))
    begin = jax.jit(lambda state: hashing.begin(state.hashing)(jnp.asarray(IMAGES)))
    known = codes(state)
    np.testing.assert_array_equal(begin(state), known)
    learn = jax.jit(reward.learn)
    for _ in range(3):
        state, logged = learn(state, jax.random.key(1), sequences())
    assert {"codes/loss", "world/loss"} <= set(logged)
    np.testing.assert_array_equal(codes(state), known)
    assert np.any(np.asarray(begin(state)) != np.asarray(known))


def test_a_world_that_imagines_nothing_leaves_real_frames_and_has_no_lessons():
    """As a control: what is left is how many different frames an episode has."""
    sizes, schedule = Sizes(1, 4, 2, 4), Lessons(every=7)
    reward = Reachability(RSSM(steps=0, sizes=sizes), schedule=schedule)
    assert reward.lessons is None
    for needs in ({"codes": "learned"}, {"world": RSSM(steps=0, sizes=sizes, hashed="reconstructed")}):
        assert Reachability(**{"world": reward.world, **needs}, schedule=schedule).lessons == schedule
    rng = np.random.default_rng(0)
    pictures = [control_play.observation(rng, PICTURES) for _ in range(4)]
    state, step, paid = begun(reward), jax.jit(reward.step), []
    state = jax.jit(reward.begin)(state, pictures[0])
    shown = [0, 1, 1, 2, 0, 3, 3, 2]
    for before, after in pairwise(shown):
        made = control_play.transition(pictures[before], np.zeros(2), pictures[after], 0)
        state, stored = step(state, made)
        paid.append(int(stored[0]))
    assert paid == [1, 0, 1, 0, 1, 0, 0]


def test_an_rssm_is_such_a_world():
    world = RSSM(steps=2, actions=3, sizes=Sizes(4, 16, 4, 16))
    reward = Reachability(world, schedule=Lessons(batch=2, length=12))
    state, logged = jax.jit(reward.learn)(begun(reward), jax.random.key(0), sequences())
    assert int(state.world.learned) == 1
    assert np.isfinite(logged["world/loss"])
    rng = np.random.default_rng(0)
    look = functools.partial(control_play.observation, rng, PICTURES)
    frames = [(look(), rng.uniform(-1, 1, 2).astype(np.float32), look()) for _ in range(4)]
    state = jax.jit(reward.begin, donate_argnums=0)(state, frames[0][0])
    step, paid = jax.jit(reward.step, donate_argnums=0), []
    for number, (before, action, after) in enumerate(frames):
        state, stored = step(state, control_play.transition(before, action, after, number))
        paid.append(float(stored[0]))
    assert all(0 <= growth <= 7 for growth in paid)
    # What it imagines counts too, now that it has had a lesson.
    assert max(paid) > 1
    # Seven codes of the first state at most, and what was paid.
    assert sum(paid) < int(state.memory.used[0]) <= sum(paid) + 7
    assert np.any(np.asarray(state.belief.deterministic) != 0)
