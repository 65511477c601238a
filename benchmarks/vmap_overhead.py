"""What a call of `ptk.vmap` costs beside `jax.vmap` and `equinox.filter_vmap`.

The function that is mapped does nothing, so that only the cost of mapping is timed: the least
favourable case, since any work of the function's own is the same for all three. A second table
has what annotations cost once they have been found to fit, beside `ptk.vmap` without any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from timing import best_times, finish, machine, options, print_table

import pytreekit as ptk

ROUNDS = 200
QUICK_ROUNDS = 2


class Case(NamedTuple):
    """A number of leaves beside one mapped array, whether they are mapped, and the goal."""

    name: str
    leaves: int
    mapped: bool
    goal: float | None = None
    way: str = "called"


CASES = (
    Case("1 mapped leaf", 0, True, 1.05),
    Case("5 mapped leaves", 4, True, 1.05),
    Case("20 mapped leaves", 19, True, 1.05),
    Case("200 mapped leaves", 199, True),
    Case("2,000 mapped leaves", 1999, True),
    Case("20 shared leaves, 1 mapped", 20, False, 0.75),
    Case("200 shared leaves, 1 mapped", 200, False, 0.3),
    Case("2,000 shared leaves, 1 mapped", 2000, False, 0.12),
    Case("by name: 1 mapped leaf", 0, True, 1.05, "by name"),
    Case("by name: 20 mapped leaves", 19, True, 1.05, "by name"),
    Case("by name: 20 shared leaves", 20, False, 0.75, "by name"),
    Case("by name: 200 shared leaves", 200, False, 0.3, "by name"),
    Case("by name: 2,000 shared leaves", 2000, False, 0.12, "by name"),
    Case("under jit: 20 mapped leaves", 19, True, 1.05, "jitted"),
    Case("under jit: 200 shared leaves", 200, False, 1.05, "jitted"),
    Case("wrapped for one call: 1 mapped", 0, True, None, "wrapped"),
    Case("wrapped for one call: 20 shared", 20, False, None, "wrapped"),
    Case("wrapped for one call: 2,000 shared", 2000, False, None, "wrapped"),
)

ANNOTATED_GOAL = 1.10

FREE_LEAVES = 200
"""Shared leaves up to which the goal holds: a call does nothing else with them than to read what
kind they are, some 30 ns each, which is all that many of them cost."""

VMAPS: tuple[Callable[..., Any], ...] = (jax.vmap, ptk.vmap, equinox.filter_vmap)


def first(tree: dict[str, Any], x: Any) -> Any:
    """Do nothing."""
    return x


def annotated(tree: dict[str, Float[Array, "..."]], x: Float[Array, "3"]) -> Float[Array, "3"]:
    """Do nothing, to one example of a declared shape."""
    return x


def contenders(case: Case) -> list[Callable[[], object]]:
    """The same call through each `vmap`; those of jax and pytreekit have been seen to be equal."""
    x = jnp.ones((4, 3))
    tree = {f"leaf{index}": jnp.ones((4, 3)) for index in range(case.leaves)}
    in_axes = (0 if case.mapped else None, 0)
    vmaps = [vmap(first, in_axes=in_axes) for vmap in VMAPS]
    if case.way == "by name":
        vmaps[1] = ptk.vmap(first, in_axes={"tree": in_axes[0], "x": in_axes[1]})
    traced = [str(jax.make_jaxpr(mapped)(tree, x)) for mapped in vmaps[:2]]
    if traced[0] != traced[1]:
        raise AssertionError(f"{case.name}: the jaxprs differ:\n{traced[0]}\n{traced[1]}")
    if case.way == "wrapped":
        return [lambda vmap=vmap: vmap(first, in_axes=in_axes)(tree, x) for vmap in VMAPS]
    if case.way == "jitted":
        vmaps = [jax.jit(lambda *args, mapped=mapped: mapped(*args)) for mapped in vmaps]
    return [lambda mapped=mapped: mapped(tree, x) for mapped in vmaps]


def with_annotations(case: Case) -> list[Callable[[], object]]:
    """The same call of a function without annotations and with them."""
    x = jnp.ones((4, 3))
    tree = {f"leaf{index}": jnp.ones((4, 3)) for index in range(case.leaves)}
    in_axes = (0 if case.mapped else None, 0)
    both = [ptk.vmap(fun, in_axes=in_axes) for fun in (first, annotated)]
    return [lambda mapped=mapped: mapped(tree, x) for mapped in both]


def annotated_rows(rounds: int, missed: list[str]) -> list[list[str]]:
    """The table of what annotations cost."""
    rows = []
    for case in CASES:
        if case.way != "called":
            continue
        plain_us, annotated_us = best_times(with_annotations(case), rounds)
        ratio = annotated_us / plain_us
        judged = case.mapped or case.leaves <= FREE_LEAVES
        if judged and ratio > ANNOTATED_GOAL:
            missed.append(f"{case.name}, annotated: {ratio:.2f}x, not {ANNOTATED_GOAL:.2f}x")
        goal = f"{ANNOTATED_GOAL:.2f}x" if judged else ""
        times = [f"{plain_us:,.1f}", f"{annotated_us:,.1f}"]
        rows.append([case.name, *times, f"{ratio:.2f}x", goal])
    return rows


def main() -> None:
    chosen = options(__doc__)
    rounds = QUICK_ROUNDS if chosen.quick else ROUNDS
    rows, missed = [], []
    for case in CASES:
        jax_us, ptk_us, equinox_us = best_times(contenders(case), rounds)
        ratio = ptk_us / jax_us
        if case.goal is not None and ratio > case.goal:
            missed.append(f"{case.name}: {ratio:.2f}x, not {case.goal:.2f}x")
        goal = "" if case.goal is None else f"{case.goal:.2f}x"
        other = [f"{equinox_us:,.1f}", f"{equinox_us / jax_us:.2f}x"]
        rows.append([case.name, f"{jax_us:,.1f}", f"{ptk_us:,.1f}", f"{ratio:.2f}x", goal, *other])
    print(machine("jax", "equinox"), end="\n\n")
    head = ["", "jax.vmap us", "ptk.vmap us", "ratio", "goal", "equinox us", "ratio"]
    print_table(head, rows)
    print()
    head = ["ptk.vmap", "without annotations us", "with us", "ratio", "goal"]
    print_table(head, annotated_rows(rounds, missed))
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
