"""Random play is collected, freed of duplicates, learned from, and the result reported."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.minigrid import DoorKey, make
from gobi.errors import GobiError
from gobi.worlds import build, collect, distinct, picture, report, train
from gobi.worlds.network import FRONT, Network, Settings
from gobi.worlds.pretraining import targets

key = jax.random.key(0)
RIGHT, BACK, LEFT = range(3)


class Turning(Network):
    """Knows that a turn brings up the view to the side, and believes that nothing else changes anything."""

    settings: Settings = eqx.field(static=True, default=Settings())

    @property
    def stochastic(self):
        return False

    def encode(self, panorama):
        return panorama

    def predict(self, encoded, actions, keys, noise):
        view = jnp.array([LEFT, RIGHT, FRONT, FRONT, FRONT, FRONT, FRONT])[actions[:, 0]]
        return encoded[jnp.arange(len(view)), view][:, None, None]

    def loss(self, panorama, action, target, key):
        return jnp.full(len(action), 2.0)


def test_exactly_as_many_transitions_are_collected_as_asked_for(two_steps):
    data = collect(two_steps, key, transitions=10, num_envs=4)
    assert len(data) == 10
    # Steps 1, 3, 5 of four lanes; steps 2 and 4 ended their episodes; of step 5 two lanes were enough.
    assert data.frames == 4 * 4 + 2


def test_no_collected_transition_ends_an_episode(two_steps):
    data = collect(two_steps, key, transitions=300, num_envs=4)
    done = data.action == 6
    assert done.any()
    # A step across an episode's end would show another level after an action that changes nothing.
    np.testing.assert_array_equal(data.panorama[done], data.after[done])


def test_actions_and_panoramas_belong_together(play):
    for action, side in ((0, LEFT), (1, RIGHT)):
        rows = play.action == action
        np.testing.assert_array_equal(play.after[rows, FRONT], play.panorama[rows, side])
        np.testing.assert_array_equal(
            play.after[rows, BACK], play.panorama[rows, RIGHT if side == LEFT else LEFT]
        )
    moved = play.action == 2
    assert (play.after[moved] != play.panorama[moved]).any()


def test_random_play_takes_all_actions_about_equally_often(play):
    share = np.bincount(play.action, minlength=7) / len(play)
    np.testing.assert_allclose(share, 1 / 7, atol=0.03)


def test_another_key_means_other_levels(play):
    other = collect(make("MiniGrid-KeyCorridorS3R3-v0"), jax.random.key(6), 2_000, num_envs=16)
    again = collect(make("MiniGrid-KeyCorridorS3R3-v0"), jax.random.key(5), 2_000, num_envs=16)
    np.testing.assert_array_equal(again.panorama, play.panorama)
    assert (other.panorama != play.panorama).any()


def test_of_equal_panoramas_and_actions_the_first_is_kept(play):
    rows = np.random.default_rng(0).integers(0, 500, 1_500)
    data = play[rows]
    data = dataclasses.replace(
        data, after=np.arange(1_500, dtype=np.uint8)[:, None, None, None, None] + 0 * data.after
    )
    first = {}
    for number in range(len(data)):
        first.setdefault((data.panorama[number].tobytes(), int(data.action[number])), number)
    kept = distinct(data)
    np.testing.assert_array_equal(kept.after, data.after[list(first.values())])
    assert len(kept) == len(first) < 500


def test_without_turning_only_the_views_straight_ahead_are_left(play):
    blank = play.without_turning()
    for name in ("panorama", "after"):
        views, before = getattr(blank, name), getattr(play, name)
        np.testing.assert_array_equal(views[:, FRONT], before[:, FRONT])
        assert not views[:, :FRONT].any()
        assert before[:, :FRONT].any()
    assert (blank.frames, len(blank)) == (play.frames, len(play))
    assert len(distinct(blank)) < len(distinct(play))


def test_a_task_in_which_every_step_is_the_last_is_refused():
    class OneStep(DoorKey):
        @property
        def max_steps(self) -> int:
            return 1

    with pytest.raises(GobiError, match="every step ends"):
        collect(make(OneStep(5)), key, 10)


def test_training_lowers_the_loss_and_leaves_the_given_network_alone(play):
    network = build(key=key)
    before = np.array(network.trunk.hidden.weight)
    losses = []
    trained = train(network, play, key, epochs=3, progress=lambda *said: losses.append(said))
    np.testing.assert_array_equal(network.trunk.hidden.weight, before)
    assert (np.asarray(trained.trunk.hidden.weight) != before).any()
    assert [number for number, _, _ in losses] == [1, 2, 3]
    assert losses[-1][2] < 0.5 * losses[0][2]


def test_a_report_counts_exact_views_and_cells_for_each_action(play):
    found = report(Turning(), play, key, training_data=play[:1_000])
    rows = {row.action: row for row in found.actions}
    assert rows["left"].exact == rows["right"].exact == rows["done"].exact == 1.0
    assert rows["left"].changing_exact == 1.0
    forward = play.action == 2
    same = (play.panorama[forward, FRONT] == play.after[forward, FRONT]).all(-1)
    assert rows["forward"].rows == forward.sum()
    assert rows["forward"].exact == pytest.approx(same.all((1, 2)).mean())
    assert rows["forward"].cells == pytest.approx(same.mean(), abs=1e-6)
    assert rows["forward"].changing == (~same.all((1, 2))).sum()
    assert rows["forward"].changing_exact == 0.0
    assert rows["done"].changing == 0
    assert np.isnan(rows["done"].changing_exact)
    assert found.total.rows == len(play)
    assert found.loss == 2.0
    assert np.isnan(found.bound)
    assert 0 < found.unseen < 0.5
    assert "forward" in found.table()


def test_a_generative_model_reports_a_bound_below_zero(play):
    found = report(build("generative", key=key), play[:20], key)
    assert found.bound < 0
    assert "nats per view" in found.table()


def test_erased_targets_hold_no_movable_object(play):
    network = Turning()
    assert np.isin(np.asarray(targets(network, play))[..., 0], [5, 6, 7]).any()
    assert not np.isin(np.asarray(targets(network, play, erase=True))[..., 0], [5, 6, 7]).any()


def test_a_picture_of_predicted_and_real_views_is_written(play, tmp_path):
    path = tmp_path / "pictures" / "views.png"
    picture(path, Turning(), play, key, count=4)
    assert path.read_bytes()[1:4] == b"PNG"


def test_a_picture_needs_a_name_that_ends_in_png_and_a_move_that_changes_something(play, tmp_path):
    with pytest.raises(GobiError, match=r"\.png"):
        picture(tmp_path / "views.jpg", Turning(), play, key)
    still = play[np.flatnonzero(play.action == 6)]
    with pytest.raises(GobiError, match="nothing to draw"):
        picture(tmp_path / "views.png", Turning(), still, key)
