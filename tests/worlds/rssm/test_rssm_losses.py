"""What the world model learns from: divergence, likelihood and free nats."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from gobi.worlds.rssm.losses import kl, log_likelihood, model_loss
from gobi.worlds.rssm.network import Sizes, build
from gobi.worlds.rssm.recurrence import Belief, Gaussian

SMALL = Sizes(depth=1, deterministic=6, stochastic=3, hidden=5)


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)

    def gaussian(shift):
        mean = rng.normal(shift, 1, (4, 3)).astype(np.float32)
        return Gaussian(jnp.asarray(mean), jnp.asarray(rng.uniform(0.3, 2, (4, 3)).astype(np.float32)))

    return gaussian(0.0), gaussian(0.5)


def test_the_divergence_is_the_integral(pair):
    posterior, prior = pair

    def one(mean, std, other_mean, other_std):
        p, q = stats.norm(mean, std), stats.norm(other_mean, other_std)
        difference = lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x))  # noqa: E731
        return integrate.quad(difference, mean - 12 * std, mean + 12 * std)[0]

    numbers = (np.asarray(n, float).ravel() for n in (posterior.mean, posterior.std, prior.mean, prior.std))
    integrals = np.array([one(*four) for four in zip(*numbers, strict=True)]).reshape(4, 3)
    np.testing.assert_allclose(kl(posterior, prior), integrals.sum(axis=1), rtol=1e-5)


def test_the_divergence_is_the_mean_log_ratio_of_samples(pair):
    posterior, prior = jax.tree.map(lambda array: array[0], pair)
    samples = posterior.sample(jax.random.normal(jax.random.key(0), (200_000, 3)))
    densities = [
        jax.scipy.stats.norm.logpdf(samples, one.mean, one.std).sum(-1) for one in (posterior, prior)
    ]
    ratios = np.asarray(densities[0] - densities[1])
    error = ratios.std() / np.sqrt(len(ratios))
    assert abs(ratios.mean() - float(kl(posterior, prior))) < 4 * error


def test_the_divergence_from_itself_is_zero(pair):
    np.testing.assert_allclose(kl(pair[0], pair[0]), 0, atol=1e-6)


def test_the_likelihood_is_summed_over_all_pixels():
    rng = np.random.default_rng(1)
    decoded, frames = rng.uniform(-0.5, 0.5, (2, 3, 64, 64, 3)).astype(np.float32)
    expected = stats.norm(decoded.astype(float), 1).logpdf(frames).sum(axis=(1, 2, 3))
    np.testing.assert_allclose(log_likelihood(jnp.asarray(decoded), jnp.asarray(frames)), expected, rtol=1e-5)


@pytest.fixture(scope="module")
def given(drawn):
    """A small network, two films of three frames of noise, their actions, and noise for the posterior."""
    network = drawn(jax.eval_shape(lambda: build(jax.random.key(0), 2, SMALL)))
    rng = np.random.default_rng(2)
    frames = jnp.asarray(rng.uniform(-0.5, 0.5, (2, 3, 64, 64, 3)).astype(np.float32))
    actions = jnp.asarray(rng.uniform(-1, 1, (2, 3, 2)).astype(np.float32))
    noise = jnp.asarray(rng.normal(size=(3, 2, SMALL.stochastic)).astype(np.float32))
    return network, frames, actions, noise


@pytest.fixture(scope="module")
def free(given):
    """Loss, measures and gradient of a small network on noise, by the number of free nats: 3 and 0."""
    network, frames, actions, noise = given

    @jax.jit
    def both(network):
        gradient = jax.value_and_grad(model_loss, has_aux=True)
        return {nats: gradient(network, frames, actions, noise, nats) for nats in (3.0, 0.0)}

    return both(network)


def test_below_the_free_nats_nothing_reaches_the_prior(free):
    (_, measures), gradient = free[3.0]
    assert 0 < float(measures["world/kl"]) < 3
    for layer in (gradient.dynamics.prior_hidden, gradient.dynamics.prior_out):
        assert not np.any(layer.weight)
        assert not np.any(layer.bias)
    # The posterior still learns from the pixels.
    assert np.any(gradient.dynamics.posterior_out.weight)


def test_above_the_free_nats_the_prior_learns(free):
    (loss, measures), gradient = free[0.0]
    assert np.any(gradient.dynamics.prior_out.weight)
    (clipped, _), _ = free[3.0]
    assert float(clipped - loss) == pytest.approx(3.0 - float(measures["world/kl"]), abs=4e-3)


def test_foresight_is_told_of_the_last_frame_from_the_one_before(given, free):
    network, frames, actions, noise = given
    belief = Belief(jnp.zeros((2, SMALL.deterministic)), jnp.zeros((2, SMALL.stochastic)))
    for t in range(3):
        deterministic = network.dynamics.advance(belief, actions[:, t])
        foreseen = Belief(deterministic, network.dynamics.prior(deterministic).mean)
        posterior = network.dynamics.posterior(deterministic, network.encoder(frames[:, t]))
        belief = Belief(deterministic, posterior.sample(noise[t]))
    last = np.asarray(frames[:, -1])
    (_, measures), _ = free[3.0]
    error = np.sqrt(np.mean((np.asarray(network.decoder(foreseen.features)) - last) ** 2))
    assert float(measures["world/prediction_error"]) == pytest.approx(error, rel=3e-6)
    # Told apart from reconstructing it, which has seen the frame.
    assert error != pytest.approx(np.sqrt(np.mean((network.decoder(belief.features) - last) ** 2)), rel=3e-6)
    change = np.sqrt(np.mean((last - np.asarray(frames[:, -2])) ** 2))
    assert float(measures["world/change"]) == pytest.approx(change, rel=1e-5)
