"""How the cost of ghost clipping grows: with the batch, the sequence, and the number of layers.

Beside the gradient of the mean: time, memory, and the seconds to plan and to compile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from per_example import CLIP, plain
from per_example_models import Model, mlp, transformer
from timing import best_times, finish, machine, mebibytes, options, print_table

import pytreekit as ptk

ROUNDS = 5
PLAN_GOAL = 5.0
"""Seconds to plan a model of 200 layers."""


def deep(layers: int, width: int = 64, examples: int = 32) -> Model:
    """As many layers, each with its own parameters, one after the other."""
    keys = jax.random.split(jax.random.key(0), layers + 1)
    params = [
        {"w": jax.random.normal(key, (width, width)) / width**0.5, "b": jnp.zeros(width)}
        for key in keys[:-1]
    ]

    def loss(params: Any, x: Array) -> Array:
        for layer in params:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return jnp.sum(x**2)

    return Model(f"{layers} layers", loss, params, jax.random.normal(keys[-1], (examples, width)))


def models(*, quick: bool) -> Iterator[tuple[str, Callable[[], Model]]]:
    """What grows, and the models that it makes."""
    for size in (1, 8) if quick else (1, 4, 16, 64, 256, 1024):
        yield f"MLP, batch {size:,}", lambda size=size: mlp(examples=size)
    for size in (16,) if quick else (16, 64, 256, 1024):
        yield (
            f"transformer block, {size:,} tokens",
            lambda size=size: transformer(length=size, examples=4),
        )
    for size in (2,) if quick else (2, 10, 50, 200):
        yield f"{size} layers", lambda size=size: deep(size)


def measured(model: Model, rounds: int) -> tuple[list[str], float]:
    """A row of the table, and the seconds to plan."""
    given = model.params, model.batch
    ghost = ptk.clipped_grad(model.loss, CLIP, method="ghost")
    start = time.perf_counter()
    ghost.plan(*given)
    planning = time.perf_counter() - start
    compiled, seconds = [], []
    for way in (plain(model), lambda *given: ghost(*given)[0]):
        lowered = jax.jit(way).lower(*given)
        start = time.perf_counter()
        compiled.append(lowered.compile())
        seconds.append(time.perf_counter() - start)
    calls = [lambda way=way: jax.block_until_ready(way(*given)) for way in compiled]
    its, ours = best_times(calls, rounds)
    memory = [mebibytes(way) for way in compiled]
    cells = [f"{its / 1000:.2f}", f"{ours / 1000:.2f}", f"{ours / its:.2f}x"]
    cells += [f"{memory[1] / memory[0]:.2f}x", f"{planning:.2f}"]
    return [*cells, f"{seconds[1]:.2f}", f"{seconds[1] / seconds[0]:.2f}x"], planning


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    rows, missed = [], []
    for name, make in models(quick=chosen.quick):
        cells, planning = measured(make(), 1 if chosen.quick else ROUNDS)
        rows.append([name, *cells])
        if planning > PLAN_GOAL:
            missed.append(f"{name}: planning takes {planning:.1f} s")
    print(machine("jax"), end="\n\n")
    head = ["", "plain ms", "ghost ms", "ratio", "memory", "plan s", "compile s", "ratio"]
    print_table(head, rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
