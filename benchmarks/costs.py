"""What `method="auto"` estimates of each way to clip, beside what the way takes, of four models.

Estimated times have no unit: they are set to agree with the measured ones in the whole of a model.
"""

from __future__ import annotations

import math
from typing import Any

import jax
from per_example_models import MODELS, Model
from timing import best_times, finish, machine, mebibytes, options, print_table

import pytreekit as ptk
from pytreekit.gradients.estimates import CPU, Estimate, Estimates
from pytreekit.gradients.reading import read

ROUNDS = 15
QUICK_ROUNDS = 1
AUTO_GOAL = 1.1
CHUNKS = (4, 8, 16)
WAYS: dict[str, dict[str, Any]] = {
    "materialize": {},
    "ghost": {},
    "two_pass": {},
    "chunked, 16": {"method": "chunked", "chunk_size": 16},
    **{f"materialize, {its}": {"method": "materialize", "chunk_size": its} for its in CHUNKS},
    **{f"ghost, {its}": {"method": "ghost", "chunk_size": its} for its in CHUNKS},
    "auto": {},
}


def estimated(model: Model) -> dict[str, Estimate]:
    """What each way is estimated to take."""
    clipped = ptk.clipped_grad(model.loss, 1.0)
    plan = clipped.plan(model.params, model.batch)
    work = read(clipped._mapped, (model.params, model.batch), {}).work  # noqa: SLF001
    assert work is not None
    estimates = Estimates(work, plan.axis_size, CPU)
    found = {
        name: estimates.of(way.get("method", name), way.get("chunk_size"))
        for name, way in WAYS.items()
        if name != "auto"
    }
    return {**found, "auto": estimates.of(plan.method, plan.chunk_size)}


def measured(model: Model, rounds: int) -> dict[str, tuple[float, float]]:
    """The milliseconds and the MiB that each way takes."""
    given = model.params, model.batch
    compiled = {}
    for name, way in WAYS.items():
        over = ptk.clipped_grad(model.loss, 1.0, **{"method": name, **way})
        first = jax.jit(lambda params, batch, over=over: over(params, batch)[0])
        compiled[name] = first.lower(*given).compile()
    calls = [lambda way=way: jax.block_until_ready(way(*given)) for way in compiled.values()]
    times = best_times(calls, rounds)
    return {
        name: (time / 1000, mebibytes(its))
        for (name, its), time in zip(compiled.items(), times, strict=True)
    }


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    rows, missed = [], []
    for make in MODELS:
        model = make()
        found = measured(model, QUICK_ROUNDS if chosen.quick else ROUNDS)
        wanted = estimated(model)
        logs = [math.log(found[name][0] / its.cost) for name, its in wanted.items()]
        unit = math.exp(sum(logs) / len(logs))
        for name, its in wanted.items():
            time, size = found[name]
            chunk = f" ({its.method}, {its.chunk_size or 'all'})" * (name == "auto")
            cells = [f"{time:.1f}", f"{its.cost * unit:.1f}", f"{size:.1f}"]
            rows.append([f"{model.name}: {name}{chunk}", *cells, f"{its.memory / 2**20:.1f}"])
        best = min(time for time, _ in found.values())
        ratio = found["auto"][0] / best
        rows.append([f"{model.name}: auto over the best", f"{ratio:.2f}x", "", "", ""])
        if ratio > AUTO_GOAL:
            missed.append(f"{model.name}: auto takes {ratio:.2f}x the time of the best way")
    print(machine("jax"), end="\n\n")
    print_table(["", "ms", "estimated", "MiB", "estimated"], rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
