"""The numbered levels of a seed reach the lanes in order, none lost, and what comes back is counted."""

from __future__ import annotations

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import (
    DoorKey,
    MultiRoom,
    Stepper,
    fixed_levels,
    make,
    make_bank,
    numbered_levels,
    refill,
)
from gobi.errors import GobiError
from gobi.types import Timestep

SEED = 3
LANES = 3
CHUNK = 4
CAPACITY = 2 * CHUNK


@dataclasses.dataclass(frozen=True)
class UnevenChunks(DoorKey):
    """A task with chunks of no to four levels: small enough to follow every level on its way."""

    @property
    def chunk_size(self) -> int:
        return CHUNK

    def chunk(self, key):
        levels, _ = super().chunk(key)
        return levels, (jax.random.bits(key) % (CHUNK + 1)).astype(jnp.int32)


env = make(UnevenChunks(12))
stepper = Stepper(env, LANES)
restart = jax.jit(stepper.restart)
refilled = jax.jit(functools.partial(refill, env))
first_views = jax.jit(jax.vmap(env.observe))


def name_of(states, lane: int) -> bytes:
    """What tells a level from every other."""
    parts = (states.grid[lane], states.position[lane], states.direction[lane])
    return b"".join(np.asarray(part).tobytes() for part in parts)


def names_of(states) -> list[bytes]:
    return [name_of(states, lane) for lane in range(len(states.direction))]


@functools.cache
def numbers() -> dict[bytes, int]:
    """The number of each of the seed's first levels, no two of which are alike."""
    found = {name: number for number, name in enumerate(names_of(numbered_levels(env, SEED, 0, 150)))}
    assert len(found) == 150
    return found


def ended(done) -> Timestep:
    """A timestep that ends these lanes' episodes."""
    blank = jnp.zeros((LANES, 7, 7, 3), jnp.uint8)
    return Timestep(blank, jnp.zeros(LANES), jnp.asarray(done), jnp.zeros(LANES, bool))


def handed_out(bank, patterns, refills):
    """Numbers of the levels in the order in which lanes got them, and the lanes after each round."""
    lanes, _ = stepper.reset(bank)
    given = [numbers()[name] for name in names_of(lanes.states)]
    yield list(given), lanes
    for done, times in zip(patterns, refills, strict=True):
        for _ in range(times):
            bank, place = refilled(bank, lanes.queue)
            lanes = eqx.tree_at(lambda all_: all_.queue, lanes, place)
        lanes, _ = restart(bank, lanes, lanes.states, ended(done))
        given += [numbers()[name_of(lanes.states, lane)] for lane in np.flatnonzero(done)]
        yield list(given), lanes


def part_of(levels, start: int, stop: int):
    return jax.tree.map(lambda array: array[start:stop], levels)


@pytest.mark.parametrize(("start", "count"), [(0, 1), (5, 3), (0, 8), (3, 20), (17, 2)])
def test_numbered_levels_are_the_same_however_they_are_asked_for(start, count):
    everything = numbered_levels(env, SEED, 0, 40)
    assert eqx.tree_equal(numbered_levels(env, SEED, start, count), part_of(everything, start, start + count))


def test_a_real_task_numbers_its_levels_across_chunks_without_gap():
    rooms = make("MiniGrid-MultiRoom-N2-S4-v0")
    everything = numbered_levels(rooms, 0, 0, 600)
    chunks = [rooms.generator.chunk_size, 2 * rooms.generator.chunk_size]
    for border in chunks:
        across = numbered_levels(rooms, 0, border - 2, 5)
        assert eqx.tree_equal(across, part_of(everything, border - 2, border + 3))


def test_levels_of_different_seeds_differ():
    one, other = (set(names_of(numbered_levels(env, seed, 0, 20))) for seed in (0, 1))
    assert not one & other


def test_a_new_bank_holds_the_first_levels_and_their_views():
    bank = make_bank(env, SEED, capacity=CAPACITY)
    assert bank.capacity == CAPACITY
    fresh = int(bank.fresh)
    assert CAPACITY - CHUNK < fresh < CAPACITY
    assert eqx.tree_equal(part_of(bank.levels, 0, fresh), numbered_levels(env, SEED, 0, fresh))
    # What is still blank repeats the first ones: no lane ever starts in a hole.
    assert set(names_of(part_of(bank.levels, fresh, CAPACITY))) <= set(
        names_of(part_of(bank.levels, 0, fresh))
    )
    np.testing.assert_array_equal(bank.views, first_views(bank.levels))


def test_a_bank_is_never_too_small_for_two_chunks():
    assert make_bank(env, SEED, capacity=1).capacity == 2 * CHUNK


@pytest.mark.parametrize("luck", range(3))
def test_lanes_get_the_numbered_levels_in_order_none_lost_and_none_twice(luck):
    rng = np.random.default_rng(luck)
    bank = make_bank(env, SEED, capacity=CAPACITY)
    rounds = handed_out(bank, rng.random((25, LANES)) < 0.4, [2] * 25)
    for given, lanes in rounds:
        assert given == list(range(len(given)))
        assert (int(lanes.queue.taken), int(lanes.queue.repeated)) == (len(given), 0)
        assert int(lanes.queue.distinct) == len(given)
    assert len(given) > 25


@pytest.mark.parametrize("luck", range(3))
def test_a_bank_that_runs_dry_repeats_levels_and_counts_exactly_how_many(luck):
    rng = np.random.default_rng(luck)
    bank = make_bank(env, SEED, capacity=CAPACITY)
    refills = rng.random(40) < 0.3
    for given, lanes in handed_out(bank, rng.random((40, LANES)) < 0.6, refills.astype(int)):
        assert int(lanes.queue.taken) == len(given)
        assert int(lanes.queue.distinct) == len(set(given))
        assert int(lanes.queue.repeated) == len(given) - len(set(given))
        # However often levels come back, new ones still come in order.
        assert list(dict.fromkeys(given)) == list(range(len(set(given))))
    assert len(set(given)) < len(given)
    assert len(set(given)) > 15


