"""GoBI on control tasks is a product, and all rewards are found by their names."""

from __future__ import annotations

import control_play
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control_play import PICTURES, VECTORS, Table

from gobi.agents.rad.replay import Sequences
from gobi.errors import GobiError
from gobi.rewards.control import ICM, RE3, RND, GoBI, Lessons, Nothing, Reachability, Replayed, registry
from gobi.worlds import StateModel

SLOTS = 64


@pytest.fixture(scope="module")
def played():
    """A GoBI with RE3, its state and its replay, after some play."""
    reward = GoBI(Table(), RE3(capacity=SLOTS), untrained="imagine")
    return reward, *control_play.filled(reward, PICTURES, SLOTS, 100, same=True)


def test_gobi_is_the_stored_growth_times_what_the_lifelong_factor_pays_at_sampling(played):
    reward, state, replay = played
    batch = replay.sample(jax.random.key(1), 24)
    growth = np.asarray(batch.stored)
    assert growth.min() == 0
    assert growth.max() >= 2

    # The frames are five; so that there is a distance to be paid for, the features are not.
    rows = jax.random.normal(jax.random.key(5), state[1].features.rows.shape)
    state = eqx.tree_at(lambda s: s[1].features.rows, state, rows)
    after, bonus, logged = jax.jit(reward.at_sampling)(state, jax.random.key(2), batch.stored, batch)
    lifelong, alone, _ = jax.jit(reward.lifelong.at_sampling)(
        state[1], jax.random.key(9), batch.stored, batch
    )
    assert np.all(np.asarray(alone) > 0)
    np.testing.assert_allclose(bonus, growth * np.asarray(alone), rtol=1e-5)
    np.testing.assert_allclose(after[1].running.variance, lifelong.running.variance, rtol=1e-5)
    assert set(reward.logs) <= set(logged)
    np.testing.assert_allclose(logged["growth"], growth.mean(), rtol=1e-6)


def test_a_product_may_be_divided_by_its_own_running_deviation(played):
    """Which is that of all products that were ever sampled, worked out by NumPy."""
    reward, state, replay = played
    whole = Replayed(reward.episodic, reward.lifelong, normalised="product")
    assert set(whole.logs) - set(reward.logs) == {"gobi/spread"}
    rows = jax.random.normal(jax.random.key(5), state[1].features.rows.shape)
    state = eqx.tree_at(lambda s: s[1].features.rows, state, rows)
    began = jax.eval_shape(lambda: whole.init(jax.random.key(0), PICTURES))[2]
    spread = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), began)
    plain, scaled = state, (*state, spread)
    products = []
    for number in range(3):
        batch = replay.sample(jax.random.key(number), 24)
        args = jax.random.key(9), batch.stored, batch
        plain, bonus, _ = jax.jit(reward.at_sampling)(plain, *args)
        scaled, paid, logged = jax.jit(whole.at_sampling)(scaled, *args)
        products.append(np.asarray(bonus, np.float64))
        deviation = np.concatenate(products).std()
        np.testing.assert_allclose(logged["gobi/spread"], deviation, rtol=1e-4)
        np.testing.assert_allclose(paid, products[-1] / deviation, rtol=1e-4)
    assert jax.tree.structure(scaled[:2]) == jax.tree.structure(plain)


def test_gobi_stores_what_its_episodic_factor_alone_stores(played):
    _, _, replay = played
    alone = control_play.filled(Reachability(Table(), untrained="imagine"), PICTURES, SLOTS, 100, same=True)[
        1
    ]
    there = np.asarray(played[1][1].features.there)
    # With other hyperplanes some codes may meet; these do not.
    np.testing.assert_array_equal(replay.stored[there], alone.stored[there])


def test_gobi_with_no_lifelong_factor_is_r1(played):
    _, state, replay = played
    batch = replay.sample(jax.random.key(1), 24)
    reward = Replayed(Reachability(Table()), Nothing())
    _, bonus, _ = jax.jit(reward.at_sampling)((state[0], ()), jax.random.key(2), batch.stored, batch)
    np.testing.assert_array_equal(bonus, batch.stored)


def test_the_world_has_the_lessons():
    reward = GoBI(Table(), schedule=Lessons(every=7))
    assert reward.lessons == Lessons(every=7)
    assert RE3().lessons is None
    state = (jax.jit(reward.episodic.init, static_argnums=1)(jax.random.key(0), PICTURES), "as it was")
    frames = jnp.zeros((1, 3, 20, 20, 3), jnp.uint8)
    lesson = Sequences(frames, jnp.zeros((1, 3, 2)), jnp.zeros((1, 3)))
    state, logged = reward.learn(state, jax.random.key(0), lesson)
    assert int(state[0].world.learned) == 1
    assert state[1] == "as it was"
    assert "world/loss" in logged


