"""What the specs of an optimizer's state cost, for states of 20,000 leaves and more.

Beside `ptk.optimizer_specs` stands a straightforward peer, as one would write it for a project: it
takes every node of the state apart in Python and holds the paths of its leaves against those of the
parameters. It knows less: no masks, nothing restored, no faults. Where it answers, the specs are
seen to be the same.

The state is one of shapes, and each call is of all: the specs are checked against the mesh, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P
from timing import best_times, finish, machine, options, print_table

import pytreekit as ptk

MESH = {"data": 2, "model": 4}
LAYERS, QUICK_LAYERS = 1_112, 4
ROUNDS, QUICK_ROUNDS = 7, 1
GOAL = 0.3
"""Seconds for a state of 20,000 leaves, of Adam; for the others it is what they need per leaf."""


class Case(NamedTuple):
    """An optimizer, and whether the peer knows its states."""

    name: str
    tx: Any
    has_peer: bool = True
    goal: float | None = GOAL


def is_kernel(params: Any) -> Any:
    return jax.tree.map(lambda leaf: len(leaf.shape) > 1, params)


CASES = [
    Case("adamw", optax.adamw(1e-3)),
    Case("adamw, restored as dicts", optax.adamw(1e-3), has_peer=False),
    Case("adamw, kernels alone", optax.masked(optax.adamw(1e-3), is_kernel), has_peer=False),
    Case("adafactor", optax.adafactor(1e-3), goal=None),
    Case("sm3", optax.sm3(1e-3), has_peer=False, goal=None),
]


def model(layers: int) -> Any:
    """Nine parameters for each layer."""

    def dense(*shape: int) -> Any:
        arrays = {"kernel": shape, "bias": shape[1:]}
        return {name: jax.ShapeDtypeStruct(its, jnp.float32) for name, its in arrays.items()}

    return {
        f"layer_{number}": {
            "attention": {"query": dense(512, 1024), "out": dense(1024, 512)},
            "mlp": {"up": dense(512, 2048), "down": dense(2048, 512)},
            "norm": jax.ShapeDtypeStruct((512,), jnp.float32),
        }
        for number in range(layers)
    }


def as_dicts(state: Any) -> Any:
    """A state without its types, as it comes from a file."""
    if isinstance(state, tuple):
        names = getattr(state, "_fields", range(len(state)))
        return {str(name): as_dicts(its) for name, its in zip(names, state, strict=True)}
    return {key: as_dicts(its) for key, its in state.items()} if isinstance(state, dict) else state


def peer(state: Any, params: Any, specs: Any) -> Any:
    """The specs, node by node: the first that has the paths of the parameters has their specs."""
    flatten = jax.tree_util.tree_flatten_with_path
    rows, structure = flatten(params)
    known = {
        path: (leaf.shape, spec)
        for (path, leaf), spec in zip(rows, structure.flatten_up_to(specs), strict=True)
    }
    found: dict[Any, P] = {}

    def visit(node: Any, path: tuple[Any, ...]) -> None:
        leaves = flatten(node)[0]
        if known.keys() == {below for below, _ in leaves}:
            for below, leaf in leaves:
                found[path + below] = follow(leaf.shape, *known[below])
            return
        for (key, *_), child in flatten(node, is_leaf=lambda its: its is not node)[0]:
            if hasattr(child, "shape"):
                found[(*path, key)] = P()
            else:
                visit(child, (*path, key))

    visit(state, ())
    rows, structure = flatten(state)
    return structure.unflatten([found[path] for path, _ in rows])


def follow(shape: tuple[int, ...], of: tuple[int, ...], spec: P) -> P:
    """The spec of a shape that may lack dimensions, all of which differ."""
    if shape == of:
        return spec
    axes = dict(zip(of, spec, strict=False))
    return P(*(axes.get(size) for size in shape)) if shape != (1,) else P()


def contenders(case: Case, layers: int) -> tuple[int, list[Callable[[], object]]]:
    """The leaves of a state, and ours and the peer, seen to agree."""
    params = model(layers)
    rules = [("kernel", "data model"), ("{bias,norm}", "model")]
    specs = ptk.partition_specs(params, rules, mesh=MESH)
    state = jax.eval_shape(case.tx.init, params)
    state = as_dicts(state) if "restored" in case.name else state
    functions = [lambda: ptk.optimizer_specs(state, params, specs, mesh=MESH)]
    if case.has_peer:
        functions.append(lambda: peer(state, params, specs))
        ours, theirs = (jax.tree.leaves(function()) for function in functions)
        if ours != theirs:
            raise AssertionError(f"{case.name}: the specs differ")
    return len(jax.tree.leaves(state)), functions


def main() -> None:
    """Print the table."""
    chosen = options(__doc__)
    layers, rounds = (QUICK_LAYERS, QUICK_ROUNDS) if chosen.quick else (LAYERS, ROUNDS)
    rows, missed = [], []
    for case in CASES:
        leaves, functions = contenders(case, layers)
        times = best_times(functions, rounds)
        seconds = times[0] / 1e6
        if case.goal is not None and seconds > case.goal:
            missed.append(f"{case.name}: {seconds:.2f} s, not {case.goal:.2f} s")
        goal = "" if case.goal is None else f"{case.goal * 1000:.0f}"
        told = [f"{time / 1000:.1f}" for time in times]
        others = [told[1], f"{times[1] / times[0]:.1f}x"] if case.has_peer else ["", ""]
        rows.append([case.name, f"{leaves:,}", told[0], goal, *others])
    print(machine("jax", "optax"), end="\n\n")
    print_table(["", "leaves", "ptk ms", "goal", "peer ms", "ratio"], rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
