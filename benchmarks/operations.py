"""Operations of the matrix products of a program, and how many a machine can make per second.

    python benchmarks/operations.py

prints counts of small programs beside those made by hand, and beside XLA's own. XLA's `cost_analysis` counts
the body of a loop once, however often it turns. Here a scan's counts as often as it is long, and a loop that
decides for itself when to end is run, and its turns are counted.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import partial_eval

INLINED = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
)
"""Primitives that are nothing but the program within."""


def main() -> None:
    """Prints counts beside those that are known otherwise."""
    left, right = jnp.ones((30, 20)), jnp.ones((20, 10))
    product = 2 * 30 * 20 * 10

    def scanned(x):
        return jax.lax.scan(lambda c, _: (c + jnp.sum(x @ right), None), 0.0, length=7)[0]

    def looped(x):
        return jax.lax.while_loop(
            lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] + jnp.sum(x @ right)), (0, 0.0)
        )

    def ending(x, end):
        return jax.lax.while_loop(
            lambda c: c[0] < end, lambda c: (c[0] + 1, c[1] + jnp.sum(x @ right)), (0, 0.0)
        )

    def nested(x):
        return jax.jit(jax.vmap(ending))(jnp.stack([x, x]), jnp.array([3, 6]))

    for name, function, expected in (
        ("a product", lambda x: x @ right, product),
        ("7 turns of a scan", scanned, 7 * product),
        ("5 turns of a loop", looped, 5 * product),
        ("3 and 6 turns side by side", nested, 2 * 6 * product),
        ("forwards and backwards", jax.grad(lambda x: jnp.sum((x @ right) ** 2)), 2 * product),
        ("two, one of which no result needs", lambda x: (x @ right, x @ left.T)[0], product),
    ):
        by_xla = (jax.jit(function).lower(left).compile().cost_analysis() or {}).get("flops", float("nan"))
        print(f"{name}: {counted(function, left):,.0f}, by hand {expected:,}, by XLA {by_xla:,.0f}")


def counted(function: Callable[..., Any], *arguments: Any) -> float:
    """Operations of the matrix products that a function makes of these arguments; it is run to tell."""
    program = traced(function, *arguments)

    @jax.jit
    def count(*leaves):
        return _run(program.jaxpr, program.consts, leaves)[1]

    return float(count(*jax.tree.leaves(arguments)))


def traced(function: Callable[..., Any], *arguments: Any) -> Any:
    """The program of a function for such arguments. What no result needs is left out, as XLA does."""
    whole = jax.make_jaxpr(function)(*arguments)
    needed, _ = partial_eval.dce_jaxpr(whole.jaxpr, [True] * len(whole.jaxpr.outvars), instantiate=True)
    consts = dict(zip(whole.jaxpr.constvars, whole.consts, strict=True))
    return core.ClosedJaxpr(needed, [consts[variable] for variable in needed.constvars])


def products(jaxpr: Any, times: int = 1) -> Iterator[tuple[int, int, int]]:
    """Every matrix product of a program: how often it runs, its operations, its bytes.

    A scan runs its body as often as it is long. Loops of unknown length count as one turn, branches all.
    """
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            left, right = (variable.aval for variable in equation.invars)
            (contracted, _), _ = equation.params["dimension_numbers"]
            result = equation.outvars[0].aval
            inner = math.prod(left.shape[axis] for axis in contracted)
            size = sum(math.prod(a.shape) * a.dtype.itemsize for a in (left, right, result))
            yield times, 2 * math.prod(result.shape) * inner, size
        inside = times * equation.params["length"] if equation.primitive.name == "scan" else times
        for program in _programs(equation):
            yield from products(program, inside)


def product_rate(dtype: Any, size: int | None = None) -> float:
    """Operations per second of products of large random matrices."""
    on_cpu = jax.default_backend() == "cpu"
    size = size or (2048 if on_cpu else 8192)
    left, right = (jax.random.normal(jax.random.key(i), (size, size), dtype) for i in range(2))

    def multiply(x):
        return (jnp.matmul(x, right, preferred_element_type=jnp.float32) / size**0.5).astype(dtype)

    return 2 * size**3 / seconds(multiply, left, turns=3 if on_cpu else 10)


def seconds(function: Callable[[Any], Any], start: Any, turns: int = 10, repeats: int = 5) -> float:
    """The median time of a call, of many in a row on the device: what starting one costs is left out."""
    many = jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, x: function(x), x))
    jax.block_until_ready(many(start))
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(many(start))
        times.append(time.perf_counter() - begun)
    return statistics.median(times) / turns


def _run(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> tuple[list[Any], Any]:
    """What a program gives, and the operations of its products."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    total: Any = jnp.float32(0)
    for equation in jaxpr.eqns:
        variables = [atom for atom in equation.invars if not isinstance(atom, core.Literal)]
        alone = jaxpr.replace(constvars=[], invars=variables, outvars=equation.outvars, eqns=[equation])
        results, operations = _equation(equation, alone, [read(atom) for atom in equation.invars])
        total = total + operations
        values |= zip(equation.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars], total


