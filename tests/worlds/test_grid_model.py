"""The grid model as a world: what it imagines, and how it learns along with a run."""

from __future__ import annotations

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import make
from gobi.errors import GobiError
from gobi.types import Transition
from gobi.worlds import GridModel, build
from gobi.worlds.network import FRONT, Network, Settings

key = jax.random.key(0)
spec = make("MiniGrid-KeyCorridorS3R3-v0").spec


class Still(Network):
    """Predicts that nothing will change."""

    settings: Settings = eqx.field(static=True, default=Settings())

    @property
    def stochastic(self):
        return False

    def encode(self, panorama):
        return panorama

    def predict(self, encoded, actions, keys, noise):
        shown = encoded if self.views == 4 else encoded[:, FRONT:]
        return jnp.repeat(shown[:, None], actions.shape[1], axis=1)

    def loss(self, panorama, action, target, key):
        return jnp.zeros(len(action))


@functools.cache
def network(kind="copying", predicts="view", noise="none"):
    return build(kind, predicts=predicts, noise=noise, key=key)


@functools.partial(jax.jit, static_argnums=4)
def _imagine(world, ws, keys, panorama, rows=None):
    imagined, valid = world.imagine(ws, keys[:rows], {"panorama": panorama[:rows]})
    return imagined, valid


def imagine(world, play, rows=8, seed=0, ws=()):
    keys = jax.random.split(jax.random.key(seed), 8)
    return _imagine(world, ws, keys, jnp.asarray(play.panorama[:8]), rows)


@jax.jit
def learn(world, ws, key, rollout):
    return world.learn(ws, key, rollout)


def test_every_action_has_its_prediction(play):
    world = GridModel(network())
    imagined, valid = imagine(world, play)
    assert imagined.shape == (8, world.predictions, 7, 7, 3) == (8, 6, 7, 7, 3)
    assert valid.all()
    for action in (2, 0):
        alone, _ = imagine(GridModel(network(), actions=(action,)), play)
        np.testing.assert_array_equal(imagined[:, action], alone[:, 0])
    assert (imagined[:, 2] != imagined[:, 0]).any()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("copying", {"predicts": "panorama", "steps": 2}),
        ("coded", {"noise": "coded"}),
        ("generative", {"samples": 2, "sampled": 3}),
    ],
)
def test_what_a_row_imagines_does_not_depend_on_the_rows_beside_it(kind, options, play):
    made = network(kind, options.pop("predicts", "view"), options.pop("noise", "none"))
    world = GridModel(made, **options)
    together, _ = imagine(world, play, rows=8)
    fewer, _ = imagine(world, play, rows=3)
    np.testing.assert_array_equal(together[:3], fewer)


def test_several_steps_follow_the_chain_of_predicted_panoramas(play):
    settings = Settings(predicts="panorama")
    world = GridModel(Still(settings), steps=3)
    imagined, valid = imagine(world, play)
    assert imagined.shape[1] == valid.shape[1] == world.predictions == 18
    np.testing.assert_array_equal(imagined, np.repeat(play.panorama[:8, None, FRONT], 18, axis=1))


def test_the_first_step_of_a_chain_is_what_one_step_alone_imagines(play):
    made = network(predicts="panorama")
    chain, _ = imagine(GridModel(made, steps=2), play)
    single, _ = imagine(GridModel(made), play)
    np.testing.assert_array_equal(chain[:, :6], single)


def test_sampled_actions_differ_between_rows_and_come_from_all_seven(play):
    world = GridModel(Still(), sampled=10)
    assert world.predictions == 10
    drawn = np.asarray(world._first_actions(jax.random.split(key, 200)))
    assert set(drawn.ravel()) == set(range(7))
    assert len({tuple(row) for row in drawn}) > 190


def test_the_first_of_several_samples_is_the_most_likely_future(play):
    world = GridModel(network("generative"), samples=3)
    one, _ = imagine(world, play, seed=0)
    other, _ = imagine(world, play, seed=1)
    np.testing.assert_array_equal(one[:, ::3], other[:, ::3])
    assert (one != other).any()


@pytest.mark.parametrize("mode", ["finetuned", "online"])
def test_learning_lowers_the_loss(mode, play, rollout_of):
    world = GridModel(network(), mode=mode, gradient_steps=10, learning_rate=2e-3)
    ws = world.init(jax.random.key(1), spec, 8)
    rollout = rollout_of(play, 20, 8)
    losses = []
    for number in range(6):
        ws, metrics = learn(world, ws, jax.random.fold_in(key, number), rollout)
        losses.append(float(metrics["world/loss"]))
    assert losses[-1] < 0.5 * losses[0]


def test_a_finetuned_model_starts_from_the_given_weights_and_an_online_one_does_not():
    weights = network().trunk.hidden.weight
    finetuned = GridModel(network(), mode="finetuned").init(key, spec, 8)
    online = GridModel(network(), mode="online").init(jax.random.key(7), spec, 8)
    np.testing.assert_array_equal(finetuned.network.trunk.hidden.weight, weights)
    assert not np.allclose(online.network.trunk.hidden.weight, weights)


def test_a_fixed_model_keeps_no_state_and_does_not_learn(play, rollout_of):
    world = GridModel(network())
    ws = world.init(key, spec, 8)
    assert jax.tree.leaves(ws) == []
    after, metrics = learn(world, ws, key, rollout_of(play, 20, 8))
    assert jax.tree.leaves(after) == []
    assert set(metrics) == {"world/loss", "world/exact", "world/cells"}


