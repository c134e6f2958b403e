"""Every grid model can learn, draws what it should, and answers the same calls."""

from __future__ import annotations

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.errors import GobiError
from gobi.networks import symbols
from gobi.worlds import build, train
from gobi.worlds.copies import SOURCES, copied, most_likely, sources
from gobi.worlds.copying import GATE_SCALE, painter
from gobi.worlds.erasure import erased
from gobi.worlds.network import FRONT, accuracy
from gobi.worlds.pretraining import targets

KINDS = ("copying", "written", "coded", "generative")
key = jax.random.key(0)


def predicted(network, data, noise=1.0, seed=0):
    keys = jax.random.split(jax.random.key(seed), len(data))

    @jax.jit
    def run(network, panorama, action):
        return network.predict(network.encode(panorama), action[:, None], keys, jnp.full(1, noise))[:, 0]

    return run(network, jnp.asarray(data.panorama), jnp.asarray(data.action))


@functools.cache
def built(kind, predicts="view", noise="none", size="compact"):
    return build(kind, size, predicts, noise=noise, key=key)


EPOCHS = {"copying": 60, "written": 700, "coded": 400, "generative": 80}


@pytest.mark.parametrize(("kind", "size"), [*((kind, "compact") for kind in KINDS), ("copying", "narrow")])
def test_each_kind_learns_a_few_transitions_by_heart(kind, size, play):
    few = play[:24]
    network = train(built(kind, size=size), few, key, epochs=EPOCHS[kind], learning_rate=2e-3)
    exact, _ = accuracy(predicted(network, few, noise=0.0), targets(network, few))
    assert exact.mean() >= 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_can_predict_whole_panoramas_and_be_built_again_from_its_settings(kind, play):
    network = built(kind, predicts="panorama")
    shown = predicted(network, play[:3])
    assert shown.shape == (3, 4, 7, 7, 3)
    assert (shown <= jnp.array(symbols.CLASSES) - 1).all()
    again = build(**dataclasses.asdict(network.settings), key=key)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), network, again))


@pytest.mark.parametrize("kind", ["copying", "written", "coded"])
def test_without_noise_predictions_do_not_depend_on_the_key(kind, play):
    network = built(kind)
    np.testing.assert_array_equal(predicted(network, play[:20]), predicted(network, play[:20], seed=1))


def test_the_coded_noise_changes_predictions_unless_it_is_scaled_to_nothing(play):
    network = built("coded", noise="coded")
    assert (predicted(network, play[:20]) != predicted(network, play[:20], seed=1)).any()
    np.testing.assert_array_equal(
        predicted(network, play[:20], noise=0.0), predicted(network, play[:20], noise=0.0, seed=1)
    )


def test_the_coded_latent_has_a_standard_deviation_of_at_least_one(play):
    network = built("coded", noise="coded")
    panorama, action = jnp.asarray(play.panorama[:1]), jnp.zeros((1, 1), jnp.int32)
    hidden = network.hidden(jax.nn.relu(network.encode(panorama)[:, None] + network.joint.rows(action)))
    log_variance = jax.nn.relu(hidden)[..., 64:]
    assert (jnp.exp(log_variance / 2) >= 1).all()


@pytest.mark.parametrize(("kind", "first"), [("written", 1024), ("coded", 8192)])
def test_the_papers_size_has_the_papers_widths(kind, first):
    network = jax.eval_shape(lambda: build(kind, "paper", key=jax.random.key(0)))
    assert [layer.linear.weight.shape[1] for layer in network.extractor.convolutions] == [32, 128, 512]
    assert network.joint.features.weight.shape[0] == first
    if kind == "written":
        assert network.all_views.weight.shape == (4 * 1024, 1024)
        assert (network.hidden.weight.shape, network.output.weight.shape) == ((256, 512), (512, 147))
    else:
        assert network.hidden.weight.shape == (1024, 1024)
        assert [last.weight.shape for _, _, last in network.decoders] == [(512, 49 * c) for c in (11, 6, 3)]
        assert network.decoders[0][0].weight.shape == (516, 256)


def test_a_turn_can_be_copied_from_the_side_views(play):
    """With the gates set by hand to the view on the left, every turn to the left is predicted."""
    left = play[np.flatnonzero(play.action == 0)]
    gates = jnp.zeros((SOURCES, 49, 1, len(left))).at[2].set(1.0)
    cells = sources(jnp.asarray(left.panorama), views=1)
    views = most_likely(jnp.zeros((20, 49, 1, len(left))), cells, gates)
    np.testing.assert_array_equal(views[:, :, 0].T.reshape(-1, 7, 7, 3), left.after[:, FRONT])


