"""One update of RAD: what each part learns from, and by how much."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.agents.rad import RAD, Batch, Learner, Replay, empty
from gobi.errors import GobiError
from gobi.types import Spec

PIXELS = Spec("pixels", (20, 20, 3), "uint8", 0, 500, 2)
VECTORS = Spec("vectors", (3,), "float32", 0, 500, 2)
SMALL = RAD(hidden=16, features=6, channels=4, crop=16)
N = 8


@functools.cache
def compiled(rad: RAD = SMALL, full: bool = True):
    return jax.jit(functools.partial(rad.update, full=full))


@functools.cache
def compiled_act(rad: RAD = SMALL, explore: bool = False):
    return jax.jit(functools.partial(rad.act, explore=explore))


@functools.cache
def begun(spec: Spec, rad: RAD = SMALL) -> Learner:
    """A learner whose target, biases and scales differ from what they begin with."""
    learner = jax.jit(lambda key: rad.init(key, spec))(jax.random.key(0))
    random = np.random.default_rng(0)

    def shaken(leaf):
        return leaf + random.normal(0, 0.1, leaf.shape).astype(np.float32)

    parts = (jax.tree.map(shaken, part) for part in (learner.actor, learner.critic, learner.target))
    actor, critic, target = parts
    return Learner(
        actor,
        critic,
        target,
        learner.log_temperature,
        learner.actor_adam,
        learner.critic_adam,
        learner.temperature_adam,
    )


def batch_of(spec: Spec, seed: int = 0, terminated: bool = False) -> Batch:
    random = np.random.default_rng(seed)
    pixels = spec is PIXELS
    frames = (
        random.integers(0, 256, (N, 4, 20, 20, 3), dtype=np.uint8)
        if pixels
        else random.normal(size=(N, 2, 3)).astype(np.float32)
    )
    return Batch(
        index=jnp.arange(N),
        frames=jnp.asarray(frames),
        action=jnp.asarray(random.uniform(-1, 1, (N, 2)), jnp.float32),
        reward=jnp.asarray(random.normal(size=N), jnp.float32),
        terminated=jnp.full(N, terminated) | (jnp.arange(N) == 3),
        stored=jnp.zeros(N),
    )


class Plain:
    """Soft actor-critic on vectors in NumPy and float64, with the noise of each draw given."""

    def __init__(self, learner: Learner):
        self.learner = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), learner)
        self.temperature = np.exp(self.learner.log_temperature)

    def policy(self, observation, noise, actor=None):
        """Action and log probability, from the density of tanh(u) by the change of variables."""
        layers = [(layer.weight, layer.bias) for layer in (actor or self.learner.actor).trunk.layers]
        mean, log_std = np.split(forward(observation, layers), 2, axis=-1)
        std = np.exp(-10 + 6 * (np.tanh(log_std) + 1))
        u = mean + std * noise
        normal = np.exp(-0.5 * noise**2) / (std * np.sqrt(2 * np.pi))
        return np.tanh(u), np.sum(np.log(normal / (1 - np.tanh(u) ** 2)), axis=-1)

    def values(self, critic, observation, action):
        x = np.concatenate([observation, action], axis=-1)
        return np.stack(
            [
                forward(x, [(layer.weight[head], layer.bias[head]) for layer in critic.heads.layers])[:, 0]
                for head in range(2)
            ]
        )

    def aim(self, batch, reward, noise):
        after = np.asarray(batch.frames[:, 1], np.float64)
        action, log_prob = self.policy(after, noise)
        soft = self.values(self.learner.target, after, action).min(0) - self.temperature * log_prob
        return reward + 0.99 * np.where(batch.terminated, 0, soft)

    def critic_loss(self, critic, batch, aim):
        values = self.values(critic, np.asarray(batch.frames[:, 0], np.float64), batch.action)
        return np.mean((values[0] - aim) ** 2) + np.mean((values[1] - aim) ** 2)

    def actor_loss(self, actor, critic, batch, noise):
        before = np.asarray(batch.frames[:, 0], np.float64)
        action, log_prob = self.policy(before, noise, actor)
        return np.mean(self.temperature * log_prob - self.values(critic, before, action).min(0)), log_prob


def forward(x, layers):
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    return x @ layers[-1][0] + layers[-1][1]


def slope(loss, weights, place, step=1e-5):
    """The derivative of a loss by one entry of an array that it reads, by central differences."""
    kept = weights[place]
    weights[place] = kept + step
    above = loss()
    weights[place] = kept - step
    below = loss()
    weights[place] = kept
    return (above - below) / (2 * step)


KEY = jax.random.key(5)
TARGET_NOISE, ACTOR_NOISE = (
    functools.partial(
        lambda part: np.asarray(jax.random.normal(jax.random.split(KEY, 3)[part], (N, 2))), part
    )
    for part in (1, 2)
)
"""The noise that an update with KEY draws: for the actions after, and for the actor's own."""


def test_the_critic_descends_the_slope_that_numpy_finds():
    learner, batch = begun(VECTORS), batch_of(VECTORS)
    state, metrics = compiled()(learner, KEY, batch, batch.reward)
    plain = Plain(learner)
    aim = plain.aim(batch, np.asarray(batch.reward), TARGET_NOISE())
    critic = plain.learner.critic
    assert float(metrics["target_value"]) == pytest.approx(aim.mean(), rel=1e-4)
    assert float(metrics["critic_loss"]) == pytest.approx(plain.critic_loss(critic, batch, aim), rel=1e-4)
    # After one step Adam's first moment is a tenth of the gradient.
    gradient = jax.tree.map(lambda leaf: leaf / 0.1, state.critic_adam[0].mu)
    for layer, place in ((0, (0, 1, 2)), (0, (1, 4, 7)), (1, (0, 3, 3)), (2, (1, 5, 0))):
        weights = critic.heads.layers[layer].weight
        expected = slope(lambda: plain.critic_loss(critic, batch, aim), weights, place)
        assert float(gradient.heads.layers[layer].weight[place]) == pytest.approx(
            expected, rel=1e-3, abs=1e-5
        )


def test_the_actor_descends_the_slope_that_numpy_finds_with_the_critic_just_learned():
    learner, batch = begun(VECTORS), batch_of(VECTORS)
    state, metrics = compiled()(learner, KEY, batch, batch.reward)
    plain, noise = Plain(learner), ACTOR_NOISE()
    critic = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), state.critic)
    actor = plain.learner.actor
    expected, log_prob = plain.actor_loss(actor, critic, batch, noise)
    assert float(metrics["actor_loss"]) == pytest.approx(expected, rel=1e-4)
    assert float(metrics["policy_entropy"]) == pytest.approx(-log_prob.mean(), rel=1e-4)
    gradient = jax.tree.map(lambda leaf: leaf / 0.1, state.actor_adam[0].mu)
    for layer, place in ((0, (1, 2)), (1, (3, 3)), (2, (5, 0)), (2, (5, 3))):
        weights = actor.trunk.layers[layer].weight
        found = slope(lambda: plain.actor_loss(actor, critic, batch, noise)[0], weights, place)
        assert float(gradient.trunk.layers[layer].weight[place]) == pytest.approx(found, rel=1e-3, abs=1e-5)


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
    gradients = [
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.critic_adam[0].mu)])
        for state in (exact, rough)
    ]
    assert np.corrcoef(*gradients)[0, 1] > 0.99
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
