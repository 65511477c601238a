"""What a checked vmap is going to do with each leaf of a call."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from ..show import table, values
from .call import Call
from .leaves import agreed_size, leaves


class PlannedLeaf(NamedTuple):
    """A leaf of a call and what it is mapped over.

    Attributes:
        argument: The name of the argument that it is in.
        path: Its path there, as `jax.tree_util.keystr` prints it.
        found: Its dtype and shape, `"f32[32,8]"`, or its type.
        axis: The axis that it is mapped over, None where it is shared.
        example: What `fun` gets of it, for one example: `"f32[8]"`.
        spec_path: The place in the spec that says so.
    """

    argument: str
    path: str
    found: str
    axis: int | None
    example: str
    spec_path: str


@dataclasses.dataclass(frozen=True)
class VmapPlan:
    """What `ptk.vmap` does with a call: every leaf, its axis and its shape for one example.

    Made by `ptk.vmap(fun).plan(...)`, which raises on a faulty call, so that a plan is always
    one that can be carried out. `print(plan)` shows it as a table.

    Attributes:
        function: The name of the function.
        axis_size: The size of the mapped axis.
        leaves: A `PlannedLeaf` for each leaf, in argument order, then flattening order.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> predict = ptk.vmap(lambda w, x: x @ w, in_axes=(None, 0))
        >>> plan = predict.plan(jax.ShapeDtypeStruct((8, 4), jnp.float32), jnp.ones((32, 8)))
        >>> plan.axis_size, plan.leaves[1].example
        (32, 'f32[8]')
    """

    function: str
    axis_size: Any
    leaves: tuple[PlannedLeaf, ...]

    def table(self) -> str:
        """The plan as a plain table, 88 columns wide at most."""
        return table.plain(self._headed(), self._rows())

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return table.rich(self._headed(), self._rows())

    def _headed(self) -> table.Head:
        return table.Head(
            f"vmap({self.function}) over {self.axis_size}",
            ("argument", "leaf", "axis", "one example", "from"),
        )

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (leaf.argument + leaf.path, leaf.found, _axis(leaf.axis), leaf.example, leaf.spec_path)
            for leaf in self.leaves
        ]


def _axis(axis: int | None) -> str:
    return "shared" if axis is None else str(axis)


def plan_call(call: Call) -> VmapPlan:
    """The plan of a call that has been checked and found without a fault."""
    everything = list(leaves(call))
    size = agreed_size(call, [leaf for leaf in everything if leaf.bound.value is not None])
    planned = []
    for leaf in everything:
        fault = leaf.fault("")
        axis = leaf.bound.value
        example = fault.found
        if axis is not None and leaf.shape is not None:
            axis %= len(leaf.shape)
            example = values.without_axis(leaf.bound.leaf, axis)
        planned.append(
            PlannedLeaf(fault.argument, fault.path, fault.found, axis, example, fault.entry)
        )
    return VmapPlan(values.function(call.fun), size, tuple(planned))
