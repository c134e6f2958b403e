"""When a bonus is worked out: as its step is made, or whenever it is replayed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from gobi.envs.dmc import Step
from gobi.training.control import paying, recipes, seat
from gobi.training.control.parcel import packed
from gobi.types import Spec

SPEC = Spec("dmc/cartpole_balance", (2,), "float32", 0, max_steps=50, action_size=1)
PLACES = np.random.default_rng(0).normal(0, 1, (13, 2)).astype(np.float32)
DECAY = 0.1


def played(paid: str) -> tuple[seat.Program, seat.Seat]:
    """Twelve steps from place to place, none of which earns anything."""
    recipe = recipes.recipe(
        SPEC.id,
        observations="state",
        reward_options="vectors=raw,form=log,k=1",
        paid=paid,
        decay=DECAY,
        coefficient=0.5,
        batch=8,
        hidden=8,
        capacity=50,
    )
    program = seat.Program(recipe, SPEC)
    one = program.begin(program.see_first(program.start(0), PLACES[0]), PLACES[0])
    for place in PLACES[1:]:
        view, reached = one.view, packed(Step(place, 0.0, False, False))
        one = program.see(one, reached)
        one = program.collect(one, view, np.zeros(1, np.float32), reached)
    return program, one


def nearest(count: int) -> float:
    """How far the last of so many places is from the nearest of the others."""
    return min((np.linalg.norm(PLACES[count - 1] - other) for other in PLACES[: count - 1]), default=0.0)


def test_what_is_paid_as_it_is_made_is_what_was_known_then():
    program, one = played("made")
    steps = np.arange(1, 13)
    bonuses = np.log1p([nearest(count) for count in steps]) * (1 - DECAY) ** steps
    np.testing.assert_allclose(seat.whole(one).replay.stored[:12], bonuses, rtol=1e-4)
    assert np.all(bonuses[1:] > 0)
    for number in range(2):
        one = program.update(one, number)
    told = program.told(one)
    # Only the coefficient is left to multiply with, as it was at first.
    assert told["coefficient"] == 0.5
    assert told["batch_reward"] == pytest.approx(0.5 * told["bonus"], rel=1e-5)
    assert bonuses.min() <= told["bonus"] <= bonuses.max()
    assert "re3/bonus" not in told


def test_what_is_paid_when_it_is_replayed_is_not_stored():
    program, one = played("sampled")
    assert not np.any(seat.whole(one).replay.stored)
    told = program.told(program.update(one, 0))
    assert told["coefficient"] == pytest.approx(0.5 * (1 - DECAY) ** 12, rel=1e-5)
    assert told["re3/bonus"] > 0


def test_the_coefficient_fades_by_the_steps_of_the_agent():
    knobs = paying.Knobs(*map(np.float32, (1, 1e-5, 1, 1)))
    # In float32 (1 - rho) ** steps itself would be off in the third place.
    assert float(paying.faded(knobs, jnp.int32(250_000))) == pytest.approx((1 - 1e-5) ** 250_000, rel=1e-4)
