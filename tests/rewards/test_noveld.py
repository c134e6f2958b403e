"""NovelD against a Python set and networks worked out with numpy."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

import equinox as eqx
import far_goal
import jax
import jax.numpy as jnp
import numpy as np
import numpy_networks
import pytest
from recordings import SPEC, STEPS, TASKS, compiled

from gobi.envs.minigrid import make
from gobi.errors import GobiError
from gobi.rewards.noveld import NovelD
from gobi.types import Transition

LANES = 3
SMALL = NovelD(network="small")


@pytest.fixture(scope="module")
def play(recorded) -> Transition:
    """Play with a key and a door, whole episodes of it, with the views that NovelD reads."""
    task = TASKS[1]
    env, full = make(task), recorded(task)
    grids = jax.vmap(jax.vmap(env.full_grid))
    views = [
        {"observation": seen["observation"], "full_grid": grids(seen["state"])}
        for seen in (full.before, full.after)
    ]
    return eqx.tree_at(lambda p: (p.before, p.after), full, tuple(views))


def begun(reward: NovelD, seed: int = 0):
    return _begun(reward.features, seed)


@functools.cache
def _begun(features: str, seed: int):
    reward = NovelD(features=features, network="small")
    return compiled(lambda key: reward.init(key, SPEC, LANES))(jax.random.key(seed))


@pytest.fixture(scope="module")
def paid(play) -> Callable[[NovelD], np.ndarray]:
    """What a reward pays for the play."""

    @functools.cache
    def bonuses(reward: NovelD) -> np.ndarray:
        _, bonus, _ = compiled(reward.rollout)(begun(reward), play)
        return np.asarray(bonus)

    return bonuses


def first_visits(play: Transition, counted: str, first_state: bool) -> np.ndarray:
    """Which steps lead to a state that is not in their episode's set."""
    before, after, done = (np.asarray(x) for x in (play.before[counted], play.after[counted], play.done))
    new = np.zeros(done.shape, bool)
    for lane in range(done.shape[1]):
        visited = None
        for t in range(len(done)):
            if visited is None:
                visited = {before[t, lane].tobytes()} if first_state else set()
            state = after[t, lane].tobytes()
            new[t, lane] = state not in visited
            visited.add(state)
            if done[t, lane]:
                visited = None
    return new


def brute_force(reward: NovelD, play: Transition) -> np.ndarray:
    """max(nov(after) - alpha nov(before), 0) where the state is new to its episode."""
    before, after = (
        numpy_networks.novelties(
            begun(reward).distilled.networks, np.asarray(views["observation"]), reward.norm
        )
        for views in (play.before, play.after)
    )
    new = first_visits(play, reward.counted, reward.first_state)
    return np.maximum(after - reward.alpha * before, 0) * new


def test_the_recorded_play_has_what_the_tests_need(play):
    done = np.asarray(play.done)
    assert (done.sum(axis=0) > 0).all()
    assert done.sum() > LANES
    assert play.terminated.any()
    assert not done[-1].all()
    assert play.after["full_grid"].shape == (STEPS, LANES, 5, 5, 3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.9},
        {"norm": "squared"},
        {"features": "view"},
        {"counted": "observation"},
        {"first_state": False},
    ],
    ids=lambda options: next(iter(options), "default"),
)
def test_it_pays_what_a_python_loop_pays_and_every_option_matters(options, play, paid):
    reward = NovelD(network="small", **options)
    expected, bonus = brute_force(reward, play), paid(reward)
    # The difference of two novelties is known to the rounding of a novelty, not of itself.
    np.testing.assert_allclose(bonus, expected, rtol=1e-4, atol=2e-6)
    assert 0.02 < (expected > 0).mean() < 0.9
    assert np.allclose(bonus, paid(SMALL)) == (not options)