def _equation(equation: Any, alone: Any, inputs: list[Any]) -> tuple[list[Any], Any]:
    """The same of one equation, and of the program that consists of it."""
    name = equation.primitive.name
    if name == "while" and _decides(alone):
        return _loop(equation.params, inputs)
    if _decides(alone):
        if name not in INLINED:
            raise NotImplementedError(f"a loop with products, of unknown length, within {name}")
        (program,) = (part for part in equation.params.values() if isinstance(part, core.ClosedJaxpr))
        return _run(program.jaxpr, program.consts, inputs)
    given = [
        value
        for value, atom in zip(inputs, equation.invars, strict=True)
        if not isinstance(atom, core.Literal)
    ]
    results = core.jaxpr_as_fun(core.ClosedJaxpr(alone, []))(*given)
    return results, jnp.float32(sum(times * operations for times, operations, _ in products(alone)))


def _loop(parameters: dict[str, Any], inputs: list[Any]) -> tuple[list[Any], Any]:
    """The same of a loop of unknown length, whose turns are counted."""
    going_on, body = parameters["cond_jaxpr"], parameters["body_jaxpr"]
    first, second = parameters["cond_nconsts"], parameters["cond_nconsts"] + parameters["body_nconsts"]
    fixed_of_end, fixed, start = inputs[:first], inputs[first:second], inputs[second:]

    def on(carry):
        return core.jaxpr_as_fun(going_on)(*fixed_of_end, *carry[1])[0]

    def turn(carry):
        after = core.jaxpr_as_fun(body)(*fixed, *carry[1])
        # Under `vmap` there is an answer for each row, and those that have ended stay as they are.
        going = on(carry)
        kept = [
            jnp.where(going.reshape(going.shape + (1,) * (new.ndim - going.ndim)), new, old)
            for new, old in zip(after, carry[1], strict=True)
        ]
        return carry[0] + 1, kept

    turns, results = jax.lax.while_loop(lambda carry: jnp.any(on(carry)), turn, (jnp.int32(0), start))
    each = sum(times * operations for times, operations, _ in products(body.jaxpr))
    return results, turns * jnp.float32(each)


def _decides(jaxpr: Any) -> bool:
    """Whether there is a loop of unknown length, with products in it, below."""
    for equation in jaxpr.eqns:
        within = list(_programs(equation))
        if equation.primitive.name == "while" and any(True for part in within for _ in products(part)):
            return True
        if any(map(_decides, within)):
            return True
    return False


def _programs(equation: Any) -> Iterator[Any]:
    """The programs that an equation runs."""
    parameters = tuple(equation.params.values())
    for value in jax.tree.leaves(
        parameters, is_leaf=lambda part: isinstance(part, core.Jaxpr | core.ClosedJaxpr)
    ):
        if isinstance(value, core.ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, core.Jaxpr):
            yield value


if __name__ == "__main__":
    main()
