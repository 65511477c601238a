"""Time and memory of clipped gradients over those of an ordinary one, of five models.

Beside `ptk.clipped_grad` stands what one would write by hand, `jit(vmap(grad))` and a clip, and
jax_privacy where it is installed. Memory is what XLA says that temporaries and outputs take. The
last two columns are the seconds to compile.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from per_example_models import MODELS, Model
from timing import best_times, finish, machine, mebibytes, options, print_table

import pytreekit as ptk

ROUNDS = 15
QUICK_ROUNDS = 1
CLIP = 1.0
TIME_GOAL = 1.05
MEMORY_GOAL = 1.3
PLAIN, BY_HAND, MATERIALIZE = "not clipped", "by hand", "materialize"
UNSAFE, ONE_BY_ONE = "materialize, nan_safe=False", "chunked, chunk_size=1"

Way = Callable[[Any, Any], Any]


def plain(model: Model) -> Way:
    """The gradient of the mean."""

    def mean(params: Any, batch: Any) -> Any:
        return jax.vmap(model.loss, (None, 0))(params, batch).mean()

    return jax.grad(mean)


def by_hand(model: Model) -> Way:
    """Gradients side by side, clipped and added up; NaN in one makes all NaN."""

    def clipped(params: Any, batch: Any) -> Any:
        gradients = jax.vmap(jax.grad(model.loss), (None, 0))(params, batch)
        squares = [
            jnp.square(leaf).sum(axis=range(1, leaf.ndim)) for leaf in jax.tree.leaves(gradients)
        ]
        weights = jnp.minimum(1, CLIP / jnp.sqrt(sum(squares)))
        return jax.tree.map(lambda leaf: jnp.einsum("b,b...->...", weights, leaf), gradients)

    return clipped


def ours(model: Model, **chosen: Any) -> Way:
    """`ptk.clipped_grad`."""
    clipped = ptk.clipped_grad(model.loss, CLIP, **chosen)
    return lambda params, batch: clipped(params, batch)[0]


def ways(model: Model) -> dict[str, Way]:
    """All that are compared."""
    found = {
        PLAIN: plain(model),
        BY_HAND: by_hand(model),
        MATERIALIZE: ours(model, method="materialize"),
        UNSAFE: ours(model, method="materialize", nan_safe=False),
        "auto": ours(model),
        "ghost": ours(model, method="ghost"),
        "two_pass": ours(model, method="two_pass"),
        "chunked": ours(model, method="chunked"),
        ONE_BY_ONE: ours(model, method="chunked", chunk_size=1),
    }
    if importlib.util.find_spec("jax_privacy"):
        from jax_privacy import clipping

        found["jax_privacy"] = clipping.clipped_grad(
            model.loss, l2_clip_norm=CLIP, keep_batch_dim=False
        )
    return found


def measured(model: Model, rounds: int) -> dict[str, tuple[float, float, float]]:
    """The milliseconds and the MiB that each way takes, and the seconds to compile it."""
    given = model.params, model.batch
    compiled, seconds = {}, []
    for name, way in ways(model).items():
        lowered, start = jax.jit(way).lower(*given), time.perf_counter()
        compiled[name] = lowered.compile()
        seconds.append(time.perf_counter() - start)
    check_alike(model, {name: way(*given) for name, way in compiled.items() if name != PLAIN})
    calls = [lambda way=way: jax.block_until_ready(way(*given)) for way in compiled.values()]
    times = best_times(calls, rounds)
    memory = [mebibytes(way) for way in compiled.values()]
    return {
        name: (its / 1000, size, compiling)
        for name, its, size, compiling in zip(compiled, times, memory, seconds, strict=True)
    }


def check_alike(model: Model, gradients: dict[str, Any]) -> None:
    """All of them compute the same."""
    for name, gradient in gradients.items():
        near = jax.tree.map(
            lambda one, other: jnp.allclose(one, other, rtol=1e-3, atol=1e-4),
            gradient,
            gradients[BY_HAND],
        )
        if not all(map(bool, jax.tree.leaves(near))):
            raise AssertionError(f"{model.name}: {name} differs from what is written by hand")


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    rows, missed = [], []
    for make in MODELS:
        model = make()
        found = measured(model, QUICK_ROUNDS if chosen.quick else ROUNDS)
        milliseconds, size, seconds = found[PLAIN]
        for name, (its_time, its_size, its_seconds) in found.items():
            by_its_hand = f"{its_time / found[BY_HAND][0]:.2f}x"
            cells = [f"{its_time:.1f}", f"{its_time / milliseconds:.2f}x", by_its_hand]
            cells += [f"{its_size:.1f}", f"{its_size / size:.2f}x"]
            cells += [f"{its_seconds:.1f}", f"{its_seconds / seconds:.2f}x"]
            rows.append([f"{model.name}: {name}", *cells])
        for name in (MATERIALIZE, UNSAFE):
            ratio = found[name][0] / found[BY_HAND][0]
            if ratio > TIME_GOAL:
                missed.append(f"{model.name}: {name} takes {ratio:.2f}x the time by hand")
        if found[ONE_BY_ONE][1] > MEMORY_GOAL * size:
            ratio = found[ONE_BY_ONE][1] / size
            missed.append(f"{model.name}: {ONE_BY_ONE} takes {ratio:.2f}x the memory")
    print(machine("jax"), end="\n\n")
    print_table(["", "ms", "of plain", "by hand", "MiB", "of plain", "s", "of plain"], rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
