"""A convolution as a product is the convolution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.networks import convolving


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (2, 1), (4, 2)])
@pytest.mark.parametrize("sides", [(7, 8), (8, 9)])
def test_values_and_gradients_are_those_of_the_convolution(size, stride, sides):
    rng = np.random.default_rng(0)
    x, kernel = (jnp.float32(rng.normal(size=shape)) for shape in [(2, *sides, 3), (size, size, 3, 5)])

    def reference(x, kernel, stride):
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "VALID", dimension_numbers=layout)

    def both(way, x, kernel):
        made = way(x, kernel, stride)
        slopes = jax.grad(lambda x, kernel: jnp.sum(jnp.sin(way(x, kernel, stride))), argnums=(0, 1))
        return made, *slopes(x, kernel)

    with jax.default_matmul_precision("highest"):
        wanted, found = both(reference, x, kernel), both(convolving.as_product, x, kernel)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4)


@pytest.mark.parametrize(("backend", "few"), [("gpu", True), ("cpu", False)])
def test_a_gpu_is_given_products_of_few_pictures_and_convolutions_of_many(monkeypatch, backend, few):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)

    def is_product(n):
        # A function of its own, for JAX keeps what it has traced of another.
        traced = jax.make_jaxpr(lambda x, kernel: convolving.convolved(x, kernel))
        made = traced(jnp.zeros((n, 4, 4, 1)), jnp.zeros((3, 3, 1, 2)))
        return "conv_general_dilated" not in str(made)

    assert is_product(convolving.FEW) is few
    assert not is_product(convolving.FEW + 1)