def test_without_refills_the_bank_goes_round_and_round():
    bank = make_bank(env, SEED, capacity=CAPACITY)
    fresh = int(bank.fresh)
    *_, (given, lanes) = handed_out(bank, np.ones((10, LANES), bool), [0] * 10)
    ring = [numbers()[name] for name in names_of(bank.levels)]
    assert given == [ring[turn % CAPACITY] for turn in range(33)]
    assert int(lanes.queue.distinct) == fresh


def test_a_full_bank_is_not_refilled_and_its_next_levels_are_not_skipped():
    bank = make_bank(env, SEED, capacity=CAPACITY)
    lanes, _ = Stepper(env, 1).reset(bank)
    while int(lanes.queue.fresh) + CHUNK <= CAPACITY:
        bank, place = refilled(bank, lanes.queue)
        lanes = eqx.tree_at(lambda all_: all_.queue, lanes, place)
    again, place = refilled(bank, lanes.queue)
    assert eqx.tree_equal(again, bank)
    assert eqx.tree_equal(place, lanes.queue)


def test_only_lanes_that_ended_get_a_new_level():
    bank = make_bank(env, SEED, capacity=CAPACITY)
    lanes, _ = stepper.reset(bank)
    before = names_of(lanes.states)
    after, _ = restart(bank, lanes, lanes.states, ended([False, True, False]))
    assert [numbers()[name] for name in names_of(after.states)] == [0, 3, 2]
    assert [one == other for one, other in zip(before, names_of(after.states), strict=True)] == [
        True,
        False,
        True,
    ]


def test_a_fixed_set_is_handed_out_in_turn_for_ever():
    bank = fixed_levels(env, SEED, 5, start=2)
    rounds = handed_out(bank, np.ones((6, LANES), bool), [1] * 6)
    *_, (given, lanes) = rounds
    assert given == [2 + turn % 5 for turn in range(21)]
    assert (int(lanes.queue.taken), int(lanes.queue.distinct)) == (21, 5)


def test_a_singleton_gives_every_lane_the_same_level_every_time():
    bank = fixed_levels(env, SEED, 1)
    *_, (given, lanes) = handed_out(bank, np.ones((3, LANES), bool), [0] * 3)
    assert set(given) == {0}
    assert (int(lanes.queue.distinct), int(lanes.queue.repeated)) == (1, 11)


def test_a_fixed_set_is_never_refilled():
    bank = fixed_levels(env, SEED, 5)
    lanes, _ = stepper.reset(bank)
    again, place = refill(env, bank, lanes.queue)
    assert eqx.tree_equal(again, bank)
    assert eqx.tree_equal(place, lanes.queue)
    np.testing.assert_array_equal(bank.views, first_views(bank.levels))


def test_levels_to_train_on_and_levels_to_evaluate_on_are_different_ones():
    train, evaluate = fixed_levels(env, SEED, 6), fixed_levels(env, SEED, 7, start=6)
    trained, evaluated = ([numbers()[name] for name in names_of(bank.levels)] for bank in (train, evaluate))
    assert trained == list(range(6))
    assert evaluated == list(range(6, 13))


@pytest.mark.parametrize(("count", "start"), [(0, 0), (-1, 0), (3, -1)])
def test_a_set_of_no_levels_or_of_negative_numbers_is_refused(count, start):
    with pytest.raises(GobiError, match=f"{count} and {start}"):
        fixed_levels(env, SEED, count, start)


@pytest.mark.parametrize(("start", "count"), [(0, 0), (-2, 5)])
def test_no_levels_and_levels_before_the_first_cannot_be_asked_for(start, count):
    with pytest.raises(GobiError):
        numbered_levels(env, SEED, start, count)


def test_a_seed_that_is_too_large_is_refused_in_words():
    with pytest.raises(GobiError, match="2147483648"):
        make_bank(env, 2**31)


@pytest.mark.parametrize("ask", [lambda env: make_bank(env, 0), lambda env: numbered_levels(env, 0, 0, 1)])
def test_rooms_that_never_fit_are_given_up(ask):
    crowded = make(MultiRoom(rooms=7, max_size=4, side=8))
    with pytest.raises(GobiError, match="no level came through in 100 chunks"):
        ask(crowded)


def test_two_seeds_side_by_side_go_as_each_goes_alone():
    def rollout(bank, actions):
        lanes, _ = stepper.reset(bank)

        def update(carry, actions):
            bank, lanes = carry
            lanes, step = stepper.step(bank, lanes, actions)
            # Nobody solves a task in four steps: end the first lane's episode so that levels are used up.
            lanes, _ = stepper.restart(bank, lanes, lanes.states, ended([True, False, False]))
            bank, place = refill(env, bank, lanes.queue)
            return (bank, eqx.tree_at(lambda all_: all_.queue, lanes, place)), step

        return jax.lax.scan(update, (bank, lanes), actions)

    banks = [make_bank(env, seed, capacity=CAPACITY) for seed in (1, 2)]
    both = jax.tree.map(lambda *arrays: jnp.stack(arrays), *banks)
    actions = jax.random.randint(jax.random.key(0), (2, 12, LANES), 0, 7)
    together = jax.jit(jax.vmap(rollout))(both, actions)
    alone = jax.jit(rollout)
    for number in range(2):
        assert eqx.tree_equal(
            jax.tree.map(lambda array, n=number: array[n], together), alone(banks[number], actions[number])
        )
    assert (np.asarray(together[0][1].queue.taken) == 15).all()