def test_only_a_return_to_the_start_is_paid_more_where_it_does_not_count_as_visited(play, paid):
    forgiving = paid(NovelD(network="small", first_state=False))
    strict = paid(SMALL)
    more = forgiving != strict
    assert (forgiving[more] > 0).all()
    assert (strict[more] == 0).all()
    fresh = np.concatenate([np.ones((1, LANES), bool), np.asarray(play.done)[:-1]])
    grids = np.asarray(play.after["full_grid"])
    for lane in range(LANES):
        starts = np.asarray(play.before["full_grid"])[:, lane][fresh[:, lane]]
        for t in np.flatnonzero(more[:, lane]):
            np.testing.assert_array_equal(grids[t, lane], starts[fresh[: t + 1, lane].sum() - 1])


def test_an_episodes_last_step_is_paid_for_where_it_led_and_not_for_the_next_ones_start(play, paid):
    """The full grid of a solved task shows the agent on the goal, which is new to every episode."""
    ends = np.asarray(play.terminated)
    networks = begun(SMALL).distilled.networks
    before, after = (
        numpy_networks.novelties(networks, np.asarray(views["observation"])[ends])
        for views in (play.before, play.after)
    )
    np.testing.assert_allclose(paid(SMALL)[ends], np.maximum(after - 0.5 * before, 0), rtol=1e-4, atol=2e-6)


def test_it_logs_novelty_and_the_share_of_first_visits(play):
    state, bonus, logged = compiled(SMALL.rollout)(begun(SMALL), play)
    assert SMALL.reads == {"observation", "full_grid"}
    assert NovelD(counted="observation").reads == {"observation"}
    new = first_visits(play, "full_grid", first_state=True)
    np.testing.assert_allclose(logged["first_visits"], new.mean(), rtol=1e-5)
    novelty = SMALL.novelty(begun(SMALL), play.after)
    np.testing.assert_allclose(logged["novelty"], np.mean(novelty), rtol=1e-4)
    assert logged["novelty_rise"] > np.mean(bonus)
    assert logged["dropped/visits"] == 0
    np.testing.assert_allclose(logged["load/visits"], np.max(state.visited.used) / state.visited.num_slots)


def test_step_by_step_and_in_pieces_it_pays_the_same(play, paid):
    whole = paid(SMALL)
    _, bonus = compiled(lambda state, play: jax.lax.scan(SMALL.step, state, play))(begun(SMALL), play)
    np.testing.assert_allclose(bonus, whole, rtol=1e-4, atol=2e-6)

    rollout, state, now = compiled(SMALL.rollout), begun(SMALL), 0
    for length in (7, 143, 143, 7):
        piece = jax.tree.map(lambda leaf, now=now, length=length: leaf[now : now + length], play)
        state, bonus, _ = rollout(state, piece)
        np.testing.assert_allclose(bonus, whole[now : now + length], rtol=1e-4, atol=2e-6)
        now += length
    assert now == STEPS


def test_its_lesson_is_a_step_of_adam_on_the_mean_error(play):
    """Three of them, followed through the last layer of the predictor, whose gradient is easily known."""
    few = jax.tree.map(lambda leaf: leaf[:10], play)
    views = np.asarray(few.after["observation"])
    reward = NovelD(network="small", rate=1e-3)
    state, first, second = begun(reward), 0.0, 0.0
    learn = compiled(reward.learn)
    for lesson in range(1, 4):
        old = state
        state, logged = learn(old, jax.random.key(0), few)
        of = functools.partial(numpy_networks.loss, views=views, norm="plain", weight=1.0, summed=False)
        np.testing.assert_allclose(logged["predictor_loss"], of(old.distilled), rtol=1e-4)

        slope = np.mean([_slope_of_last_bias(old, view) for view in views.reshape(-1, 7, 7, 3)], axis=0)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        step = 1e-3 * (first / (1 - 0.9**lesson)) / (np.sqrt(second / (1 - 0.999**lesson)) + 1e-8)
        moved = [np.asarray(s.distilled.networks.predictor.layers[-1].bias, np.float64) for s in (old, state)]
        np.testing.assert_allclose(moved[1] - moved[0], -step, rtol=2e-3, atol=2e-6)


def _slope_of_last_bias(state, view: np.ndarray) -> np.ndarray:
    """The derivative of ||error|| by the predictor's last biases: the error's direction."""
    networks = numpy_networks.doubled(state.distilled.networks)
    read = numpy_networks.embedded(networks.encoder, view)
    error = numpy_networks.output(networks.predictor, read) - numpy_networks.output(networks.target, read)
    return error / np.linalg.norm(error)


