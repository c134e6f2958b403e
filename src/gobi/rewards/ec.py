"""EC, episodic curiosity: pays for what is not within reach of anything remembered of this episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key, Num

from gobi import settings
from gobi.errors import GobiError, unknown
from gobi.rewards.comparator import ALIKE, INPUTS, SIZES, Comparator, Lessons, comparator, lesson, lessons
from gobi.rewards.real_steps import Real, over_all
from gobi.rewards.reward import Metrics, Reward
from gobi.types import Spec, Transition

SLOTS_AT_ONCE = 40
"""Buffers are read in parts of so many slots, and no further than the fullest of them is filled."""


class Curious(eqx.Module):
    """The state of `EC`.

    beta, threshold:  the options of these names; here, so that seeds side by side may differ in them.
    buffer:   what is remembered of each environment's episode. Observations, not embeddings: those would be
              of an older network once it has learned more.
    added:    how many have been entered in this episode, whatever has been replaced since.
    fresh:    whether an episode begins with the next step.
    novel:    whether what was seen last is to be remembered; it is entered with the next step.
    steps:    steps so far, which number the draws of random replacement.
    key:      where those come from.
    lessons:  the comparator and what it learns from; None where it has learned beforehand.
    """

    beta: Float32[Array, ""]
    threshold: Float32[Array, ""]
    buffer: Num[Array, "envs capacity *shape"]
    added: Int32[Array, " envs"]
    fresh: Bool[Array, " envs"]
    novel: Bool[Array, " envs"]
    steps: Int32[Array, ""]
    key: Key[Array, ""]
    lessons: Lessons | None


class EC(Reward):
    """beta - C(M, o_{t+1}), with C a high percentile of how similar the new observation is to those in M.

    An episode's first observation is always remembered, and each later one whose C is below the threshold;
    nothing is paid at an episode's end. The comparator learns from the rollouts; `ec_pretraining` has one
    that learned beforehand. Savinov et al., 2019; the GoBI paper's appendix for MiniGrid.

    beta:           what an observation unlike all that is remembered earns.
    threshold:      an observation less similar than this is remembered.
    percentile:     which percentile of the similarities is C.
    capacity:       observations remembered per environment.
    replacement:    what a new one replaces in a full buffer: the oldest (`fifo`), or any (`random`).
    near, far:      pairs at most `near` steps apart are taught as within reach, those more than `far` as not.
    alike:          equal observations are taught as within reach however many steps lie between them
                    (`near`), or by their steps (`drawn`, the original): then an agent that stands still
                    teaches that what it sees is not within its own reach.
    window:         the last steps of each environment that pairs are drawn from.
    warmup:         no bonus before so many lessons.
    pairs, batches: pairs in a step of Adam, and such steps in a lesson, which is one rollout.
    rate:           Adam's learning rate.
    size:           `paper` with 512 units, or `small` for laptops.
    inputs:         how the cells of 7x7 views are read: `onehot` or `raw`.
    pretrain:       in a run: steps of random play that the comparator learns from beforehand, after which it
                    stays as it is; 0 lets it learn from the rollouts.
    """

    beta: float = eqx.field(static=True, default=0.5)
    threshold: float = eqx.field(static=True, default=0.5)
    percentile: float = eqx.field(static=True, default=90.0)
    capacity: int = eqx.field(static=True, default=200)
    replacement: str = eqx.field(static=True, default="fifo")
    near: int = eqx.field(static=True, default=5)
    far: int = eqx.field(static=True, default=25)
    window: int = eqx.field(static=True, default=100)
    warmup: int = eqx.field(static=True, default=20)
    pairs: int = eqx.field(static=True, default=256)
    batches: int = eqx.field(static=True, default=4)
    rate: float = eqx.field(static=True, default=1e-4)
    size: str = eqx.field(static=True, default="paper")
    inputs: str = eqx.field(static=True, default="onehot")
    alike: str = eqx.field(static=True, default="near")
    pretrain: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        known_values = {"size": SIZES, "inputs": INPUTS, "alike": ALIKE, "replacement": ("fifo", "random")}
        for name, known in known_values.items():
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if not 0 <= self.percentile <= 100:
            raise GobiError(f"percentile must be between 0 and 100, got {self.percentile}")
        settings.finite(beta=self.beta, threshold=self.threshold)
        settings.positive(rate=self.rate)
        settings.at_least(1, capacity=self.capacity, batches=self.batches)
        settings.at_least(0, warmup=self.warmup, pretrain=self.pretrain)
        if not 1 <= self.near <= self.far < self.window - 1:
            raise GobiError(
                "near, far and window must satisfy 1 <= near <= far < window - 1, so that far pairs fit; got "
                f"{self.near}, {self.far}, {self.window}"
            )
        if self.pairs < 2 or self.pairs % 2:
            raise GobiError(f"pairs must be even, half of them near and half far, got {self.pairs}")

    @property
    def reads(self) -> frozenset[str]:
        """The agent's own view."""
        return frozenset({"observation"})

    @property
    def logs(self) -> tuple[str, ...]:
        """Its columns in metrics.csv."""
        return ("ec/similarity", "ec/remembered", "ec/loss", "ec/accuracy")

    @property
    def numbers(self) -> dict[str, float]:
        """What a search for good settings varies."""
        return {"beta": self.beta, "threshold": self.threshold}

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Curious:
        """Nothing remembered, nothing learned."""
        weights, draws = jax.random.split(key)
        return Curious(
            beta=jnp.float32(self.beta),
            threshold=jnp.float32(self.threshold),
            buffer=jnp.zeros(
                (num_envs, self.capacity, *spec.observation_shape), jnp.dtype(spec.observation_dtype)
            ),
            added=jnp.zeros(num_envs, jnp.int32),
            fresh=jnp.ones(num_envs, bool),
            novel=jnp.zeros(num_envs, bool),
            steps=jnp.int32(0),
            key=draws,
            lessons=self.untaught(weights, spec, num_envs),
        )

    def rollout(
        self, state: Curious, transitions: Transition
    ) -> tuple[Curious, Float32[Array, "time envs"], Metrics]:
        """Embeds all observations at once; only the comparison with the buffer goes step by step."""
        state, similarity = self._similarities(state, transitions)
        bonus = jnp.where(transitions.done, 0.0, state.beta - similarity)
        if state.lessons is not None:
            bonus = jnp.where(state.lessons.count >= self.warmup, bonus, 0.0)
        logged = {
            "ec/similarity": over_all(similarity, transitions.real),
            "ec/remembered": jnp.mean(jnp.minimum(state.added, self.capacity), dtype=jnp.float32),
        }
        return state, bonus, logged

    def learn(self, state: Curious, key: Key[Array, ""], transitions: Transition) -> tuple[Curious, Metrics]:
        """A lesson on the rollout's pairs, unless the comparator is fixed."""
        if state.lessons is None:
            return state, {}
        left = transitions.before["observation"]
        learned, logged = self.teach(state.lessons, key, left, transitions.done, transitions.real)
        logged["ec/lessons"] = learned.count.astype(jnp.float32)
        return eqx.tree_at(lambda s: s.lessons, state, learned), logged

    def comparator(self, state: Curious) -> Comparator:
        """What compares."""
        assert state.lessons is not None
        return state.lessons.network

    def untaught(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Lessons | None:
        """A comparator before its first lesson."""
        if self.pretrain:
            raise GobiError(
                "pretrain is an option of a run's own reward; elsewhere, ec_pretraining.pretrained makes an "
                "EC that has learned beforehand"
            )
        return lessons(comparator(key, spec, self.size, self.inputs), spec, num_envs, self.window)

    def teach(
        self,
        learner: Lessons,
        key: Key[Array, ""],
        observations: Num[Array, "time envs *shape"],
        done: Bool[Array, "time envs"],
        real: Real = None,
    ) -> tuple[Lessons, Metrics]:
        """A lesson with this reward's options."""
        return lesson(
            learner,
            key,
            observations,
            done,
            near=self.near,
            far=self.far,
            pairs=self.pairs,
            batches=self.batches,
            learning_rate=self.rate,
            alike=self.alike,
            real=real,
        )

    def _similarities(
        self, state: Curious, transitions: Transition
    ) -> tuple[Curious, Float32[Array, "time envs"]]:
        """C(M, o_{t+1}) of each step, and the buffers afterwards."""
        network = self.comparator(state)
        left, done = transitions.before["observation"], transitions.done
        time, envs = done.shape
        at_once = min(SLOTS_AT_ONCE, self.capacity)
        missing = -self.capacity % at_once
        slots = self.capacity + missing
        stored = jnp.pad(state.buffer, [(0, 0), (0, missing)] + [(0, 0)] * (state.buffer.ndim - 2))
        entering, seen = jnp.split(network.embed(_rows(left, transitions.after["observation"])), 2)
        entering = network.remembered(entering).reshape(time, envs, -1)
        seen = network.present(seen).reshape(time, envs, -1)
        lanes = jnp.arange(envs)

        def filled(added: Int32[Array, " envs"]) -> Int32[Array, ""]:
            return jnp.max(jnp.minimum(added, self.capacity))

        def read(start: Int32[Array, ""]) -> Float32[Array, "envs part hidden"]:
            part = jax.lax.dynamic_slice_in_dim(stored, start, at_once, axis=1)
            return network.remembered(network.embed(_rows(part))).reshape(envs, at_once, -1)

        held = in_parts(
            read, filled(state.added), at_once, jnp.zeros((envs, slots, entering.shape[-1]), entering.dtype)
        )

        def step(carry: Any, inputs: Any):
            buffer, held, added, fresh, novel = carry
            observation, entering, seen, done, drawn = inputs
            added = jnp.where(fresh, 0, added)
            full = added >= self.capacity
            slot = jnp.where(full, drawn, added) if self.replacement == "random" else added % self.capacity
            # Beyond the end nothing is written.
            slot = jnp.where(fresh | novel, slot, slots)
            buffer = buffer.at[lanes, slot].set(observation, mode="drop")
            held = held.at[lanes, slot].set(entering, mode="drop")
            added = added + (fresh | novel)

            def compare(start: Int32[Array, ""]) -> Float32[Array, "envs part"]:
                part = jax.lax.dynamic_slice_in_dim(held, start, at_once, axis=1)
                return network.logit(part, jnp.broadcast_to(seen[:, None], part.shape))

            logits = in_parts(compare, filled(added), at_once, jnp.zeros((envs, slots), seen.dtype))
            similar = jax.nn.sigmoid(logits)
            similarity = percentile(similar, jnp.minimum(added, self.capacity), self.percentile)
            return (buffer, held, added, done, ~done & (similarity < state.threshold)), similarity

        start = state.buffer, held, state.added, state.fresh, state.novel
        inputs = left, entering, seen, done, self._slots(state, time, envs)
        (buffer, _, added, fresh, novel), similarity = jax.lax.scan(step, start, inputs)
        state = eqx.tree_at(
            lambda s: (s.buffer, s.added, s.fresh, s.novel, s.steps),
            state,
            (buffer, added, fresh, novel, state.steps + time),
        )
        return state, similarity

    def _slots(self, state: Curious, time: int, envs: int) -> Int32[Array, "time envs"]:
        """What random replacement would replace at each step: the same however the steps are cut up."""
        if self.replacement == "fifo":
            return jnp.zeros((time, envs), jnp.int32)
        keys = jax.vmap(lambda step: jax.random.fold_in(state.key, step))(state.steps + jnp.arange(time))
        return jax.vmap(lambda key: jax.random.randint(key, (envs,), 0, self.capacity))(keys)


def in_parts(
    part: Callable[[Int32[Array, ""]], Array],
    filled: Int32[Array, ""],
    at_once: int,
    out: Float32[Array, "envs slots *rest"],
) -> Float32[Array, "envs slots *rest"]:
    """`out`, with part(start) at the slots from `start` on, `at_once` of them, until all `filled` are there.

    An episode rarely remembers more than a tenth of its buffer's capacity: what is empty costs nothing.
    """

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        start, out = carry
        return start + at_once, jax.lax.dynamic_update_slice_in_dim(out, part(start), start, axis=1)

    return jax.lax.while_loop(lambda carry: carry[0] < filled, body, (jnp.int32(0), out))[1]


def _rows(*parts: Num[Array, "first second *shape"]) -> Num[Array, "rows *shape"]:
    """All observations of the parts, one after the other."""
    return jnp.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])


def percentile(
    values: Float32[Array, "envs n"], count: Int32[Array, " envs"], percent: float
) -> Float32[Array, " envs"]:
    """The percentile of the first `count` of each row's values, between neighbours as NumPy has it."""
    there = jnp.arange(values.shape[1]) < count[:, None]
    ordered = jnp.sort(jnp.where(there, values, jnp.inf), axis=1)
    last = count - 1
    place = last.astype(jnp.float32) * (percent / 100)
    low = place.astype(jnp.int32)
    share = place - low
    below, above = (
        jnp.take_along_axis(ordered, at[:, None], axis=1)[:, 0] for at in (low, jnp.minimum(low + 1, last))
    )
    return below + share * (above - below)
