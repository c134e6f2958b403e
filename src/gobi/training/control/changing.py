"""Compiled steps that take in, and hand out, only what they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun


class Change:
    """A compiled `function(state, *rest)` that gives the state as it is afterwards.

    An array that goes into a compiled call and comes out again costs its host some microseconds, and a state
    has a hundred or more. So those that the function hands through are left out: the caller gets back what it
    had. The others are used up. States and the rest must always have the same shapes.
    """

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._changed: list[bool] = []
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, state: Any, *rest: Any) -> Any:
        """The state after the change."""
        if self._compiled is None:
            self._compiled = self._compile(state, rest)
        leaves, structure = jax.tree.flatten(state)
        moving = [leaf for leaf, changed in zip(leaves, self._changed, strict=True) if changed]
        resting = [leaf for leaf, changed in zip(leaves, self._changed, strict=True) if not changed]
        moved = self._compiled(moving, resting, *rest)
        return jax.tree.unflatten(structure, self._merged(moved, resting))

    def _compile(self, state: Any, rest: tuple[Any, ...]) -> Callable[..., Any]:
        traced = jax.make_jaxpr(self._function)(state, *rest)
        size = len(jax.tree.leaves(state))
        assert len(traced.jaxpr.outvars) == size, "the state came out with other leaves"
        came_in = traced.jaxpr.invars[:size]
        self._changed = [out is not came for out, came in zip(traced.jaxpr.outvars, came_in, strict=True)]
        whole = jaxpr_as_fun(traced)

        def change(moving: list[Any], resting: list[Any], *rest: Any) -> list[Any]:
            made = whole(*self._merged(moving, resting), *jax.tree.leaves(rest))
            return [leaf for leaf, changed in zip(made, self._changed, strict=True) if changed]

        return jax.jit(change, donate_argnums=0)

    def _merged(self, moving: list[Any], resting: list[Any]) -> list[Any]:
        one, other = iter(moving), iter(resting)
        return [next(one if changed else other) for changed in self._changed]
