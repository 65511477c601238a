"""What a checked vmap is going to do with each leaf of a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import table, values
from .call import Call
from .forms import SPLIT, Split
from .leaves import agreed_size, leaves
from .outputs import PlannedOutput
from .silent import suspicions

LEAF_COLUMNS = ("argument", "leaf", "axis", "one example", "from")


class PlannedLeaf(NamedTuple):
    """A leaf of a call and what it is mapped over.

    Attributes:
        argument: The name of the argument that it is in.
        path: Its path there, as `jax.tree_util.keystr` prints it.
        found: Its dtype and shape, `"f32[32,8]"`, or its type.
        axis: The axis that it is mapped over, None where it is shared, `SPLIT` for a key.
        example: What `fun` gets of it, for one example: `"f32[8]"`.
        spec_path: The place in the spec that says so.
    """

    argument: str
    path: str
    found: str
    axis: int | Split | None
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
        suspicions: What the shapes may point to, though they prove nothing: a shared leaf with the
            size of the batch (PTK951), one key for all examples (PTK952), a batch of none or one
            (PTK953).
        outputs: A `PlannedOutput` for each leaf of the output, if they were asked for, else None.
        transform: What does it, `"vmap"` or `"pmap"`.

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
    suspicions: tuple[Fault, ...] = ()
    outputs: tuple[PlannedOutput, ...] | None = None
    transform: str = "vmap"

    def table(self) -> str:
        """The plan as plain tables, 88 columns wide at most."""
        return table.plain_all(self._tables())

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return table.rich_all(self._tables())

    def _tables(self) -> Iterator[table.Table]:
        title = f"{self.transform}({self.function}) over {self.axis_size}"
        yield table.Head(title, LEAF_COLUMNS), leaf_rows(self.leaves)
        if self.outputs is not None:
            columns = ("output", "one example", "varies", "axis", "all examples", "from")
            yield table.Head("what it returns", columns), self._output_rows(self.outputs)

    def _output_rows(self, outputs: Sequence[PlannedOutput]) -> list[tuple[str, ...]]:
        return [
            (
                "out" + its.path,
                its.example,
                "yes" if its.varies else "no",
                "none" if its.axis is None else str(its.axis),
                its.found,
                its.spec_path,
            )
            for its in outputs
        ]


def leaf_rows(leaves: Sequence[PlannedLeaf]) -> list[tuple[str, ...]]:
    """A row for each leaf, in the columns of `LEAF_COLUMNS`."""
    return [
        (leaf.argument + leaf.path, leaf.found, _axis(leaf.axis), leaf.example, leaf.spec_path)
        for leaf in leaves
    ]


def _axis(axis: int | Split | None) -> str:
    if axis is SPLIT:
        return "split"
    return "shared" if axis is None else str(axis)


def plan_call(call: Call) -> VmapPlan:
    """The plan of a call that has been checked and found without a fault."""
    everything = list(leaves(call))
    size = agreed_size(call, [leaf for leaf in everything if leaf.axis is not None])
    planned = []
    for leaf in everything:
        fault = leaf.fault("")
        axis = leaf.axis
        example = fault.found
        if isinstance(axis, int) and leaf.shape is not None:
            axis %= len(leaf.shape)
            one = values.of_one if call.keep_axis else values.without_axis
            example = one(leaf.bound.leaf, axis)
        planned.append(
            PlannedLeaf(fault.argument, fault.path, fault.found, axis, example, fault.entry)
        )
    doubtful = tuple(suspicions(everything, size))
    return VmapPlan(values.function(call.fun), size, tuple(planned), doubtful)
