"""What calls of `ptk.shard_map` and `ptk.pmap` cost beside those of JAX, on simulated devices.

The functions do nothing, so that the cost of a call is timed. Under `jit` there is none: the jaxprs
are compared first, and found to be equal. What eight simulated devices take for the same program
differs by half; so that is shown without a goal, and `pmap` is timed on one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from timing import best_times, finish, machine, options, print_table

import pytreekit as ptk

ROUNDS = 100
QUICK_ROUNDS = 1
GOAL = 1.05


class Case(NamedTuple):
    """What is called, with so many leaves beside one array, and whether there is a goal."""

    name: str
    leaves: int
    way: str
    has_goal: bool = True


CASES = (
    Case("shard_map under jit: 1 leaf", 0, "jitted", has_goal=False),
    Case("shard_map under jit: 50 leaves", 49, "jitted", has_goal=False),
    Case("shard_map eager: 1 leaf", 0, "eager"),
    Case("shard_map eager: 5 leaves", 4, "eager"),
    Case("shard_map traced: 1 leaf", 0, "traced", has_goal=False),
    Case("shard_map traced: 50 leaves", 49, "traced", has_goal=False),
    Case("pmap: 1 leaf", 0, "pmap"),
    Case("pmap: 20 leaves", 19, "pmap"),
    Case("pmap: 100 leaves", 99, "pmap"),
    Case("pmap, 20 shared: 21 leaves", 20, "shared"),
    Case("pmap under jit: 20 leaves", 19, "pmap jitted", has_goal=False),
)


def first(x: Any, tree: dict[str, Any]) -> Any:
    """Do nothing."""
    return x


def contenders(case: Case) -> list[Callable[[], object]]:
    """The same call through JAX and through pytreekit; the jaxprs have been seen to be equal."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    shared = case.way == "shared"
    on_one = "pmap" in case.way or shared
    x = jnp.ones((1, 3))
    if not on_one:
        x = jax.device_put(jnp.ones((8, 3)), NamedSharding(mesh, P("data")))
    tree = {f"leaf{n}": jnp.ones(3) if shared else x for n in range(case.leaves)}
    if on_one:
        its = [of.pmap(first, in_axes=(0, None if shared else 0)) for of in (jax, ptk)]
        placed = its[0](x, tree).sharding
        x, tree = jax.device_put(x, placed), jax.device_put(tree, None if shared else placed)
    else:
        specs = {"mesh": mesh, "in_specs": (P("data"), P("data")), "out_specs": P("data")}
        its = [of.shard_map(first, **specs) for of in (jax, ptk)]
    traced = [str(jax.make_jaxpr(mapped)(x, tree)) for mapped in its]
    if traced[0] != traced[1]:
        raise AssertionError(f"{case.name}: the jaxprs differ:\n{traced[0]}\n{traced[1]}")
    if case.way == "traced":
        return [functools.partial(_trace, mapped, x, tree) for mapped in its]
    if "jitted" in case.way:
        its = [jax.jit(lambda *args, mapped=mapped: mapped(*args)) for mapped in its]
    return [functools.partial(mapped, x, tree) for mapped in its]


def _trace(mapped: Callable[..., Any], x: Any, tree: Any) -> object:
    return jax.make_jaxpr(lambda *args: mapped(*args))(x, tree)  # noqa: PLW0108  traces are kept


def main() -> None:
    chosen = options(__doc__)
    rounds = QUICK_ROUNDS if chosen.quick else ROUNDS
    rows, missed = [], []
    for case in CASES[:: 3 if chosen.quick else 1]:
        jax_us, ptk_us = best_times(contenders(case), rounds)
        ratio = ptk_us / jax_us
        if case.has_goal and ratio > GOAL:
            missed.append(f"{case.name}: {ratio:.2f}x, not {GOAL:.2f}x")
        goal = f"{GOAL:.2f}x" if case.has_goal else ""
        rows.append([case.name, f"{jax_us:,.1f}", f"{ptk_us:,.1f}", f"{ratio:.2f}x", goal])
    print(machine("jax"), end="\n\n")
    print_table(["", "jax us", "ptk us", "ratio", "goal"], rows)
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
