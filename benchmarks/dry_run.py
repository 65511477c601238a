"""Time of `ptk.dry_run` beside bare `lower().compile()`, for a model of 12 GB on 64 devices.

The model has 24 layers of width 4096, in one loop. Both ways are in one process that simulates the
devices, each as often as the other, and each time with another learning rate, so that nothing is
known from before. A second table has the dry run alone of shapes like those of a model of 70B on
256 devices, from a process that has one, with `--large`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from timing import finish, machine, options, print_table

GOAL = 1.3
RUNS, QUICK_RUNS = 3, 1
SIZES = {"full": (24, 4096, 16384, 256, 2048, 64), "quick": (2, 64, 128, 32, 16, 16)}
HEAD = 128
LARGE = (80, 8192, 28672, 128, 4096, 256)


def problem(sizes: tuple[int, ...], rate: float) -> Any:
    """A training step of a stack of layers, and the shapes of its arguments."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    import pytreekit as ptk

    layers, width, hidden, batch, length, devices = sizes
    mesh = {"data": devices // 8, "model": 8}
    inner = {"gate": hidden, "up": hidden, "query": width, "key": width, "value": width}
    sizes_of = {name: (layers, width, size) for name, size in inner.items()}
    sizes_of |= {"out": (layers, width, width), "down": (layers, hidden, width)}
    shapes = {name: jax.ShapeDtypeStruct(its, jnp.bfloat16) for name, its in sizes_of.items()}
    rules = [("{out,down}", "_ model data"), ("*", "_ data model")]
    plan = ptk.ShardingPlan(shapes, rules, mesh)
    x = jax.ShapeDtypeStruct((batch, length, width), jnp.bfloat16)
    x = ptk.ShardingPlan(x, P("data"), mesh).abstract()

    def layer(h: Any, its: Any) -> Any:
        heads = (*h.shape[:2], max(width // HEAD, 1), min(HEAD, width))
        query, key, value = ((h @ its[name]).reshape(heads) for name in ("query", "key", "value"))
        h = h + jax.nn.dot_product_attention(query, key, value).reshape(h.shape) @ its["out"]
        return h + (jax.nn.silu(h @ its["gate"]) * (h @ its["up"])) @ its["down"], None

    def loss(params: Any, x: Any) -> Any:
        h, _ = jax.lax.scan(jax.checkpoint(layer), x, params)
        return jnp.mean(h.astype(jnp.float32) ** 2)

    def train(params: Any, x: Any) -> Any:
        grads = jax.grad(loss)(params, x)
        return jax.tree.map(lambda w, g: (w - rate * g).astype(w.dtype), params, grads)

    return jax.jit(train, donate_argnums=0), (plan.abstract(), x), plan


def bare(sizes: tuple[int, ...], rate: float) -> float:
    """The seconds that JAX takes."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding

    step, args, plan = problem(sizes, rate)
    shape = tuple(plan.mesh.shape.values())
    mesh = Mesh(np.array(jax.devices()).reshape(shape), plan.mesh.axis_names)

    def placed(leaf: Any) -> Any:
        sharding = NamedSharding(mesh, leaf.sharding.spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    args = jax.tree.map(placed, args)
    start = time.perf_counter()
    step.lower(*args).compile()
    return time.perf_counter() - start


def dry(sizes: tuple[int, ...], rate: float) -> tuple[float, Any]:
    """The seconds that a dry run takes, and what it tells."""
    import pytreekit as ptk

    step, args, _ = problem(sizes, rate)
    start = time.perf_counter()
    run = ptk.dry_run(step, *args)
    return time.perf_counter() - start, run


def one_process(sizes: tuple[int, ...], runs: int) -> None:
    """Measure both ways in this process, and print the seconds and what was found."""
    rows = []
    for number in range(runs):
        theirs = bare(sizes, 0.1 + number)
        ours, run = dry(sizes, 0.2 + number)
        rows.append([theirs, ours])
    print(json.dumps([*map(min, zip(*rows, strict=True)), *told(run)]))


def told(run: Any) -> list[Any]:
    """Of a dry run: the collectives, the bytes sent, the peak."""
    return [sum(one.times for one in run.collectives), run.communication, run.memory.peak]


def measured(sizes: tuple[int, ...], runs: int) -> list[Any]:
    """Both ways, in a process with as many devices."""
    flags = f"--xla_force_host_platform_device_count={sizes[-1]}"
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--one", json.dumps(sizes), str(runs)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return json.loads(run.stdout)


def main() -> None:
    """Print the table."""
    large = "--large" in sys.argv
    if large:
        sys.argv.remove("--large")
    chosen = options(__doc__)
    runs = QUICK_RUNS if chosen.quick else RUNS
    sizes = SIZES["quick" if chosen.quick else "full"]
    theirs, ours, count, sent, peak = measured(sizes, runs)
    ratio = ours / theirs
    name = f"{sizes[0]} layers of {sizes[1]:,} on {sizes[-1]}"
    figures = [f"{count:,}", f"{sent / 2**30:,.1f}", f"{peak / 2**30:,.1f}"]
    row = [name, f"{theirs:.2f}", f"{ours:.2f}", f"{ratio:.2f}x", f"{GOAL:.1f}x", *figures]
    rows = [row]
    if large:
        seconds, run = dry(LARGE, 0.1)
        count, sent, peak = told(run)
        figures = [f"{count:,}", f"{sent / 2**30:,.1f}", f"{peak / 2**30:,.1f}"]
        rows.append([f"70B on {LARGE[-1]}", "", f"{seconds:.2f}", "", "", *figures])
    head = ["", "jax s", "ptk.dry_run s", "ratio", "goal", "collectives", "sent GiB", "peak GiB"]
    print(machine("jax"), end="\n\n")
    print_table(head, rows)
    missed = [name] if ratio > GOAL and not chosen.quick else []
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    if "--one" in sys.argv:
        one_process(tuple(json.loads(sys.argv[2])), int(sys.argv[3]))
    else:
        main()
