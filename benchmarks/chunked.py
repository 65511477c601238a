"""Time and temporaries of `ptk.vmap(chunk_size=...)`, of `jax.lax.map(batch_size=...)`, of neither.

The function is nonlinear, and its intermediate values are much larger than what it takes and gives,
as is why one chunks. All are compiled; lax.map maps the leading axis alone, so that for another one
it is given a function that moves it, as a user would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from timing import best_times, finish, machine, options, print_table

import pytreekit as ptk

ROUNDS = 60
QUICK_ROUNDS, QUICK_PART = 1, 16
TIME_GOAL = 1.05
MEMORY_GOAL = 1.0


class Case(NamedTuple):
    """How many examples of how many features, the axis that they lie on, and the chunk."""

    name: str
    examples: int
    axis: int
    chunk: int
    gradient: bool = False
    remat: bool = False


CASES = (
    Case("axis 0, no remainder", 4096, 0, 256),
    Case("axis 0, a remainder", 4000, 0, 256),
    Case("axis 1, no remainder", 4096, 1, 256),
    Case("axis 1, a remainder", 4000, 1, 256),
    Case("gradient", 4096, 0, 256, gradient=True),
    Case("gradient, remat=True", 4096, 0, 256, gradient=True, remat=True),
)
FEATURES, HIDDEN = 64, 1024


def smaller(case: Case) -> Case:
    """The same with few examples."""
    examples, chunk = case.examples // QUICK_PART, case.chunk // QUICK_PART
    return case._replace(examples=examples, chunk=chunk)


def predict(w: Any, x: Any) -> Any:
    """One example: a wide hidden layer."""
    return jnp.tanh(x @ w) @ w.T


def contenders(case: Case) -> tuple[list[Any], tuple[Any, Any]]:
    """The three ways, compiled, and what to call them with."""
    w = jnp.linspace(-1, 1, FEATURES * HIDDEN).reshape(FEATURES, HIDDEN) / FEATURES
    shape = (case.examples, FEATURES) if case.axis == 0 else (FEATURES, case.examples)
    xs = jnp.linspace(-1, 1, case.examples * FEATURES).reshape(shape)

    def by_lax_map(w: Any, xs: Any) -> Any:
        in_front = jnp.moveaxis(xs, case.axis, 0)
        return jax.lax.map(lambda x: predict(w, x), in_front, batch_size=case.chunk)

    at_once = jax.vmap(predict, in_axes=(None, case.axis))
    in_axes = (None, case.axis)
    chunked = ptk.vmap(predict, in_axes=in_axes, chunk_size=case.chunk, remat=case.remat)
    ways = [at_once, by_lax_map, chunked]
    if case.gradient:
        ways = [jax.grad(lambda w, xs, way=way: way(w, xs).sum()) for way in ways]
    compiled = [jax.jit(way).lower(w, xs).compile() for way in ways]
    outputs = [way(w, xs) for way in compiled]
    if not all(bool(jnp.allclose(outputs[0], out, rtol=1e-4, atol=1e-4)) for out in outputs):
        raise AssertionError(f"{case.name}: the results differ")
    return compiled, (w, xs)


def called(compiled: Any, given: tuple[Any, Any]) -> Callable[[], object]:
    """A call that waits for its result."""
    return lambda: jax.block_until_ready(compiled(*given))


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    rows, missed = [], []
    for case in map(smaller, CASES) if chosen.quick else CASES:
        compiled, given = contenders(case)
        rounds = QUICK_ROUNDS if chosen.quick else ROUNDS
        times = best_times([called(way, given) for way in compiled], rounds)
        taken = [way.memory_analysis().temp_size_in_bytes / 2**20 for way in compiled]
        time_ratio, memory_ratio = times[2] / times[1], taken[2] / taken[1]
        if time_ratio > TIME_GOAL and not case.remat:
            missed.append(f"{case.name}: {time_ratio:.2f}x the time of lax.map")
        if memory_ratio > MEMORY_GOAL:
            missed.append(f"{case.name}: {memory_ratio:.2f}x the temporaries of lax.map")
        cells = [f"{time / 1000:.2f}" for time in times] + [f"{time_ratio:.2f}x"]
        cells += [f"{size:.2f}" for size in taken] + [f"{memory_ratio:.2f}x"]
        rows.append([case.name, *cells])
    print(machine("jax"), end="\n\n")
    head = ["", "at once ms", "lax.map ms", "ptk ms", "ratio"]
    print_table([*head, "at once MiB", "lax.map MiB", "ptk MiB", "ratio"], rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
