from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

from gobi.networks.initial import orthogonal


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (7, 7)])
def test_the_fewer_of_rows_and_columns_are_orthonormal_times_the_gain(shape):
    matrix = np.asarray(orthogonal(jax.random.key(1), *shape, gain=1.5))
    assert matrix.shape == shape
    narrow = matrix if shape[0] >= shape[1] else matrix.T
    np.testing.assert_allclose(narrow.T @ narrow, 1.5**2 * np.eye(min(shape)), atol=1e-5)


def test_matrices_are_jaxs_own_alone_and_side_by_side():
    keys = jax.random.split(jax.random.key(0), 6).reshape(3, 2)
    matrices = jax.vmap(jax.vmap(lambda key: orthogonal(key, 12, 5, 1.5)))(keys)
    theirs = jax.nn.initializers.orthogonal(1.5)
    for place in np.ndindex(keys.shape):
        np.testing.assert_allclose(matrices[place], theirs(keys[place], (12, 5)), atol=1e-6)


def test_many_matrices_of_many_seeds_come_to_an_end_on_few_cores():
    # With jax.nn.initializers.orthogonal instead, this hangs on two cores within the first few rounds.
    program = """
import jax
from gobi.networks.initial import orthogonal

def network(key):
    return [orthogonal(k, 128, 64) for k in jax.random.split(key, 8)]

networks = jax.jit(jax.vmap(network))
for turn in range(50):
    jax.block_until_ready(networks(jax.random.split(jax.random.key(turn), 4)))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