def test_the_most_likely_cells_are_the_arg_max_of_all_logits(play):
    few = play[:16]
    keys = jax.random.split(jax.random.key(3))
    drawn = jax.random.normal(keys[0], (20, 49, 2, 16))
    gates = jax.random.normal(keys[1], (SOURCES, 49, 2, 16))
    cells = sources(jnp.asarray(few.panorama), views=1)
    logits = jnp.moveaxis(drawn + copied(cells, gates), 0, -1)
    best = jnp.moveaxis(most_likely(drawn, cells, gates), 0, -1)
    np.testing.assert_array_equal(best, symbols.most_likely(logits))


def test_neighbours_are_sources_in_the_view_itself():
    panorama = np.zeros((1, 4, 7, 7, 3), np.uint8)
    panorama[0, FRONT, 3, 5] = [4, 2, 1]
    found = np.asarray(sources(jnp.asarray(panorama), views=4))[..., 0].reshape(3, SOURCES, 4, 7, 7)
    found = np.moveaxis(found, (0, 1), (-1, -2))
    ahead = 6
    assert found[FRONT, 3, 6, ahead].tolist() == [4, 2, 1]
    assert found[0, 3, 5, FRONT].tolist() == [4, 2, 1]
    assert not found[0, 3, 6, ahead].any()


@pytest.mark.parametrize("paints", [None, 5])
def test_one_product_paints_what_the_layers_say_one_by_one(paints, play):
    few, views = play[:6], 4
    actions = jnp.array([[0, 6, 3]] * 6).at[1].set(jnp.array([5, 5, 2]))
    made = jax.jit(lambda: painter(key, 16, views, paints))()
    random = jax.random.normal(key, made.by_action.shape)
    made = eqx.tree_at(lambda m: (m.by_action, m.gates.bias), made, (random, random[0]))
    features = jax.random.normal(jax.random.key(1), (6, 3, 16))
    cells = sources(jnp.asarray(few.panorama), views)

    drawn = made.draw(features).reshape(6, 3, -1, views * 49)
    if made.palette is not None:
        drawn = jnp.einsum("napc,pk->nakc", drawn, made.palette)
    gates = GATE_SCALE * (made.gates(features) + made.by_action[actions])
    gates = jnp.transpose(gates.reshape(6, 3, SOURCES, -1), (2, 3, 1, 0))
    logits = jnp.moveaxis(drawn, -1, -2) + jnp.transpose(copied(cells, gates), (3, 2, 1, 0))
    np.testing.assert_allclose(made(features, actions, cells), logits, atol=1e-3)
    best = symbols.legal(symbols.most_likely(logits))
    assert (made.best(features, actions, cells) == best).mean() > 0.999


def test_the_narrow_model_of_a_view_reads_the_view_ahead_and_copies_from_the_others(play):
    network, rest = built("copying", size="narrow"), jnp.asarray(play.panorama[:8])
    blank = rest.at[:, :FRONT].set(0)
    np.testing.assert_array_equal(network.encode(rest).features, network.encode(blank).features)
    assert (network.encode(rest).cells != network.encode(blank).cells).any()
    whole = built("copying", size="narrow", predicts="panorama")
    assert (whole.encode(rest).features != whole.encode(blank).features).any()


@pytest.mark.parametrize("erase", [True, "lying"])
def test_what_is_erased_in_targets_cannot_be_copied_and_is_still_read(erase):
    """A turn brings up a view as it is hashed: nothing has to be drawn over what lies there."""
    panorama = jax.random.randint(key, (8, 4, 7, 7, 3), 0, np.array(symbols.CLASSES)).astype(jnp.uint8)
    network, plain = (build("copying", "narrow", erase=erase, key=key) for erase in (erase, False))
    gone = plain.encode(erased(panorama, erase))
    np.testing.assert_array_equal(network.encode(panorama).cells, gone.cells)
    np.testing.assert_array_equal(network.encode(panorama).features, plain.encode(panorama).features)
    assert (network.encode(panorama).features != gone.features).any()
    assert (network.encode(panorama).cells != plain.encode(panorama).cells).any()


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_still_draws_legal_views_and_gives_float32_losses(kind, play):
    network = jax.tree.map(lambda array: array.astype(jnp.bfloat16), built(kind))
    few = play[:4]
    assert predicted(network, few).dtype == jnp.uint8
    rows = jnp.asarray(few.panorama), jnp.asarray(few.action), targets(network, few)
    loss = jax.jit(lambda network: network.loss(*rows, key))(network)
    assert loss.dtype == jnp.float32
    assert jnp.isfinite(loss).all()


@pytest.mark.parametrize(
    "options",
    [{"kind": "magic"}, {"size": "huge"}, {"inputs": "pixels"}, {"noise": "coded"}, {"predicts": "all"}],
)
def test_unknown_settings_are_refused(options):
    with pytest.raises(GobiError):
        build(**options, key=key)
