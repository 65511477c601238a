"""Time and peak memory of `ptk.ShardingPlan.place` beside `jax.device_put`, for a tree of 1 GB.

Each way has a process of its own, with eight simulated devices, whose memory is that of the host:
what is placed takes the size of the tree once more, and what is above it is what placing costs.
The tree is in memory, or in a file that is mapped into it and read when it is placed.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import finish, machine, options, print_table

LEAVES, ROWS, COLUMNS = 16, 4096, 4096
QUICK_ROWS = 64
RUNS = 7
QUICK_RUNS = 1
TIME_GOAL, MEMORY_GOAL = 1.25, 1.05
WAYS = ("jax.device_put", "plan.place", "jax.device_put, mapped", "plan.place, mapped")


def tree_of(rows: int, folder: str) -> dict[str, Any]:
    """A tree of so many rows in each leaf, in memory or in files of a folder."""
    import numpy as np

    tree: dict[str, Any] = {}
    for number in range(LEAVES):
        if not folder:
            tree[f"w{number}"] = np.full((rows, COLUMNS), number, np.float32)
            continue
        path = Path(folder) / f"w{number}.npy"
        if not path.exists():
            np.save(path, np.full((rows, COLUMNS), number, np.float32))
        tree[f"w{number}"] = np.load(path, mmap_mode="r")
    return tree


def one_run(way: str, rows: int, folder: str) -> None:
    """Place a tree once, and print the seconds and the bytes that it took."""
    import jax

    import pytreekit as ptk

    tree = tree_of(rows, folder if "mapped" in way else "")
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    rules = [("w{0,1,2,3,4,5,6,7}", "data model"), ("**", "_ data+model")]
    plan = ptk.ShardingPlan(tree, rules, mesh)
    small = {name: leaf[:8] for name, leaf in tree.items()}
    jax.block_until_ready(ptk.ShardingPlan(small, rules, mesh).place(small))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    ours = way.startswith("plan")
    placed = plan.place(tree) if ours else jax.device_put(tree, plan.shardings)
    jax.block_until_ready(placed)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if plan.verify(placed):
        raise AssertionError("it is not where it should be")
    print(json.dumps([seconds, peak * 1024]))


def measured(way: str, rows: int, folder: str) -> list[float]:
    """The seconds and bytes of one way, in a process of its own."""
    flags = "--xla_force_host_platform_device_count=8"
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--one", way, str(rows), folder]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return json.loads(run.stdout)


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    rows = QUICK_ROWS if chosen.quick else ROWS
    size = LEAVES * rows * COLUMNS * 4
    ways = WAYS[:2] if chosen.quick else WAYS
    found: dict[str, list[list[float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(QUICK_RUNS if chosen.quick else RUNS):
            for way in ways:
                found[way].append(measured(way, rows, folder))
    best = {way: [min(column) for column in zip(*runs, strict=True)] for way, runs in found.items()}
    table, missed = [], []
    for way, (seconds, peak) in best.items():
        theirs = best[way.replace("plan.place", "jax.device_put")]
        ratios = [seconds / theirs[0], peak / max(theirs[1], 1)]
        told = [f"{seconds:.2f}", f"{ratios[0]:.2f}x", f"{peak / 2**20:,.0f}", f"{ratios[1]:.2f}x"]
        table.append([way, *told])
        if ratios[0] > TIME_GOAL or ratios[1] > MEMORY_GOAL:
            missed.append(f"{way}: {ratios[0]:.2f}x the time, {ratios[1]:.2f}x the memory")
    print(machine("jax"), f"; a tree of {size / 2**20:,.0f} MiB", sep="", end="\n\n")
    print_table(["", "s", "ratio", "peak MiB", "ratio"], table)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one_run(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main()