@pytest.mark.parametrize("features", ["frozen", "view"])
def test_learning_lowers_the_novelty_of_what_was_met_and_leaves_the_fixed_networks_alone(features, play):
    reward = NovelD(network="small", features=features, rate=3e-3)
    before = begun(reward)

    def lesson(state, _):
        state, logged = reward.learn(state, jax.random.key(0), play)
        return state, logged["predictor_loss"]

    after, losses = compiled(lambda state: jax.lax.scan(lesson, state, length=60))(before)
    assert losses[-1] < 0.4 * losses[0]
    old, new = before.distilled.networks, after.distilled.networks
    jax.tree.map(np.testing.assert_array_equal, (old.encoder, old.target), (new.encoder, new.target))
    jax.tree.map(np.testing.assert_array_equal, before.visited, after.visited)


def test_seeds_side_by_side_are_each_as_alone(play):
    def run(key, play):
        state = SMALL.init(key, SPEC, LANES)
        state, _ = SMALL.learn(state, key, play)
        return SMALL.rollout(state, play)[1]

    keys = jax.random.split(jax.random.key(3), 2)
    together = compiled(jax.vmap(run, in_axes=(0, None)))(keys, play)
    alone = compiled(run)
    for key, bonus in zip(keys, together, strict=True):
        np.testing.assert_allclose(bonus, alone(key, play), rtol=1e-3, atol=1e-5)
    assert not np.allclose(*together)


def test_the_networks_of_the_public_code_have_its_sizes():
    state = jax.eval_shape(lambda: NovelD().init(jax.random.key(0), SPEC, LANES))
    networks = state.distilled.networks
    assert networks.encoder.dense[-1].weight.shape == (1024, 1024)
    sizes = [[layer.weight.shape[1] for layer in one.layers] for one in (networks.target, networks.predictor)]
    assert sizes == [[128] * 4, [1024, 1024, 128, 128, 128]]
    assert networks.target.layers[0].weight.shape[0] == networks.predictor.layers[0].weight.shape[0] == 1024


def test_states_that_did_not_fit_are_told_and_only_the_named_memory_grows(play):
    reward = NovelD(network="small", capacity=2)
    rng = np.random.default_rng(0)
    grids = jnp.asarray(rng.integers(0, 9, play.after["full_grid"].shape, np.uint8))
    crowd = eqx.tree_at(lambda p: p.after["full_grid"], play, grids)
    start = compiled(lambda key: reward.init(key, SPEC, LANES))(jax.random.key(0))
    assert start.visited.num_slots < begun(reward).visited.num_slots
    state, _, logged = compiled(reward.rollout)(start, crowd)
    assert logged["dropped/visits"] > 0
    assert logged["load/visits"] > 0.5
    assert reward.grow(state, frozenset({"episodic"})) is state
    assert reward.grow(state, frozenset({"visits"})).visited.num_slots == 4 * state.visited.num_slots
    seeds = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
    grown = reward.grow(seeds, frozenset({"visits"})).visited
    assert grown.slots.shape[:2] == (2, LANES)
    assert grown.num_slots == 4 * state.visited.num_slots


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": "views"}, "unknown kind of features 'views'; did you mean view?"),
        ({"counted": "fullgrid"}, "unknown counted view 'fullgrid'; did you mean full_grid?"),
        ({"alpha": -0.5}, "alpha must be at least 0, got -0.5"),
        ({"rate": -1.0}, "rate must be a positive number, got -1.0"),
        ({"norm": "l2"}, "unknown norm 'l2'; known are plain, squared"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_options_are_refused(wrong, message):
    fields = {name: getattr(SMALL, name) for name in SMALL.__dataclass_fields__}
    # Here the type checker would refuse some of them first.
    with pytest.raises(GobiError) as refused:
        NovelD.__check_init__(types.SimpleNamespace(**(fields | wrong)))
    assert str(refused.value) == message


def test_it_leads_to_the_end_of_a_corridor_that_chance_never_reaches():
    far_goal.must_beat_no_bonus(NovelD(network="small"), updates=100)
