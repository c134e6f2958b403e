"""Views become numbers and numbers become views."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.envs.minigrid import make, numbered_levels
from gobi.networks import symbols

key = jax.random.key(0)


def legal_views(seed: int):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.integers(0, symbols.CLASSES, (4, 7, 7, 3)).astype(np.uint8))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_most_likely_cell_of_a_one_hot_code_is_the_cell(seed):
    views = legal_views(seed)
    codes = symbols.one_hot(views)
    assert (codes.sum(-1) == 3).all()
    np.testing.assert_array_equal(symbols.most_likely(codes), views)


def test_the_likelihoods_of_all_cells_add_up_to_one():
    logits = jax.random.normal(key, (20,))
    cells = jnp.array(
        np.stack(np.meshgrid(*map(np.arange, symbols.CLASSES), indexing="ij"), -1).reshape(-1, 3)
    )
    cells = cells.astype(jnp.uint8)
    chances = jnp.exp(symbols.log_likelihood(jnp.tile(logits, (len(cells), 1)), cells))
    assert float(chances.sum()) == pytest.approx(1, abs=1e-5)


def test_regressed_numbers_become_the_nearest_legal_cell():
    values = jnp.array([[4.4, 2.6, 1.2], [-3.0, 5.4, 2.4], [25.0, 9.0, 7.0]])
    assert symbols.nearest_legal(values).tolist() == [[4, 3, 1], [0, 5, 2], [10, 5, 2]]


def test_what_the_game_shows_is_legal_and_what_it_never_shows_becomes_so():
    tasks = ("MultiRoom-N4-S5", "MultiRoom-N2-S4-noisy", "ObstructedMaze-Full-v1", "DoorKey-5x5")
    for task in tasks:
        env = make(task)
        panoramas = jax.vmap(env.panorama)(numbered_levels(env, seed=0, start=0, count=20))
        np.testing.assert_array_equal(symbols.legal(panoramas), panoramas)
    invented = jnp.array([[2, 0, 0], [1, 5, 0], [0, 3, 2], [4, 3, 2], [6, 3, 1], [8, 0, 0]], jnp.uint8)
    mended = [[2, 5, 0], [1, 0, 0], [0, 0, 0], [4, 3, 2], [6, 3, 0], [8, 1, 0]]
    assert symbols.legal(invented).tolist() == mended
