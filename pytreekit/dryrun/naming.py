"""What a step itself says of how its arrays are split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
from jax.extend.core import Jaxpr, jaxprs_in_params
from jax.sharding import NamedSharding, PartitionSpec

from ..sharding.resolve import names_of


def specs_in(jaxpr: Jaxpr) -> set[PartitionSpec]:
    """All specs in constraints, in `jax.shard_map` and `jax.jit`, and in the types of arrays."""
    seen: dict[int, Jaxpr] = {}
    left, found = [jaxpr], set[PartitionSpec]()
    while left:
        its = left.pop()
        if id(its) in seen:  # one that is called often
            continue
        seen[id(its)] = its
        for eqn in its.eqns:
            said = [its for name, its in eqn.params.items() if "spec" in name or "sharding" in name]
            types = [getattr(var.aval, "sharding", None) for var in eqn.outvars]
            found.update(specs_of([said, types]))
            left += jaxprs_in_params(eqn.params)
    return found


def specs_of(shardings: Any) -> list[PartitionSpec]:
    """The specs of shardings, and specs themselves, wherever they stand in a tree."""
    leaves = jax.tree.leaves(shardings, is_leaf=lambda node: isinstance(node, PartitionSpec))
    specs = [its.spec if isinstance(its, NamedSharding) else its for its in leaves]
    return [its for its in specs if isinstance(its, PartitionSpec)]


def axes_in(specs: Iterable[PartitionSpec]) -> set[str]:
    """The axes of specs; `PartitionSpec.UNCONSTRAINED` is none."""
    return {name for its in specs for name in names_of(its) if isinstance(name, str)}
