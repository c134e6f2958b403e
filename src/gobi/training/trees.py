"""Trees of arrays as bytes: safetensors for the arrays, JSON for what safetensors cannot hold."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from gobi.errors import GobiError

KEY = "key:"
"""Marks the kind of a leaf that holds typed random keys; the name of their implementation follows."""

UNFIT = "holds something else than this version of gobi expects with this recipe"
"""What is said of a source whose leaves are not those that are wanted."""


def pack(tree: Any) -> tuple[bytes, dict[str, dict[str, Any]]]:
    """The arrays of a tree as the content of a safetensors file, and what goes into JSON beside it.

    Leaves are named by their path. Those that are neither arrays nor numbers (functions, texts) are left out.
    The JSON part holds:
        kinds:    of the leaves that safetensors does not know: bfloat16 and the like, and typed random keys.
        numbers:  the leaves that are Python's own numbers.
    """
    leaves = _named_leaves(tree)
    kinds = {name: KEY + str(jax.random.key_impl(leaf)) for name, leaf in leaves.items() if _is_key(leaf)}
    on_device = {
        name: jax.random.key_data(leaf) if name in kinds else leaf
        for name, leaf in leaves.items()
        if _is_array(leaf)
    }
    arrays = {}
    for name, array in jax.device_get(on_device).items():
        if array.dtype.kind not in "biufcV" or array.dtype.itemsize > 8:
            raise GobiError(f"the leaf {name} cannot be saved: it is {_described(array)}")
        # safetensors writes the memory as it lies: an array with gaps or turned axes would be saved wrong.
        array = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.kind == "V":
            kinds[name] = array.dtype.name
            array = array.view(f"uint{8 * array.dtype.itemsize}")
        arrays[name] = array
    numbers = {name: leaf for name, leaf in leaves.items() if _is_number(leaf)}
    return safetensors.numpy.save(arrays), {"kinds": kinds, "numbers": numbers}


def unpack(packed: bytes, about: dict[str, dict[str, Any]], like: Any, source: str, within: str = "") -> Any:
    """The tree that `pack` took apart, in the structure of `like`.

    about:   the JSON part.
    like:    arrays or `jax.ShapeDtypeStruct`s. Where it holds NumPy arrays, so does the result; other arrays
             are put on the device. Leaves that are neither arrays nor numbers are taken from it.
    source:  where the bytes come from, for errors.
    within:  take only the leaves whose names begin so, and compare the rest of their names.
    """
    wanted = {name: leaf for name, leaf in _named_leaves(like).items() if _is_array(leaf) or _is_number(leaf)}
    everything: dict[str, Any] = {**safetensors.numpy.load(packed), **about["numbers"]}
    stored = {name.removeprefix(within): leaf for name, leaf in everything.items() if name.startswith(within)}
    _check_names(stored, wanted, source)
    restored = {}
    for name, leaf in wanted.items():
        value = _of_kind(stored[name], about["kinds"].get(within + name))
        there, here = _described(value), _described(leaf)
        if there != here:
            raise GobiError(f"{source} {UNFIT}: the leaf {name} is {there} there and {here} here")
        restored[name] = _placed_like(leaf, value)
    return jax.tree_util.tree_map_with_path(lambda path, leaf: restored.get(_name(path), leaf), like)


def _check_names(stored: dict[str, Any], wanted: dict[str, Any], source: str) -> None:
    """Refuses leaves too few and too many."""
    for names, what in (
        ([name for name in wanted if name not in stored], "lacks"),
        ([name for name in stored if name not in wanted], "has besides"),
    ):
        if names:
            leaf = wanted.get(names[0], stored.get(names[0]))
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise GobiError(f"{source} {UNFIT}: it {what} {names[0]}, {_described(leaf)}{more}")


def _of_kind(value: Any, kind: str | None) -> Any:
    if kind is None:
        return value
    if kind.startswith(KEY):
        return jax.random.wrap_key_data(jnp.array(value), impl=kind.removeprefix(KEY))
    return value.view(jnp.dtype(kind))


def _placed_like(leaf: Any, value: Any) -> Any:
    if _is_number(leaf) or _is_key(leaf):
        return value
    # Copied either way: the memory that safetensors gives is read-only, and JAX might go on using it.
    return np.array(value) if isinstance(leaf, np.ndarray | np.generic) else jnp.array(value)


def _described(leaf: Any) -> str:
    """The dtype and shape of a leaf, such as float32[3, 4]."""
    if _is_number(leaf):
        return f"a Python {type(leaf).__name__}"
    return f"{leaf.dtype.name}[{', '.join(map(str, leaf.shape))}]"


def _named_leaves(tree: Any) -> dict[str, Any]:
    pairs = [(_name(path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]
    leaves = dict(pairs)
    if len(leaves) != len(pairs):
        raise GobiError("two leaves of the tree have the same path: they could not be told apart in a file")
    return leaves


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path) or "(the only leaf)"


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _is_key(leaf: Any) -> bool:
    return _is_array(leaf) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic)
