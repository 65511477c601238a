"""What a tree of PartitionSpecs by `ptk.partition_specs` costs, with all checks.

Beside it stand what any such tool does at the least (the paths of all leaves as text, by
`tree_flatten_with_path` and `keystr`), and the same rules alone, whose values nobody reads.
Each call is of new rules over a tree that they have not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from rules import GLOBS, model, texts
from timing import best_times, finish, machine, options, print_table

import pytreekit as ptk

MESH = {"fsdp": 4, "model": 2}
SHAPES = {
    "kernel": (64, 256),
    "bias": (256,),
    "scale": (64,),
    "wi": (8, 64, 256),
    "table": (1024, 64),
}
ROUNDS = {1_000: 40, 10_000: 12, 100_000: 4}
QUICK_ROUNDS = {1_000: 1}
GOAL = 1.25


def params(leaves: int) -> Any:
    """A parameter tree of so many leaves, of shapes alone."""
    arrays = {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in SHAPES.items()}
    paths = jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key, model(leaves))
    return jax.tree.map(arrays.__getitem__, paths)


def contenders(leaves: int) -> list[Callable[[], object]]:
    """The texts, the rules, the specs; and the specs as JAX is given them, checked."""
    tree = params(leaves)
    pairs = [(glob, "... fsdp model" if "kernel" in glob else "replicate") for glob in GLOBS]
    specs = ptk.partition_specs(tree, pairs, mesh=MESH)
    return [
        lambda: texts(tree),
        lambda: ptk.Rules(pairs)(tree),
        lambda: ptk.partition_specs(tree, pairs, mesh=MESH),
        lambda: ptk.fsdp_specs(tree, specs, mesh=MESH, min_size=1),
        lambda: ptk.check_shardings(tree, specs, mesh=MESH),
    ]


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    rounds = QUICK_ROUNDS if chosen.quick else ROUNDS
    rows, missed = [], []
    for leaves in rounds:
        least, *others = best_times(contenders(leaves), rounds[leaves])
        ratios = [time / least for time in others]
        name = f"{leaves:,} leaves"
        if ratios[1] > GOAL:
            missed.append(f"{name}: {ratios[1]:.2f}x, not {GOAL:.2f}x")
        told = [f"{ratio:.2f}x" for ratio in ratios]
        rows.append([name, f"{least / 1000:.2f}", *told[:2], f"{GOAL:.2f}x", *told[2:]])
    print(machine("jax"), end="\n\n")
    head = ["", "texts ms", "rules", "specs", "goal", "fsdp_specs", "check_shardings"]
    print_table(head, rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
