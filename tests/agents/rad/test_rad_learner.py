"""One update of RAD: which parts learn, from what, and how far."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from rad_cases import PIXELS, SMALL, VECTORS, N, batch_of, begun, compiled, compiled_act

from gobi.agents.rad import RAD, Batch, Replay, empty
from gobi.errors import GobiError
from gobi.types import Spec

KEY = jax.random.key(5)


def slopes_of(state, learner):
    """Adam's first moments of the critic, which after one step are a tenth of its gradient, as a critic."""
    (moments,) = jax.tree.leaves(state.critic_adam[0].mu)
    return ravel_pytree(learner.critic)[1](moments)


def test_the_temperature_takes_adam_s_steps_as_torch_does():
    state, moment, square = begun(VECTORS), 0.0, 0.0
    log_temperature = np.log(0.1)
    for number in range(1, 4):
        batch = batch_of(VECTORS, seed=number)
        state, metrics = compiled()(state, jax.random.key(number), batch, batch.reward)
        # The target entropy is minus the number of actions.
        gradient = np.exp(log_temperature) * (float(metrics["policy_entropy"]) + 2)
        moment, square = 0.9 * moment + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        step = moment / (1 - 0.9**number) / (np.sqrt(square / (1 - 0.999**number)) + 1e-8)
        log_temperature -= 1e-3 * step
        assert float(state.log_temperature) == pytest.approx(log_temperature, rel=1e-5)


@pytest.mark.parametrize(("log_std", "rises"), [(-9.0, True), (-0.3, False)])
def test_the_temperature_goes_where_the_entropy_comes_nearer_to_its_target(log_std, rises):
    learner, batch = begun(VECTORS), batch_of(VECTORS)
    last = learner.actor.trunk.layers[-1]
    bias = jnp.concatenate([jnp.zeros(2), jnp.full(2, np.arctanh((log_std + 10) / 6 - 1))])
    learner = eqx.tree_at(
        lambda learner: (learner.actor.trunk.layers[-1].weight, learner.actor.trunk.layers[-1].bias),
        learner,
        (jnp.zeros_like(last.weight), jnp.float32(bias)),
    )
    state, metrics = compiled()(learner, KEY, batch, batch.reward)
    assert (float(metrics["policy_entropy"]) < -2) == rises
    assert (float(state.log_temperature) > float(learner.log_temperature)) == rises


@pytest.mark.parametrize("spec", [PIXELS, VECTORS])
def test_the_target_follows_its_share_of_the_way_and_only_in_full_updates(spec):
    learner, batch = begun(spec), batch_of(spec)
    half, _ = compiled(full=False)(learner, KEY, batch, batch.reward)
    same(half.target, learner.target)
    same(half.actor, learner.actor)
    assert half.log_temperature == learner.log_temperature
    full, _ = compiled()(learner, KEY, batch, batch.reward)
    for part, rate in (("convolutions", 0.05), ("projection", 0.05), ("heads", 0.01)):
        olds = jax.tree.leaves(getattr(learner.target, part))
        news = jax.tree.leaves(getattr(full.critic, part))
        for old, new, got in zip(olds, news, jax.tree.leaves(getattr(full.target, part)), strict=True):
            np.testing.assert_allclose(got, (1 - rate) * old + rate * new, rtol=1e-5, atol=1e-6)


