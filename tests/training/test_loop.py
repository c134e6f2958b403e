"""The device loop: what the learner is paid, at which rate it learns, and seeds side by side."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import NEWER_EMITTERS
from jaxtyping import Array, Float32

from gobi.agents.impala import learner
from gobi.envs.minigrid import Bank, Empty, MiniGrid
from gobi.rewards import Reward
from gobi.training import loop as loops
from gobi.training.loop import Knobs, SeedState, knobs
from gobi.training.recipe import Recipe
from gobi.types import Transition

LANES, UNROLL, LIMIT = 6, 20, 9


@dataclasses.dataclass(frozen=True)
class Hasty(Empty):
    """An empty room with little time."""

    @property
    def max_steps(self) -> int:
        return LIMIT


ENV = MiniGrid(Hasty(5))
RECIPE = Recipe(
    task="MiniGrid-Empty-5x5-v0",
    recipe="test",
    frames=10 * LANES * UNROLL,
    coefficient=0.5,
    decay=1e-3,
    network="compact",
    num_envs=LANES,
    unroll=UNROLL,
    learning_rate=1e-3,
)


compiled = functools.partial(
    jax.jit,
    compiler_options={
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
        **NEWER_EMITTERS,
    },
)
"""Tests compile much and run it once or twice."""


class Fake(Reward):
    """Pays less for a low action than for a high one."""

    @property
    def reads(self):
        return frozenset({"observation", "state", "panorama", "full_grid"})

    def init(self, key, spec, num_envs):
        return {"key": key, "paid": jnp.int32(0), "learned": jnp.int32(0)}

    def rollout(self, state, transitions):
        bonus = transitions.action.astype(jnp.float32) - 2
        return state | {"paid": state["paid"] + 1}, bonus, {"load/fake": bonus[0, 0]}

    def learn(self, state, key, transitions):
        learned = state["learned"] + state["paid"]
        return state | {"learned": learned}, {"dropped/fake": learned.astype(jnp.float32)}


class Lesson(eqx.Module):
    """What the reward was shown in an update, and what the learner was given."""

    seen: Transition
    unroll: learner.Unroll
    rate: Float32[Array, "*seeds"]
    timeouts: learner.Timeouts | None


@pytest.fixture(scope="module")
def bank(sketch) -> Bank:
    """Every level begins one step before the goal, facing it: some episodes succeed, some run out of time."""
    level = sketch("#####", "#...#", "#..v#", "#..G#", "#####")
    levels = jax.tree.map(lambda part: jnp.stack([part] * 8), level)
    return Bank(
        levels=levels,
        views=compiled(jax.vmap(ENV.observe))(levels),
        reachable=jnp.full(8, 9, jnp.int32),
        seed=jnp.int32(0),
        next_chunk=jnp.int32(0),
        fresh=jnp.int32(8),
        fixed=True,
    )


class Run:
    """A loop that can be looked into."""

    def __init__(self, bank: Bank, **changes: Any):
        self.recipe = RECIPE.changed(**changes)
        self.loop = loops.loop(ENV, self.recipe)
        self.bank, self.reward = bank, Fake()
        self.begin = compiled(lambda key: self.loop.init(self.reward, self.bank, key))
        self.compiled = compiled(self.watched)

    def watched(self, numbers: Knobs, state: SeedState):
        """An update, and what happened in it."""
        shown, learn, noted = loops.Loop._transitions, learner.learn, {}

        def transitions(*arguments):
            noted["seen"] = shown(*arguments)
            return noted["seen"]

        def learned(policy, squares, unroll, hyper, rate, precision, timeouts, **more):
            noted.update(unroll=unroll, rate=rate, timeouts=timeouts)
            return learn(policy, squares, unroll, hyper, rate, precision, timeouts, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loops.Loop, "_transitions", transitions)
            patch.setattr(learner, "learn", learned)
            state, metrics = self.loop.update(self.reward, numbers, self.bank, state)
        return state, metrics, Lesson(**noted)

    def start(self, seed: int = 0) -> SeedState:
        return self.begin(jax.random.key(seed))

    def update(self, state: SeedState, **changes: Any):
        """State, metrics and lesson of one update with some of the numbers changed."""
        return self.compiled(knobs(self.recipe.changed(**changes)), state)


@pytest.fixture(scope="module")
def run(bank) -> Run:
    return Run(bank)


@pytest.fixture(scope="module")
def begun(run):
    return run.start()


@pytest.fixture(scope="module")
def updated(run, begun):
    return run.update(begun)


def test_the_reward_is_shown_both_ends_of_every_step(updated, bank):
    _, _, lesson = updated
    seen = lesson.seen
    assert seen.terminated.any()
    assert (seen.truncated & ~seen.terminated).any()
    np.testing.assert_array_equal(seen.action, lesson.unroll.actions)
    np.testing.assert_array_equal(seen.before["observation"], lesson.unroll.observations[:-1])
    # Each view is that of the state beside it: the true last one where an episode ends.
    makers = {"observation": ENV.observe, "panorama": ENV.panorama, "full_grid": ENV.full_grid}
    views = compiled(jax.vmap(jax.vmap(lambda state: {name: view(state) for name, view in makers.items()})))
    for end in (seen.before, seen.after):
        for name, expected in views(end["state"]).items():
            np.testing.assert_array_equal(end[name], expected)
    np.testing.assert_array_equal(seen.after["state"].step_count, seen.before["state"].step_count + 1)
    went_on, begins = ~seen.done[:-1], seen.done[:-1]
    same = (seen.before["observation"][1:] == seen.after["observation"][:-1]).all(axis=(-3, -2, -1))
    assert same[went_on].all()
    assert (seen.before["state"].step_count[1:][begins] == 0).all()
    np.testing.assert_array_equal(lesson.unroll.first[1:], seen.done)
    assert lesson.unroll.first[0].all()


def test_the_total_is_the_weighted_sum_of_task_and_bonus(updated):
    _, metrics, lesson = updated
    seen = lesson.seen
    task, bonus = np.asarray(seen.reward), np.asarray(seen.action) - 2.0
    assert (task > 0).any()
    total = task + 0.5 * bonus
    assert (np.abs(total) > 1).any()
    np.testing.assert_allclose(lesson.unroll.rewards, np.clip(total, -1, 1), atol=1e-6)
    np.testing.assert_allclose(metrics["bonus"], bonus.mean(), rtol=1e-5)
    share = np.abs(0.5 * bonus).sum() / (np.abs(0.5 * bonus).sum() + task.sum())
    np.testing.assert_allclose(metrics["bonus_share"], share, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "total"),
    [
        ({"extrinsic": 0.0}, lambda task, bonus: np.clip(0.5 * bonus, -1, 1)),
        ({"clip": 0.0}, lambda task, bonus: task + 0.5 * bonus),
        ({"clip": 0.25}, lambda task, bonus: np.clip(task + 0.5 * bonus, -0.25, 0.25)),
        ({"coefficient": 0.0}, lambda task, bonus: task),
        ({"extrinsic": 3.0, "clip": 0.0}, lambda task, bonus: 3 * task + 0.5 * bonus),
    ],
    ids=["bonus alone", "not clipped", "clipped", "no bonus", "both weighted"],
)
def test_the_numbers_of_the_recipe_weigh_and_clip_without_compiling_again(
    changes, total, run, begun, updated
):
    before = run.compiled._cache_size()
    _, _, lesson = run.update(begun, **changes)
    seen = updated[2].seen
    np.testing.assert_allclose(
        lesson.unroll.rewards, total(np.asarray(seen.reward), np.asarray(seen.action) - 2.0), atol=1e-6
    )
    assert run.compiled._cache_size() == before


def test_the_bonus_decays_with_the_frames_of_all_lanes_and_the_rate_falls_to_zero(run, begun):
    state, frames, actions = begun, 0, []
    for _ in range(3):
        state, metrics, lesson = run.update(state)
        np.testing.assert_allclose(metrics["coefficient"], 0.5 * (1 - 1e-3) ** frames, rtol=1e-5)
        np.testing.assert_allclose(lesson.rate, 1e-3 * (1 - frames / RECIPE.frames), rtol=1e-6)
        assert metrics["learning_rate"] == lesson.rate
        frames += LANES * UNROLL
        actions.append(lesson.unroll.actions)
    assert (actions[0] != actions[1]).any()
    assert len({tuple(jax.random.key_data(s.key).tolist()) for s in (begun, state)}) == 2
    after_the_end = eqx.tree_at(lambda s: s.updates, state, jnp.int32(11))
    assert run.update(after_the_end)[2].rate == 0
    assert run.update(after_the_end, learning_rate_decay="none")[2].rate == jnp.float32(1e-3)


@pytest.mark.parametrize("schedule", [100, 30_000_000])
def test_the_rate_can_fall_over_other_frames_than_the_runs(schedule, run, begun):
    before = run.compiled._cache_size()
    for updates in (0, 3, 11):
        state = eqx.tree_at(lambda s: s.updates, begun, jnp.int32(updates))
        frames = updates * LANES * UNROLL
        expected = 1e-3 * max(0.0, 1 - frames / schedule)
        rate = run.update(state, schedule_frames=schedule)[2].rate
        np.testing.assert_allclose(rate, expected, rtol=1e-6)
    assert run.compiled._cache_size() == before


def test_the_reward_learns_after_it_has_paid(updated):
    state, metrics, _ = updated
    assert state.reward["learned"] == 1
    assert metrics["dropped/fake"] == 1


def test_time_outs_are_ends_like_others(updated):
    _, _, lesson = updated
    assert lesson.timeouts is None
    np.testing.assert_array_equal(lesson.unroll.terminal, lesson.seen.done)


def test_time_outs_can_be_valued_and_the_bonus_can_decay_by_episodes(bank, begun):
    run = Run(bank, timeouts="bootstrap", decay_by="episodes")
    state, _, lesson = run.update(begun)
    seen = lesson.seen
    np.testing.assert_array_equal(lesson.unroll.terminal, seen.done)
    np.testing.assert_array_equal(lesson.timeouts.truncated, seen.truncated & ~seen.terminated)
    np.testing.assert_array_equal(lesson.timeouts.last_observations, seen.after["observation"])
    assert lesson.timeouts.most == -(-UNROLL // LIMIT)
    assert lesson.timeouts.truncated.sum(axis=0).max() <= lesson.timeouts.most

    finished = int(seen.done.sum())
    _, metrics, _ = run.update(state)
    np.testing.assert_allclose(metrics["coefficient"], 0.5 * (1 - 1e-3) ** (finished * LIMIT), rtol=1e-5)


def test_a_row_of_updates_is_the_same_as_one_after_another(run, begun):
    """Bit for bit. Of the metrics it keeps means, the last of what looks back, and the largest loads."""
    state, rows = begun, []
    for _ in range(2):
        state, metrics, _ = run.update(state)
        rows.append(metrics)
    row = compiled(lambda numbers, state: run.loop.updates(run.reward, numbers, run.bank, state, 2))
    together, metrics = row(knobs(RECIPE), begun)
    for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(plain(one), plain(other))
    for name in ("episodes", "return", "dropped/fake"):
        assert metrics[name] == rows[1][name]
    assert metrics["load/fake"] == max(row["load/fake"] for row in rows)
    np.testing.assert_allclose(metrics["bonus"], np.mean([row["bonus"] for row in rows]), rtol=1e-6)
    np.testing.assert_allclose(
        metrics["learning_rate"], np.mean([row["learning_rate"] for row in rows]), rtol=1e-6
    )


def test_a_seed_beside_others_is_as_it_is_alone(run):
    """The same integers over the first rollout, weights within 1e-5 after the update."""
    alone = [run.start(seed) for seed in (0, 5)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)
    together, _, lessons = compiled(jax.vmap(run.watched, in_axes=(None, 0)))(knobs(RECIPE), stacked)
    weights = []
    for number, start in enumerate(alone):
        state, _, lesson = run.update(start)
        other, beside = jax.tree.map(lambda leaf, number=number: leaf[number], (together, lessons))
        seen = zip(jax.tree.leaves(lesson.seen), jax.tree.leaves(beside.seen), strict=True)
        assert all((one == two).all() for one, two in seen)
        for one, two in zip(jax.tree.leaves(state.policy), jax.tree.leaves(other.policy), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-5)
        np.testing.assert_array_equal(jax.random.key_data(state.key), jax.random.key_data(other.key))
        weights.append(jax.tree.leaves(state.policy)[0])
    assert (weights[0] != weights[1]).any()


def plain(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
