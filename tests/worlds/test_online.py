"""The model of anything: it learns what numbers, symbols and pictures will be, online."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_places import ENVS, PLACES, TIME, begun, boards, compiled, imagined, learned, play, walk

from gobi.errors import GobiError
from gobi.types import Spec
from gobi.worlds import OnlineModel


def test_what_numbers_will_be_is_learned_within_a_few_rollouts():
    _, _, measured = learned("numbers")
    assert measured[0]["world/error"] == 1
    assert measured[-1]["world/error"] < 0.1
    assert measured[-1]["world/loss"] < 0.1


def test_what_symbols_will_be_is_learned_exactly():
    _, _, measured = learned("symbols")
    assert measured[0]["world/exact_changes"] == 0
    assert 0 < measured[0]["world/exact"] < 0.7
    assert measured[-1]["world/exact"] > 0.9
    assert measured[-1]["world/exact_changes"] > 0.9


def test_what_pictures_will_be_is_learned():
    _, _, measured = learned("pixels")
    assert measured[0]["world/error"] == 1
    assert measured[-1]["world/error"] < 0.5


@pytest.mark.parametrize("kind", PLACES)
def test_before_it_has_learned_nothing_changes_and_so_imagination_adds_nothing(kind):
    spec = PLACES[kind][0]
    world = OnlineModel.suited(spec, steps=2, units=16)
    rows = np.asarray(play(kind, time=1).before["observation"][0])
    found = imagined(world, begun(world, spec), jax.random.split(jax.random.key(0), ENVS), rows)
    assert found.dtype == rows.dtype
    np.testing.assert_array_equal(found, np.repeat(rows[:, None], world.predictions, axis=1))


def test_each_action_is_tried_where_there_are_few_and_chains_go_on_from_what_was_imagined():
    world, ws, _ = learned("symbols")
    rows, keys = boards(np.random.default_rng(5)), jax.random.split(jax.random.key(0), ENVS)
    first = imagined(world, ws, keys, rows)
    really = np.stack([walk(rows, np.full(ENVS, action)) for action in range(4)], axis=1)
    assert (first == really).all(axis=(2, 3)).mean() > 0.8

    chains = imagined(OnlineModel.suited(PLACES["symbols"][0], steps=2), ws, keys, rows)
    np.testing.assert_array_equal(chains[:, :4], first)
    # The second step of each chain is one of what its own first step can lead to.
    onwards = imagined(world, ws, jax.random.split(jax.random.key(1), 4 * ENVS), first.reshape(-1, 4, 5))
    second = chains[:, 4:].reshape(-1, 1, 4, 5)
    assert (onwards == second).all(axis=(2, 3)).any(axis=1).all()


def test_drawn_actions_differ_from_row_to_row_and_depend_on_the_rows_own_key():
    world, ws, _ = learned("numbers")
    assert (world.predictions, world.sampled) == (5, 5)
    rows, keys = np.zeros((3, 2), np.float32), jax.random.split(jax.random.key(2), 3)
    found = imagined(world, ws, keys, rows)
    assert len(np.unique(found.reshape(-1, 2), axis=0)) == 15
    np.testing.assert_allclose(imagined(world, ws, keys[2:], rows[2:])[0], found[2], rtol=1e-5)


def test_lanes_in_which_no_step_was_made_are_as_if_they_were_not_there():
    """One lane of four is not real: of whatever stands there, nothing is learned and nothing measured."""
    kind = "numbers"
    spec = PLACES[kind][0]
    world = OnlineModel.suited(spec, units=16, gradient_steps=4)
    learn = compiled(lambda ws, key, rollout: world.learn(ws, key, rollout))
    whole, start = play(kind), begun(world, spec)
    there = jax.tree.map(lambda part: jnp.asarray(np.asarray(part)[:, 1:]), whole)
    nonsense = jax.tree.map(lambda part: jnp.asarray(np.asarray(part)[:, [1, 1, 2, 3]][::-1]), whole)
    real = np.ones((TIME, ENVS), bool)
    real[:, 0] = False
    mixed = jax.tree.map(
        lambda odd, good: jnp.asarray(np.where(real.reshape(real.shape + (1,) * (good.ndim - 2)), good, odd)),
        nonsense,
        whole,
    )
    marked = eqx.tree_at(lambda t: t.real, mixed, jnp.asarray(real), is_leaf=lambda part: part is None)
    one, measured = learn(start, jax.random.key(1), there)
    other, again = learn(start, jax.random.key(1), marked)
    for a, b in zip(jax.tree.leaves((one, measured)), jax.tree.leaves((other, again)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)

    nobody = eqx.tree_at(lambda t: t.real, marked, jnp.asarray(real & False))
    same, _ = learn(one, jax.random.key(1), nobody)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(same), strict=True):
        np.testing.assert_array_equal(a, b)


def test_wrong_settings_are_refused_in_one_line():
    with pytest.raises(GobiError, match=r"^actions are either integers \(num_actions\) or vectors"):
        OnlineModel(3, 2)
    with pytest.raises(GobiError, match=r"^of actions that are vectors, some must be drawn"):
        OnlineModel(0, 2)
    with pytest.raises(GobiError, match="must be at least 1"):
        OnlineModel(3, steps=0)
    with pytest.raises(GobiError, match="this model is for 3 actions of size 0; board has 4 of size 0"):
        OnlineModel(3).init(jax.random.key(0), PLACES["symbols"][0], ENVS)
    with pytest.raises(GobiError, match=r"no model for observations of float32 \[3, 3\]"):
        OnlineModel(3).init(jax.random.key(0), Spec("odd", (3, 3), "float32", 3, 10), ENVS)


@pytest.mark.parametrize(("shape", "classes", "bitwise"), [((1,), 500, False), ((128,), 250, True)])
def test_many_symbols_are_predicted_bit_by_bit_and_never_outside_of_their_classes(shape, classes, bitwise):
    spec = Spec("symbols", shape, "int32", 3, max_steps=10, classes=classes)
    world = OnlineModel.suited(spec, units=16)
    ws = begun(world, spec)
    assert ws.network.bitwise == bitwise
    draws = np.random.default_rng(0)
    shaken = jax.tree.map(lambda part: part + draws.normal(size=part.shape).astype(part.dtype), ws)
    rows = draws.integers(0, classes, (6, *shape)).astype(np.int32)
    keys = jax.random.split(jax.random.key(0), 6)
    same, other = (imagined(world, state, keys, rows) for state in (ws, shaken))
    np.testing.assert_array_equal(same, np.repeat(rows[:, None], 3, axis=1))
    assert other.dtype == np.int32
    assert (other != same).any()
    assert 0 <= other.min() <= other.max() < classes
