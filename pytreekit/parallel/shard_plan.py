"""What a function over shards is going to do with each leaf of a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from ..sharding.resolve import axes_by_dimension
from ..show import table, values
from .grid import Grid
from .returned import ShardOutput
from .shard_call import ShardCall, ShardLeaf


class PlannedShard(NamedTuple):
    """A leaf of a call, and what one shard sees of it.

    Attributes:
        argument: The name of the argument that it is in.
        path: Its path there, as `jax.tree_util.keystr` prints it.
        found: Its dtype and shape, `"f32[8,8]"`, or its type.
        spec: How it is split, None for a leaf that goes as it is.
        shard: What one shard sees of it, `"f32[2,8]"`.
        spec_path: The place in the spec that says so.
    """

    argument: str
    path: str
    found: str
    spec: PartitionSpec | None
    shard: str
    spec_path: str


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """What `ptk.shard_map` does with a call: of every leaf the whole, the spec and one shard.

    Made by `ptk.shard_map(fun, ...).plan(...)`, which raises on a faulty call, so that a plan is
    always one that can be carried out. `print(plan)` shows it as a table.

    Attributes:
        function: The name of the function.
        mesh: The size of each axis of the mesh.
        leaves: A `PlannedShard` for each leaf, in argument order, then flattening order.
        outputs: A `ShardOutput` for each leaf of the output, if they were asked for, else None.
        transform: What does it: `"shard_map"`, `"data_parallel"` or `"data_parallel_grad"`.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from jax.sharding import PartitionSpec as P
        >>> import pytreekit as ptk
        >>> scale = ptk.shard_map(lambda w, x: x * w, mesh={"data": 8}, in_specs=(P(), P("data")),
        ...                       out_specs=P("data"))
        >>> plan = scale.plan(jnp.ones(3), jax.ShapeDtypeStruct((32, 3), jnp.float32))
        >>> plan.leaves[1].shard
        'f32[4,3]'
    """

    function: str
    mesh: dict[str, int]
    leaves: tuple[PlannedShard, ...]
    outputs: tuple[ShardOutput, ...] | None = None
    transform: str = "shard_map"

    def table(self) -> str:
        """The plan as plain tables, 88 columns wide at most."""
        return table.plain_all(self._tables())

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return table.rich_all(self._tables())

    def _repr_html_(self) -> str:
        return table.html_all(self._tables())

    def _tables(self) -> Iterator[table.Table]:
        mesh = values.listing([f"{name}={size}" for name, size in self.mesh.items()])
        columns = ("argument", "whole", "spec", "one shard", "from")
        rows = [
            (its.argument + its.path, its.found, _spec(its.spec), its.shard, its.spec_path)
            for its in self.leaves
        ]
        yield table.Head(f"{self.transform}({self.function}) over {mesh}", columns), rows
        if self.outputs is not None:
            columns = ("output", "one shard", "varies over", "spec", "whole", "from")
            rows = [
                ("out" + its.path, its.shard, _varies(its.varies), str(its.spec),
                 its.found, its.spec_path)
                for its in self.outputs
            ]  # fmt: skip
            yield table.Head("what it returns", columns), rows


def _varies(axes: tuple[str, ...] | None) -> str:
    return "not checked" if axes is None else ", ".join(axes) or "nothing"


def _spec(spec: PartitionSpec | None) -> str:
    return "as it is" if spec is None else str(spec)


def plan_shards(call: ShardCall, grid: Grid, transform: str = "shard_map") -> ShardPlan:
    """The plan of a call that has been checked and found without a fault."""
    leaves = tuple(_planned(leaf, grid) for leaf in call.leaves)
    name, sizes = values.function(call.fun), dict(grid.axes.sizes)
    return ShardPlan(name, sizes, leaves, transform=transform)


def _planned(leaf: ShardLeaf, grid: Grid) -> PlannedShard:
    fault = leaf.fault("")
    shard = fault.found
    if leaf.spec is not None:
        parts = [grid.axes.parts(axes) for axes in axes_by_dimension(leaf.spec)]
        shape = leaf.aval.shape
        parts += [1] * (len(shape) - len(parts))
        sizes = [-(-size // count) for size, count in zip(shape, parts, strict=True)]
        shard = values.array(leaf.aval.dtype, sizes)
    where = fault.argument, fault.path, fault.found
    return PlannedShard(*where, leaf.spec, shard, fault.spec_path)