def test_the_actor_s_loss_changes_nothing_of_the_critic_and_the_shared_convolutions():
    learner, batch = begun(PIXELS), batch_of(PIXELS)
    half, _ = compiled(full=False)(learner, KEY, batch, batch.reward)
    full, _ = compiled()(learner, KEY, batch, batch.reward)
    for one, other in zip(jax.tree.leaves(half.critic), jax.tree.leaves(full.critic), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    assert not np.allclose(
        full.critic.convolutions.layers[0].kernel, learner.critic.convolutions.layers[0].kernel
    )
    assert not np.allclose(full.actor.projection.linear.weight, learner.actor.projection.linear.weight)


def test_the_actor_sees_through_the_critic_s_convolutions():
    learner, batch = begun(PIXELS), batch_of(PIXELS)
    learned, _ = compiled(full=False)(learner, KEY, batch, batch.reward)
    stack = batch.frames[:, :-1]
    act = compiled_act()
    assert not np.allclose(act(learner, KEY, stack), act(learned, KEY, stack))


def test_after_a_true_end_only_the_reward_counts():
    learner, batch = begun(VECTORS), batch_of(VECTORS, terminated=True)
    _, metrics = compiled()(learner, KEY, batch, jnp.full(N, 7.0))
    assert float(metrics["target_value"]) == 7.0
    assert float(metrics["batch_reward"]) == 7.0


def test_the_same_key_makes_the_same_update_and_another_key_another():
    learner, batch = begun(PIXELS), batch_of(PIXELS)
    one, _ = compiled()(learner, KEY, batch, batch.reward)
    again, _ = compiled()(learner, KEY, batch, batch.reward)
    same(one, again)
    other, _ = compiled()(learner, jax.random.key(6), batch, batch.reward)
    assert not np.allclose(one.actor.trunk.layers[0].weight, other.actor.trunk.layers[0].weight)


def test_bfloat16_is_close_to_float32_and_leaves_the_weights_in_float32():
    learner, batch = begun(PIXELS), batch_of(PIXELS)
    half = RAD(hidden=16, features=6, channels=4, crop=16, precision="bfloat16")
    exact, metrics = compiled(full=False)(learner, KEY, batch, batch.reward)
    rough, roughly = compiled(half, full=False)(learner, KEY, batch, batch.reward)
    for name, value in metrics.items():
        assert float(roughly[name]) == pytest.approx(float(value), rel=0.05, abs=0.02), name
    assert {leaf.dtype for leaf in jax.tree.leaves(rough.critic)} == {jnp.dtype("float32")}
    # Leaf by leaf: in one correlation of all weights the few of the first layers, and biases, would not show.
    leaves = [jax.tree.leaves_with_path(slopes_of(state, learner)) for state in (exact, rough)]
    for (path, one), (_, other) in zip(*leaves, strict=True):
        off = np.linalg.norm(np.asarray(other - one)) / np.linalg.norm(np.asarray(one))
        assert off < 0.1, (jax.tree_util.keystr(path), off)
    seen = batch.frames[:, :-1]
    actions = [compiled_act(rad, explore=True)(learner, KEY, seen) for rad in (SMALL, half)]
    np.testing.assert_allclose(*actions, atol=0.05)


def test_pictures_cut_out_of_the_replay_are_those_cut_out_of_the_batch():
    random, replay = np.random.default_rng(0), empty(12, PIXELS)
    replay = replay.begin(jnp.asarray(random.integers(0, 256, (20, 20, 3), dtype=np.uint8)))
    step = jax.jit(Replay.add)
    for number in range(15):
        frame = random.integers(0, 256, (20, 20, 3), dtype=np.uint8)
        action = random.uniform(-1, 1, 2).astype(np.float32)
        replay = step(replay, action, np.float32(number), np.bool_(False), np.float32(0), frame)
    batch = replay.sample(KEY, N, SMALL.stack)
    same(SMALL._views(KEY, batch, None), SMALL._views(KEY, batch, replay))


def test_before_and_after_are_cropped_independently():
    batch = batch_of(PIXELS)
    columns = jnp.arange(20, dtype=jnp.uint8)[:, None] * 10 + jnp.arange(20, dtype=jnp.uint8)
    frames = jnp.broadcast_to(columns[:, :, None], batch.frames.shape)
    batch = Batch(batch.index, frames, batch.action, batch.reward, batch.terminated, batch.stored)
    before, after = SMALL._views(KEY, batch, None)
    assert np.any(before[:, 0, 0] != after[:, 0, 0])
    assert len(np.unique(before[:, 0, 0, 0])) > 1
    assert np.all(before[..., :1] == before)


def test_acting_sees_the_middle_of_the_pictures():
    learner, random = begun(PIXELS), np.random.default_rng(0)
    stack = random.integers(0, 256, (4, 3, 20, 20, 3), dtype=np.uint8)
    framed = stack.copy()
    framed[:, :, [0, 1, -2, -1]] = 0
    framed[:, :, :, [0, 1, -2, -1]] = 0
    act = compiled_act()
    mean = act(learner, KEY, stack)
    assert mean.shape == (4, 2)
    np.testing.assert_array_equal(mean, act(learner, KEY, framed))
    framed[:, :, 2] = 255 - framed[:, :, 2]
    assert not np.array_equal(mean, act(learner, KEY, framed))
    np.testing.assert_allclose(act(learner, KEY, stack[0]), mean[0], rtol=1e-4, atol=1e-6)


def test_exploring_draws_and_the_mean_does_not():
    learner = begun(VECTORS)
    seen = jnp.float32([0.1, -0.2, 0.3])
    keys = jax.random.split(jax.random.key(0), 50)
    drawn = jax.vmap(lambda key: compiled_act(explore=True)(learner, key, seen))(keys)
    means = jax.vmap(lambda key: compiled_act()(learner, key, seen))(keys)
    assert drawn.shape == (50, 2)
    assert len(np.unique(drawn[:, 0])) == 50
    assert np.all(np.abs(drawn) <= 1)
    assert np.ptp(means, axis=0).max() == 0


def test_every_second_update_is_full():
    assert [RAD().is_full(update) for update in range(4)] == [True, False, True, False]
    assert [RAD(every=3).is_full(update) for update in range(4)] == [True, False, False, True]


@pytest.mark.parametrize(
    ("rad", "spec"),
    [
        (RAD(), Spec("discrete", (100, 100, 3), "uint8", 7, 500)),
        (RAD(), Spec("small", (64, 64, 3), "uint8", 0, 500, 2)),
        (RAD(crop=10), PIXELS),
    ],
)
def test_what_cannot_be_learned_is_refused(rad, spec):
    with pytest.raises(GobiError):
        rad.init(jax.random.key(0), spec)


def same(one, other):
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(left, right)
