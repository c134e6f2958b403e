"""Compiled changes of large states, made to cost their host little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun


@jax.tree_util.register_pytree_node_class
class Held:
    """A tree that is kept as its leaves. To take one of many nodes apart at every call would take long."""

    def __init__(self, leaves: Sequence[Any], structure: Any):
        self.leaves, self.structure = list(leaves), structure

    @classmethod
    def of(cls, tree: Any) -> Held:
        """A tree, taken apart."""
        return cls(*jax.tree.flatten(tree))

    @property
    def tree(self) -> Any:
        """The tree, put together."""
        return jax.tree.unflatten(self.structure, self.leaves)

    def tree_flatten(self) -> tuple[list[Any], Any]:
        """For JAX, to which it is a tree like any other."""
        return self.leaves, self.structure

    @classmethod
    def tree_unflatten(cls, structure: Any, leaves: Sequence[Any]) -> Held:
        """The same, back from JAX."""
        return cls(leaves, structure)


class Change:
    """A compiled `function(parts, *rest)` that gives the parts of a state as they are afterwards.

    An array that goes into a compiled call and comes out again costs its host some microseconds, and a state
    has a hundred or more. So those that the function hands through are left out: the caller gets back what it
    had. The others are used up. Parts and rest must always have the same structures and shapes.

    The function takes, and returns, trees; a call takes and returns them `Held`.
    """

    def __init__(self, function: Callable[..., Sequence[Any]]):
        self._function = function
        self._changed: list[int] = []
        self._unchanged: list[int] = []
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, parts: Sequence[Held], *rest: Any) -> list[Held]:
        """The parts after the change."""
        if self._compiled is None:
            self._compiled = self._compile(parts, rest)
        leaves = [leaf for part in parts for leaf in part.leaves]
        changed, unchanged = ([leaves[at] for at in places] for places in (self._changed, self._unchanged))
        for at, leaf in zip(self._changed, self._compiled(changed, unchanged, *rest), strict=True):
            leaves[at] = leaf
        new, start = [], 0
        for part in parts:
            new.append(Held(leaves[start : start + len(part.leaves)], part.structure))
            start += len(part.leaves)
        return new

    def _compile(self, parts: Sequence[Held], rest: tuple[Any, ...]) -> Callable[..., Any]:
        def function(parts: list[Held], *rest: Any) -> Sequence[Any]:
            return self._function([part.tree for part in parts], *(_put_together(one) for one in rest))

        traced, structure = jax.make_jaxpr(function)(list(parts), *rest), jax.tree.structure(rest)
        whole, came_out = jaxpr_as_fun(traced), traced.jaxpr.outvars
        size = sum(len(part.leaves) for part in parts)
        assert len(came_out) == size, "the state came out with other leaves"
        same = [out is came_in for out, came_in in zip(came_out, traced.jaxpr.invars[:size], strict=True)]
        self._unchanged = [at for at in range(size) if same[at]]
        self._changed = [at for at in range(size) if not same[at]]

        def change(changed: list[Any], unchanged: list[Any], *rest: Any) -> list[Any]:
            leaves: dict[int, Any] = dict(zip(self._changed, changed, strict=True))
            leaves |= dict(zip(self._unchanged, unchanged, strict=True))
            given = [leaves[at] for at in range(size)] + jax.tree.leaves(rest)
            # Run only when something is compiled. What was traced for other shapes would give wrong numbers.
            assert [_kind(one) for one in given] == [_kind(one) for one in traced.in_avals], "other shapes"
            assert jax.tree.structure(rest) == structure, "another structure"
            made = whole(*given)
            return [made[at] for at in self._changed]

        return jax.jit(change, donate_argnums=0)


def _kind(array: Any) -> tuple[Any, Any]:
    return array.shape, array.dtype


def _put_together(argument: Any) -> Any:
    return argument.tree if isinstance(argument, Held) else argument
