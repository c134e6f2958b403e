"""Which reward a task gets: the world and the hash that suit what it shows, and every piece one's own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gobi.adapters.choosing import choose, coefficient
from gobi.errors import GobiError
from gobi.memory import SimHash
from gobi.memory.offset_codes import OffsetHash
from gobi.rewards import Count, Nothing, Positive, Product, Reachability, Reward, registry
from gobi.rewards.own import Checked, Plain
from gobi.types import Spec
from gobi.worlds import GridModel, Nowhere, OnlineModel

GRID = Spec("MiniGrid-Somewhere-v0", (7, 7, 3), "uint8", 7, 100)
BOARD = Spec("board", (9, 9), "uint8", 4, 100, classes=5)
CAR = Spec("car", (2,), "float32", 0, 999, action_size=1)
PICTURE = Spec("picture", (42, 42, 3), "uint8", 18, 1000)
EVERYTHING = frozenset({"observation", "panorama", "full_grid"})


class Own(Reward):
    """A reward of one's own, with an option."""

    size: float = 1.0

    @property
    def reads(self):
        return frozenset({"observation"})

    def init(self, key, spec, num_envs):
        return ()

    def step(self, state, transition):
        return state, jnp.full_like(transition.reward, self.size)


class Simple:
    """The same without any of the library."""

    def init(self, key, spec, num_envs):
        return ()

    def step(self, state, transition):
        return state, jnp.ones_like(transition.reward)


def parts(reward: Reward) -> tuple[Reachability, Count]:
    assert isinstance(reward, Product)
    assert isinstance(reward.first, Reachability)
    assert isinstance(reward.second, Count)
    return reward.first, reward.second


@pytest.mark.parametrize("views", [EVERYTHING, frozenset({"observation"})], ids=["panorama", "view"])
def test_minigrid_gets_a_grid_model_that_sees_what_there_is_and_exact_codes(views):
    reach, count = parts(choose("gobi", GRID, views))
    assert isinstance(reach.world, GridModel)
    assert reach.world.mode == "online"
    assert reach.world.sees == ("panorama" if "panorama" in views else "view")
    assert reach.reads <= views
    assert reach.hash is None
    assert count.hash is None


@pytest.mark.parametrize(
    ("spec", "hash", "predictions"),
    [(BOARD, type(None), 4), (CAR, OffsetHash, 5), (PICTURE, OffsetHash, 5)],
    ids=["board", "car", "picture"],
)
def test_other_tasks_get_a_model_that_learns_along_and_codes_that_suit_them(spec, hash, predictions):
    reach, count = parts(choose("gobi", spec))
    assert isinstance(reach.world, OnlineModel)
    assert reach.world.predictions == predictions
    assert type(reach.hash) is type(count.hash) is hash
    assert reach.reads == {"observation"}
    if hash is OffsetHash:
        assert reach.hash.shape == spec.observation_shape


def test_the_ablations_are_composed_of_the_same_parts():
    assert isinstance(choose("r1", CAR), Reachability)
    second = choose("r2", CAR)
    assert isinstance(second, Product)
    assert isinstance(second.first, Positive)
    third = choose("r3", CAR)
    assert isinstance(third, Count)
    assert isinstance(third.hash, OffsetHash)
    assert isinstance(choose("none", CAR), Nothing)


def test_every_piece_can_be_replaced():
    world, hash = Nowhere(), SimHash(jax.random.key(0), (2,), 8)
    reach, count = parts(choose("gobi", CAR, world=world, hash=hash, credit="departure"))
    assert reach.world is world
    assert reach.hash is count.hash is hash
    assert reach.credit == "departure"
    mine = Own(size=2.0)
    own = choose("gobi", CAR, world=world, lifelong=mine)
    assert isinstance(own, Product)
    assert own.second is mine
    named = choose("gobi", CAR, world=world, lifelong="re3")
    assert isinstance(named, Product)
    assert isinstance(named.second, registry.find("re3").make)


@pytest.mark.parametrize("name", [name for name in registry.REWARDS if registry.find(name).make])
def test_every_reward_of_the_library_reads_no_more_than_there_is(name):
    assert choose(name, CAR).reads <= {"observation"}
    assert choose(name, GRID, EVERYTHING).reads <= EVERYTHING


def test_options_of_a_named_reward_are_its_own():
    chosen: Any = choose("noveld", GRID, EVERYTHING, alpha=0.25)
    assert (chosen.alpha, chosen.counted) == (0.25, "full_grid")
    small: Any = choose("rnd", GRID)
    large: Any = choose("rnd", GRID, network="ride")
    assert (small.network, large.network) == ("small", "ride")


def test_a_reward_of_ones_own_is_taken_as_it_is_or_made_with_its_options(tmp_path):
    mine = Own(size=3.0)
    assert choose(mine, CAR) is mine
    made = choose(Own, CAR, size=2.0)
    assert isinstance(made, Checked)
    assert made.inner == Own(2.0)
    simple = choose(Simple, CAR)
    assert isinstance(simple, Checked)
    assert isinstance(simple.inner, Plain)
    file = tmp_path / "mine.py"
    file.write_text(
        "class Mine:\n    def __init__(self, size: float = 1.0):\n        self.size = size\n"
        "    def init(self, key, spec, num_envs): return ()\n"
        "    def step(self, state, transition): return state, self.size + transition.reward\n"
    )
    loaded: Any = choose(f"{file}:Mine", CAR, size=0.5)
    assert loaded.inner.made.size == 0.5
    # Options need not be words: here, one that no text stands for.
    several = (1.0, Nowhere())
    loaded = choose(f"{file}:Mine", CAR, size=several)
    assert loaded.inner.made.size is several
    with pytest.raises(GobiError, match=r"unknown option of .*Mine 'sice'; did you mean size"):
        choose(f"{file}:Mine", CAR, sice=1.0)


@pytest.mark.parametrize(
    ("reward", "options", "line"),
    [
        ("gobbi", {}, "unknown reward 'gobbi'; did you mean gobi"),
        (
            "gobi",
            {"credits": "arrival"},
            "unknown option of the reward 'gobi' 'credits'; did you mean credit",
        ),
        ("rnd", {"alpha": 1}, "unknown option of the reward 'rnd' 'alpha'"),
        ("rnd", {"world": Nowhere()}, "the reward 'rnd' has no world"),
        ("r1", {"lifelong": "count"}, "the reward 'r1' has no lifelong"),
        ("gobi", {"lifelong": "r2"}, "the lifelong factor must be one of"),
        ("gobi", {"lifelong": "nothing"}, "unknown reward 'nothing'"),
        (Own(), {"size": 2}, "the reward is made already: size would change nothing"),
        (int, {}, "a reward is a name, a gobi.rewards.Reward or an object with init and step, not 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(reward, options, line):
    with pytest.raises(GobiError) as refused:
        choose(reward, CAR, **options)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_reward_that_reads_what_is_not_shown_is_refused():
    with pytest.raises(GobiError, match="this reward reads full_grid, which is not to be had here"):
        choose("count", CAR, view="full_grid")


def test_the_coefficient_is_that_of_the_rewards_authors():
    assert coefficient("rnd", CAR) == registry.coefficient("rnd", "car")
    assert coefficient("ride", Spec("MiniGrid-KeyCorridorS3R3-v0", (7, 7, 3), "uint8", 7, 270)) == 0.1
    assert coefficient(Own(), CAR) == 0.01
