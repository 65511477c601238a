"""PTK503: on Explicit mesh axes, an argument must be laid out as its spec says."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..compat import parts_must_match
from ..sharding.resolve import axes_by_dimension
from ..show import values
from ..specs.called import Advice, InArgument
from ..specs.finding import Finding, Revalue
from .grid import Grid
from .shard_call import ShardCall, ShardLeaf


def check_layout(call: ShardCall, leaf: ShardLeaf) -> list[Finding]:
    """What JAX refuses of the layout that the type of a leaf has; its spec must fit its shape."""
    grid, spec = call.grid, leaf.spec
    if grid is None or spec is None or call.infers or call.moves or not grid.is_explicit:
        return []
    if not (grid.is_whole or parts_must_match()):
        return []
    actual = getattr(getattr(leaf.aval, "sharding", None), "spec", PartitionSpec())
    rank = len(leaf.aval.shape)
    if _axes(actual, rank, grid) == _axes(spec, rank, grid):
        return []
    fault = leaf.fault(
        "PTK503",
        fact=f"is laid out as {_short(actual)}, its spec says {values.spec(spec)}",
        note="the mesh axes are Explicit: the layout is part of its type",
    )
    as_it_is = InArgument(leaf.position, Revalue(leaf.bound.path, _short(actual)))
    return [Finding(fault, (_reshard(leaf, fault.place, spec, grid), as_it_is))]


def _axes(spec: PartitionSpec, rank: int, grid: Grid) -> list[tuple[str, ...]]:
    """The mesh axes of each dimension that the function is mapped over, as JAX compares them."""
    without_ones = getattr(jax.config, "jax_remove_size_one_mesh_axis_from_type", False)
    names = {n for n in grid.names if not (without_ones and grid.axes.sizes[n] == 1)}
    axes = [tuple(name for name in its if name in names) for its in axes_by_dimension(spec)]
    return axes + [()] * (rank - len(axes))


def _short(spec: PartitionSpec) -> PartitionSpec:
    """A spec without None at its end."""
    entries = list(spec.partitions)
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def _reshard(leaf: ShardLeaf, place: str, spec: PartitionSpec, grid: Grid) -> Advice:
    """Lay the argument out as the spec says."""
    is_set = not jax.sharding.get_abstract_mesh().empty
    how = f"{spec!r}" if is_set else f"jax.NamedSharding(mesh, {spec!r})"

    def resharded(call: Any) -> Any:
        sharding = NamedSharding(grid.mesh, spec)
        new = jax.ShapeDtypeStruct(leaf.aval.shape, leaf.aval.dtype, sharding=sharding)
        return call.with_argument(leaf.position, leaf.bound.path, new)

    return Advice(f"pass jax.reshard({place}, {how}) for {place}", resharded)