@pytest.mark.parametrize("name", ["none", "re3", "icm", "rnd", "r1", "gobi"])
def test_every_reward_takes_state_vectors(name):
    small = {"icm": {"hidden": 16}, "rnd": {"hidden": 16}}
    world = StateModel(4, 2, units=8) if registry.find(name).imagines else None
    reward = registry.build(name, small.get(name), world=world, slots=SLOTS)
    state, replay = control_play.filled(reward, VECTORS, SLOTS, 30)
    batch = replay.sample(jax.random.key(1), 16)
    _, bonus, _ = jax.jit(reward.at_sampling)(state, jax.random.key(2), batch.stored, batch)
    assert bonus.shape == (16,)
    # Growth is 0 where a state has the code of one before it.
    paid = {"none": 0, "r1": len(np.flatnonzero(batch.stored)), "gobi": len(np.flatnonzero(batch.stored))}
    assert np.sum(np.asarray(bonus) > 0) == paid.get(name, 16)
    assert np.all(np.asarray(bonus) >= 0)
    assert name not in ("r1", "gobi") or paid[name] > 0


@pytest.mark.parametrize("name", ["gobi", "r1"])
def test_rewards_that_imagine_need_a_world_and_from_the_state_no_options_of_pictures(name):
    registry.check_observations(name, "bits=3,scaling=half", "state")
    registry.check_observations(name, "scaling=centred", "pixels")
    with pytest.raises(GobiError, match="the option scaling=centred is for pictures"):
        registry.check_observations(name, "scaling=centred", "state")
    with pytest.raises(GobiError, match="needs a world model"):
        registry.build(name)


def test_names_build_what_they_say():
    built = registry.build(
        "gobi",
        {"credit": "departure", "bits": 32},
        lifelong="rnd",
        lifelong_chosen={"norm": "plain"},
        world=Table(),
        slots=77,
        lessons=Lessons(every=9),
    )
    episodic = Reachability(Table(), credit="departure", bits=32, schedule=Lessons(every=9))
    assert built == Replayed(episodic, RND(norm="plain", capacity=77))
    assert registry.build("gobi", world=Table(), slots=88) == GoBI(Table(), RE3(capacity=88))
    assert registry.build("r1", world=Table()) == Reachability(Table())
    assert registry.build("re3", {"k": 5}, slots=99) == RE3(k=5, capacity=99)
    assert registry.build("icm", {"units": 9}, slots=99) == ICM(units=9)
    assert list(registry.REWARDS) == ["none", "gobi", "r1", "re3", "icm", "rnd"]


def test_options_are_read_from_words():
    assert registry.options("re3", "k=5,form=log, statistics=welford") == {
        "k": 5,
        "form": "log",
        "statistics": "welford",
    }
    assert registry.options("gobi", "scaling=raw,bits=32") == {"scaling": "raw", "bits": 32}
    assert registry.options("icm", "normalise=no,rate=2e-4") == {"normalise": False, "rate": 2e-4}
    assert registry.options("rnd", "") == {}
    assert registry.factor_options("rnd", "norm=plain") == {"norm": "plain"}
    assert set(registry.defaults("r1")) == {"credit", "codes", "bits", "scaling", "untrained"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("re4", "", "unknown reward for control tasks 're4'; did you mean re3"),
        ("re3", "k", "options are written as NAME=VALUE"),
        ("re3", "n=3", "unknown option of re3 'n'"),
        ("re3", "capacity=5", "unknown option of re3 'capacity'"),
        ("re3", "form=root", "form must be one of over_std, log, got 'root'"),
        ("re3", "k=0", "k and units must be at least 1"),
        ("gobi", "bits=0", "at least 1 bit"),
        ("none", "k=3", "the reward 'none' has no options"),
    ],
)
def test_words_that_mean_nothing_are_refused(name, text, message):
    with pytest.raises(GobiError, match=message):
        registry.options(name, text)


def test_only_a_bonus_at_sampling_can_be_the_lifelong_factor():
    with pytest.raises(GobiError, match="must be one of re3, icm, rnd, got 'r1'"):
        registry.factor_options("r1", "")
    with pytest.raises(GobiError, match="must be one of re3, icm, rnd, got 'gobi'"):
        registry.build("gobi", lifelong="gobi", world=Table())


def test_coefficients_and_decays_are_those_of_re3():
    table = {
        "dmc/pendulum_swingup": (0.25, 1e-5),
        "dmc/hopper_hop": (0.05, 1e-5),
        "dmc/walker_run_sparse": (0.05, 2.5e-5),
        "dmc/cheetah_run_sparse": (0.05, 1e-5),
        "dmc/cartpole_swingup_sparse": (0.05, 1e-5),
    }
    found = {task: (registry.coefficient("gobi", task), registry.decay("gobi", task)) for task in table}
    assert found == table
