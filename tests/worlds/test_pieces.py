"""Small pieces of the worlds: an action joins features; movable things are erased."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from gobi.networks import layers
from gobi.worlds import erase_movable
from gobi.worlds.network import NUM_ACTIONS, action_linear

key = jax.random.key(0)


def test_adding_an_actions_row_is_the_product_with_the_concatenation():
    whole = layers.torch_linear(key, 10 + NUM_ACTIONS, 6)
    split = action_linear(layers.torch_linear, key, 10, 6)
    features = jax.random.normal(key, (3, 10))
    actions = jnp.array([[0, 6, 3], [1, 1, 5], [2, 4, 0]])
    one_hot = jax.nn.one_hot(actions, NUM_ACTIONS)
    both = jnp.concatenate([jnp.repeat(features[:, None], 3, axis=1), one_hot], axis=-1)
    together = split.features(features)[:, None] + split.rows(actions)
    np.testing.assert_allclose(together, whole(both), atol=1e-5)


def test_keys_balls_and_boxes_are_erased_and_nothing_else():
    every = np.stack(np.meshgrid(np.arange(11), np.arange(6), np.arange(3), indexing="ij"), -1).astype(
        np.uint8
    )
    erased = np.asarray(erase_movable(jnp.asarray(every)))
    movable = np.isin(every[..., 0], [5, 6, 7])
    assert (erased[movable] == [1, 0, 0]).all()
    np.testing.assert_array_equal(erased[~movable], every[~movable])


def test_what_is_carried_can_be_left_where_the_agent_shows_it():
    view = np.full((2, 7, 7, 3), 5, np.uint8)
    lying = np.asarray(erase_movable(jnp.asarray(view), carried=False))
    kept = (lying == 5).all(-1)
    assert kept[:, 3, 6].all()
    assert kept.sum() == 2
    assert not (np.asarray(erase_movable(jnp.asarray(view))) == 5).all(-1).any()