def test_the_measured_share_is_that_of_exactly_predicted_views(play, rollout_of):
    rollout = rollout_of(play, 30, 8)
    same = (play.panorama[:240, FRONT] == play.after[:240, FRONT]).all(-1)
    _, metrics = learn(GridModel(Still()), (), key, rollout)
    assert float(metrics["world/exact"]) == pytest.approx(same.all((1, 2)).mean())
    assert float(metrics["world/cells"]) == pytest.approx(same.mean())


def test_steps_that_end_an_episode_are_not_counted(play, rollout_of):
    changed = (play.panorama[:240, FRONT] != play.after[:240, FRONT]).any((1, 2, 3))
    rollout = rollout_of(play, 30, 8, done=changed.reshape(30, 8))
    _, metrics = learn(GridModel(Still()), (), key, rollout)
    assert float(metrics["world/exact"]) == 1.0
    # Of a view that changed some cells are right: they would count here if its row did.
    assert float(metrics["world/cells"]) == 1.0


def test_a_rollout_of_endings_alone_teaches_nothing(play, rollout_of):
    world = GridModel(network(), mode="finetuned")
    ws = world.init(key, spec, 8)
    rollout = rollout_of(play, 20, 8, done=np.ones((20, 8), bool))
    after, _ = learn(world, ws, key, rollout)
    np.testing.assert_array_equal(after.network.trunk.hidden.weight, ws.network.trunk.hidden.weight)


def test_erased_targets_hold_no_movable_object(play, rollout_of):
    rollout = rollout_of(play, 100, 8)
    targets = GridModel(Still(), erase_targets=True)._data(rollout).target
    assert np.isin(play.after[:800, FRONT, ..., 0], [5, 6, 7]).any()
    assert not np.isin(np.asarray(targets)[..., 0], [5, 6, 7]).any()


def test_seeds_are_an_axis_and_share_a_fixed_model(play, rollout_of):
    panorama = jnp.asarray(play.panorama[:8]).reshape(2, 4, 4, 7, 7, 3)
    keys = jax.random.split(key, 8).reshape(2, 4)
    world = GridModel(network())

    @jax.jit
    def over_seeds(world, keys, panorama):
        return jax.vmap(lambda k, p: world.imagine((), k, {"panorama": p})[0])(keys, panorama)

    together = over_seeds(world, keys, panorama)
    np.testing.assert_array_equal(together.reshape(8, 6, 7, 7, 3), imagine(world, play)[0])


def test_seeds_that_learn_have_networks_of_their_own(play, rollout_of):
    world = GridModel(network(), mode="online")
    keys = jax.random.split(key, 2)
    rollout = rollout_of(play, 20, 8)
    ws = jax.jit(jax.vmap(lambda k: world.init(k, spec, 8)))(keys)
    many, _ = jax.jit(jax.vmap(lambda w, k: world.learn(w, k, rollout)))(ws, keys)
    alone, _ = learn(world, world.init(keys[1], spec, 8), keys[1], rollout)
    np.testing.assert_allclose(
        many.network.trunk.hidden.weight[1], alone.network.trunk.hidden.weight, atol=1e-5
    )


def ahead(transitions) -> Transition:
    """The same with the agent's own view and nothing else to look at."""
    views = [{"observation": end["panorama"][:, :, FRONT]} for end in (transitions.before, transitions.after)]
    return eqx.tree_at(lambda t: (t.before, t.after), transitions, tuple(views))


def test_a_model_that_sees_the_view_alone_imagines_from_a_panorama_whose_other_cells_are_unseen(play):
    world = GridModel(network(), sees="view")
    assert world.reads == {"observation"}
    keys = jax.random.split(key, 8)
    seen = {"observation": jnp.asarray(play.panorama[:8, FRONT])}
    imagined, valid = jax.jit(lambda world: world.imagine((), keys, seen))(world)
    blank = np.array(play.panorama[:8])
    blank[:, :FRONT] = 0
    expected, _ = _imagine(GridModel(network()), (), keys, jnp.asarray(blank))
    np.testing.assert_array_equal(imagined, expected)
    assert valid.all()
    assert (imagined != imagine(GridModel(network()), play)[0]).any()


@pytest.mark.parametrize("mode", ["fixed", "finetuned", "online"])
def test_a_model_that_sees_the_view_alone_learns_and_is_measured_without_a_panorama(mode, play, rollout_of):
    around, alone = GridModel(network(), mode=mode), GridModel(network(), mode=mode, sees="view")
    rollout = rollout_of(play.without_turning(), 20, 8)
    expected = learn(around, around.init(key, spec, 8), key, rollout)
    for a, b in zip(
        jax.tree.leaves(learn(alone, alone.init(key, spec, 8), key, ahead(rollout))),
        jax.tree.leaves(expected),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "frozen"}, "mode"),
        ({"steps": 2}, "panorama"),
        ({"samples": 2}, "deterministic"),
        ({"actions": (9,)}, "0 .. 6"),
        ({"gradient_steps": 0}, "at least 1"),
        ({"sees": "front"}, "panorama, view, got 'front'"),
        ({"network": network(predicts="panorama"), "sees": "view"}, "cannot learn to predict panoramas"),
    ],
)
def test_impossible_worlds_are_refused(options, message):
    with pytest.raises(GobiError, match=message):
        GridModel(**{"network": network(), **options})
