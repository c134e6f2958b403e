"""What rewards read of Gymnasium's spaces: which kind a space is, and that batches come out as announced."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st

from gobi.adapters.observations import actions, observations, spec
from gobi.errors import GobiError

VIEW = spaces.Box(0, 255, (7, 7, 3), np.uint8)
MISSION = spaces.Text(50)
INFINITE = spaces.Box(-np.inf, np.inf, (3,), np.float32)

KINDS = {
    "MiniGrid": (
        spaces.Dict(image=VIEW, direction=spaces.Discrete(4), mission=MISSION),
        ((7, 7, 3), "uint8", 0),
    ),
    "MiniGrid, the picture alone": (VIEW, ((7, 7, 3), "uint8", 0)),
    "MiniGrid, fully observed": (
        spaces.Dict(image=spaces.Box(0, 255, (8, 9, 3), np.uint8), mission=MISSION),
        ((8, 9, 3), "uint8", 16),
    ),
    "MiniGrid, painted": (
        spaces.Dict(image=spaces.Box(0, 255, (56, 56, 3), np.uint8), mission=MISSION),
        ((28, 28, 3), "uint8", 0),
    ),
    "a board of other symbols": (spaces.Box(0, 4, (7, 7, 3), np.uint8), ((7, 7, 3), "uint8", 5)),
    "Discrete": (spaces.Discrete(500, start=7), ((1,), "int32", 500)),
    "MultiDiscrete": (spaces.MultiDiscrete([[3, 9], [2, 5]], start=[[1, 0], [0, -2]]), ((2, 2), "uint8", 9)),
    "MultiBinary": (spaces.MultiBinary((4, 5)), ((4, 5), "uint8", 2)),
    "integers": (spaces.Box(-3, 12, (6,), np.int64), ((6,), "uint8", 16)),
    "memory of a console": (spaces.Box(0, 255, (128,), np.uint8), ((128,), "uint8", 256)),
    "a large board": (spaces.Box(0, 2, (19, 19), np.uint8), ((19, 19), "uint8", 3)),
    "unbounded integers": (spaces.Box(-(2**31), 2**31 - 2, (4,), np.int32), ((4,), "float32", 0)),
    "Atari": (spaces.Box(0, 255, (210, 160, 3), np.uint8), ((42, 32, 3), "uint8", 0)),
    "channels first": (spaces.Box(0, 255, (3, 64, 48), np.uint8), ((32, 24, 3), "uint8", 0)),
    "frames": (spaces.Box(0, 255, (4, 84, 84), np.uint8), ((42, 42, 4), "uint8", 0)),
    "frames in colour": (spaces.Box(0, 255, (4, 84, 84, 3), np.uint8), ((42, 42, 12), "uint8", 0)),
    "grey": (spaces.Box(0, 255, (96, 96), np.uint8), ((32, 32, 1), "uint8", 0)),
    "floating pixels": (spaces.Box(0, 1, (40, 40, 3), np.float32), ((40, 40, 3), "uint8", 0)),
    "numbers": (spaces.Box(-2, 2, (3, 2), np.float64), ((6,), "float32", 0)),
    "numbers without bounds": (INFINITE, ((3,), "float32", 0)),
    "Tuple of integers": (
        spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.MultiBinary(2)]),
        ((4,), "uint8", 32),
    ),
    "Dict of everything": (
        spaces.Dict(
            camera=spaces.Box(0, 255, (84, 84, 3), np.uint8),
            joints=INFINITE,
            inner=spaces.Dict(mode=spaces.Discrete(3), button=spaces.MultiBinary(2)),
            place=spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(4)]),
        ),
        # inner is integers by itself: three of three classes; place: two numbers and four classes.
        ((42 * 42 * 3 + 3 + 3 * 3 + 2 + 4,), "float32", 0),
    ),
}


def batch_of(space: spaces.Space, envs: int, seed: int = 0):
    batched = batch_space(space, envs)
    batched.seed(seed)
    batch = batched.sample()
    if space is KINDS["MiniGrid, fully observed"][0]:
        batch["image"] %= 11
    return batch


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_every_space_come_out_with_the_shape_and_dtype_that_were_announced(kind):
    space, (shape, dtype, classes) = KINDS[kind]
    observed = observations(space)
    assert (observed.shape, observed.dtype, observed.classes) == (shape, dtype, classes)
    read = observed(batch_of(space, 5))
    assert (read.shape, read.dtype) == ((5, *shape), np.dtype(dtype))
    assert np.isfinite(read).all()
    if classes:
        assert 0 <= read.min() <= read.max() < classes


@pytest.mark.parametrize("kind", KINDS)
def test_an_observation_reads_the_same_alone_and_in_company_and_after_pickling(kind):
    space, _ = KINDS[kind]
    observed, batch = observations(space), batch_of(space, 3, seed=1)
    again = pickle.loads(pickle.dumps(observed))

    def row(part, lane):
        if isinstance(part, dict):
            return {name: row(inner, lane) for name, inner in part.items()}
        if isinstance(part, tuple) and not isinstance(part[0], str):
            return tuple(row(inner, lane) for inner in part)
        return part[lane : lane + 1]

    alone = np.concatenate([again(row(batch, lane)) for lane in range(3)])
    np.testing.assert_array_equal(observed(batch), alone)


def test_the_view_of_minigrid_is_handed_on_untouched():
    batch = batch_of(KINDS["MiniGrid"][0], 4)
    np.testing.assert_array_equal(observations(KINDS["MiniGrid"][0])(batch), batch["image"])


def test_numbers_are_scaled_by_their_bounds_or_by_logarithm():
    low, high = np.array([-1.2, -0.07, -np.inf, 5, 0]), np.array([0.6, 0.07, 3, 5, 1e30])
    observed = observations(spaces.Box(low.astype(np.float32), high.astype(np.float32)))
    batch = np.array([[-1.2, 0.07, -1.0, 5, 1e9], [0.6, 0, 3, 5, 0], [-0.3, -0.035, 0, 5, 1]], np.float32)
    expected = [[-1, 1, -np.log(2), 0, np.log1p(1e9)], [1, 0, np.log(4), 0, 0], [0, -0.5, 0, 0, np.log(2)]]
    np.testing.assert_allclose(observed(batch), expected, atol=1e-6)


def test_integers_are_counted_from_zero():
    space = KINDS["MultiDiscrete"][0]
    batch = np.array([[[1, 0], [1, -2]], [[3, 8], [0, 2]]])
    np.testing.assert_array_equal(observations(space)(batch), [[[0, 0], [1, 0]], [[2, 8], [0, 4]]])
    np.testing.assert_array_equal(
        observations(spaces.Discrete(500, start=7))(np.array([7, 506])), [[0], [499]]
    )


def test_thumbnails_are_the_mean_of_blocks_and_those_at_the_border_of_what_is_there():
    space = spaces.Box(0, 255, (100, 43, 1), np.uint8)
    batch = batch_of(space, 2)
    read = observations(space)(batch)
    assert read.shape == (2, 34, 15, 1)
    inside = batch[:, :99, :42, 0].reshape(2, 33, 3, 14, 3).astype(float).mean(axis=(2, 4))
    np.testing.assert_allclose(read[:, :33, :14, 0], inside, atol=0.51)
    # One row is left over for the last block, one column for its neighbour.
    np.testing.assert_allclose(read[:, 33, :14, 0], batch[:, 99, :42, 0].reshape(2, 14, 3).mean(2), atol=0.51)
    np.testing.assert_allclose(read[:, :33, 14, 0], batch[:, :99, 42, 0].reshape(2, 33, 3).mean(2), atol=0.51)


def test_pictures_with_channels_first_or_frames_show_the_same_as_with_channels_last():
    last = batch_of(spaces.Box(0, 255, (64, 48, 3), np.uint8), 2)
    first = np.moveaxis(last, -1, 1)
    read = observations(spaces.Box(0, 255, (64, 48, 3), np.uint8))(last)
    np.testing.assert_array_equal(observations(spaces.Box(0, 255, (3, 64, 48), np.uint8))(first), read)
    stacked = observations(spaces.Box(0, 255, (2, 64, 48, 3), np.uint8))(np.stack([last, last[::-1]], axis=1))
    np.testing.assert_array_equal(stacked, np.concatenate([read, read[::-1]], axis=-1))
    floating = observations(spaces.Box(0, 1, (64, 48, 3), np.float32))((last / 255).astype(np.float32))
    assert np.abs(floating.astype(int) - read).max() <= 1


def test_parts_are_put_one_after_the_other_integers_as_zeros_and_ones():
    space = spaces.Dict(mode=spaces.Discrete(3), speed=spaces.Box(-10, 10, (1,)))
    batch = {"mode": np.array([2, 0]), "speed": np.array([[5.0], [-10.0]], np.float32)}
    np.testing.assert_allclose(observations(space)(batch), [[0, 0, 1, 0.5], [1, 0, 0, -1]])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_refused_with_the_environment_it_came_from(wrong):
    batch = np.zeros((4, 3), np.float32)
    batch[2, 1] = wrong
    parts = spaces.Dict(a=INFINITE, b=spaces.Discrete(2))
    for space, came in ((INFINITE, batch), (parts, {"a": batch, "b": np.zeros(4, int)})):
        with pytest.raises(GobiError, match=r"^environment 2: [^\n]*NaN or infinite[^\n]*$"):
            observations(space)(came)


def test_batches_of_another_shape_and_symbols_outside_of_the_space_are_refused():
    with pytest.raises(GobiError, match=r"shape \[3\] were announced, a batch of shape \[3\] came"):
        observations(INFINITE)(np.zeros(3, np.float32))
    with pytest.raises(GobiError, match="environment 1: the observation is outside of its space"):
        observations(spaces.Discrete(4))(np.array([3, 4]))
    with pytest.raises(GobiError, match=r"with the parts \['a'\] came as ndarray"):
        observations(spaces.Dict(a=INFINITE))(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "space",
    [MISSION, spaces.Sequence(spaces.Discrete(2)), spaces.Dict(a=INFINITE, text=MISSION)],
    ids=["Text", "Sequence", "Text inside"],
)
def test_spaces_that_cannot_be_read_are_named_and_so_is_the_way_out(space):
    with pytest.raises(GobiError, match=r"(Text|Sequence)\(.*observe=\(function, space\)"):
        observations(space)


def test_discrete_actions_are_numbered_from_zero():
    acted = actions(spaces.Discrete(3, start=-1))
    assert (acted.num_actions, acted.action_size) == (3, 0)
    read = acted(np.array([-1, 1, 0]))
    assert read.dtype == np.int32
    np.testing.assert_array_equal(read, [0, 2, 1])
    with pytest.raises(GobiError, match=r"outside of its space.*\[2\].*\[-1\] to \[1\]"):
        acted(np.array([2]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4).filter(lambda sizes: np.prod(sizes) <= 256))
def test_several_discrete_actions_have_a_number_for_each_combination(sizes):
    acted = actions(spaces.MultiDiscrete(sizes))
    every = np.stack([part.reshape(-1) for part in np.indices(sizes)], axis=1)
    assert (acted.num_actions, acted.action_size) == (np.prod(sizes), 0)
    np.testing.assert_array_equal(acted(every), np.arange(np.prod(sizes)))


def test_too_many_combinations_become_numbers_between_minus_one_and_one():
    for space, size in ((spaces.MultiDiscrete([20, 5, 5]), 3), (spaces.MultiBinary(10), 10)):
        acted = actions(space)
        assert (acted.num_actions, acted.action_size) == (0, size)
        read = acted(batch_of(space, 50))
        assert (read.shape, read.dtype) == ((50, size), np.float32)
        assert (read.min(), read.max()) == (-1, 1)
    middle = actions(spaces.MultiDiscrete([3, 3, 3, 3, 3, 3]))(np.array([[0, 1, 2, 0, 1, 2]]))
    np.testing.assert_array_equal(middle, [[-1, 0, 1, -1, 0, 1]])


def test_continuous_actions_are_scaled_by_their_bounds_beyond_which_they_are_cut():
    acted = actions(spaces.Box(np.array([0.0, -np.inf], np.float32), np.array([4.0, np.inf], np.float32)))
    assert (acted.num_actions, acted.action_size) == (0, 2)
    read = acted(np.array([[1.0, 0.5], [9.0, -100.0]]))
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, [[-0.5, np.tanh(0.5)], [1, -1]], atol=1e-6)


def test_actions_that_cannot_be_read_are_named():
    with pytest.raises(GobiError, match=r"^rewards cannot read actions of the space Dict\("):
        actions(spaces.Dict(a=spaces.Discrete(2)))


def test_a_spec_tells_what_rewards_read_and_how_long_episodes_are():
    made = spec("own/Car", spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,)), 999)
    assert (made.id, made.observation_shape, made.observation_dtype) == ("own/Car", (2,), "float32")
    assert (made.num_actions, made.action_size, made.max_steps, made.classes) == (0, 1, 999, 0)
    endless = spec("own/Grid", spaces.Box(0, 4, (5, 5), np.uint8), spaces.Discrete(4))
    assert (endless.num_actions, endless.classes, endless.max_steps) == (4, 5, 1000)


@pytest.mark.parametrize(
    ("space", "batch", "says"),
    [
        (spaces.MultiDiscrete([2, 3]), np.zeros((2, 3), int), r"2 for each environment.*\[2, 3\]"),
        (spaces.MultiBinary(3), np.zeros(4, int), r"3 for each environment.*\[4\]"),
        (spaces.MultiBinary(3), [[0, 1, 1], [0, 1]], "3 for each environment.*different lengths"),
        (spaces.Discrete(3), np.array([1.0, 0.5]), r"whole numbers.*\[1\.0, 0\.5\]"),
        (spaces.Discrete(3), np.array([np.nan]), "whole numbers.*nan"),
        (spaces.Discrete(3), ["left"], "whole numbers.*<U4"),
        (spaces.Box(-1, 1, (2,)), np.zeros((2, 3)), r"2 for each environment.*\[2, 3\]"),
        (spaces.Box(-1, 1, (2,)), [["a", "b"]], "numbers, 2 for each environment.*<U1"),
        (spaces.Box(-1, 1, (2,)), [[0.0, 0.0], [np.nan, 0.0]], "environment 1.*NaN"),
    ],
)
def test_actions_of_another_size_or_kind_are_refused_with_what_was_wanted(space, batch, says):
    with pytest.raises(GobiError, match=says):
        actions(space)(batch)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (0,)),
        spaces.Dict({"a": spaces.Box(0, 1, (2, 0)), "b": spaces.Tuple([])}),
        spaces.Tuple([]),
    ],
)
def test_a_space_without_numbers_is_refused(space):
    with pytest.raises(GobiError, match="no numbers in them"):
        observations(space)


def test_an_empty_part_beside_others_is_read():
    read = observations(spaces.Dict({"a": spaces.Box(-1, 1, (0,)), "b": spaces.Box(-1, 1, (2,))}))
    assert read.shape == (2,)
    assert read({"a": np.zeros((3, 0), np.float32), "b": np.ones((3, 2), np.float32)}).shape == (3, 2)
