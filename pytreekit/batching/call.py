"""One call of a vmapped function under its in_axes: bound, checked, repaired."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from ..compat import is_batched_sparse
from ..specs.called import Called
from ..trees.paths import IsLeaf
from .annotations import Declared

_CALLED_WITH = ("args", "kwargs", "axis_size")


@dataclasses.dataclass(frozen=True)
class Call(Called):
    """Arguments, and the axes that they are to be mapped over.

    Attributes:
        in_axes: An int, None, a tuple with a spec for each positional argument, a dict with one
            for each parameter, or rules over the paths of all arguments, each from its name on.
            Unless it is by name, keywords are all mapped over axis 0, as `jax.vmap` has it.
        axis_size: The size of the mapped axis, None to take it from the arguments.
        spmd_axis_name: As `jax.vmap` takes it.
        chunk_size: How many examples are mapped at once, None for all.
        keep_axis: Whether the function gets each example as a batch of one.
        declared: What the annotations of `fun` say of one example, None for nothing.
        broadcasts: Whether an output may be broadcast to the axis size, though nothing is mapped.
    """

    spec_name: ClassVar[str] = "in_axes"
    fills: ClassVar[tuple[Any, ...]] = (0, None)
    of_keywords: ClassVar[tuple[Any, str]] = (0, "axis of every keyword")
    is_leaf: ClassVar[IsLeaf] = is_batched_sparse

    in_axes: Any
    axis_size: Any = None
    spmd_axis_name: Any = None
    chunk_size: int | None = None
    keep_axis: bool = False
    declared: Declared | None = None
    broadcasts: bool = True

    def axes(self) -> list[Any]:
        """The axis of each leaf of `(args, kwargs)`, in flattening order."""
        return [axis for binding in self.bindings for axis in binding.values()]

    def repaired_axes(self, faulty: Call) -> Any:
        """The in_axes of this call, if in them alone it differs from a faulty one."""
        same = all(getattr(self, name) is getattr(faulty, name) for name in _CALLED_WITH)
        return self.in_axes if same else None
