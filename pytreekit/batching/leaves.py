"""The leaves of a call with what is asked of them: an axis, or None."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..compat import is_batched_sparse
from ..faults import Fault, Place
from ..show import values
from ..specs.bind import Binding, Bound
from .call import Call
from .forms import SPLIT, is_axis, is_key, resolved
from .underway import outside


class Leaf(NamedTuple):
    """A leaf of a call.

    Attributes:
        position: Which argument it is in, counted through the call's bindings.
        binding: The binding of that argument.
        bound: The leaf with its path and what its spec says.
        axis: The axis that this comes to: an int, None, or `SPLIT`.
        shape: Its shape, None where it is no JAX type.
    """

    position: int
    binding: Binding
    bound: Bound
    axis: Any
    shape: tuple[Any, ...] | None

    @property
    def has_axis(self) -> bool:
        """Whether the leaf has the axis that is asked of it."""
        if self.is_split:
            return is_key(self.bound.leaf)
        if self.shape is None or not is_axis(self.axis):
            return False
        if not -len(self.shape) <= self.axis < len(self.shape):
            return False
        return not is_batched_sparse(self.bound.leaf) or self.axis < self.bound.leaf.n_batch

    @property
    def is_split(self) -> bool:
        """Whether the leaf is a key to be split, so that it has no batch axis yet."""
        return self.axis is SPLIT

    @property
    def size(self) -> Any:
        """The size of the mapped axis; the leaf must have it."""
        return (self.shape or ())[self.axis]

    @property
    def size_note(self) -> str:
        """`axis 0 has 32`, and where that axis lies outside the calls that this one is in."""
        return f"axis {self.axis} has {self.size}{self.outside}"

    @property
    def outside(self) -> str:
        """`, axis 1 of f32[3,5]`, inside another mapped function that took an axis away."""
        found = outside(self.bound.leaf, self.axis)
        return f", axis {found.axis} of {values.leaf(found.leaf)}" if found else ""

    def fault(self, code: str, **more: Any) -> Fault:
        """A fault at this leaf."""
        found = values.leaf(self.bound.leaf)
        if is_batched_sparse(self.bound.leaf):
            found += f" n_batch={self.bound.leaf.n_batch}"
        return self.binding.fault(code, self.bound, found, values.spec(self.bound.value), **more)

    def told(self) -> Place:
        """The leaf as one row of a message about sizes."""
        fault = self.fault("")
        return Place(fault.place, fault.found, self.size_note, fault.entry)


def leaves(call: Call) -> Iterator[Leaf]:
    """Every leaf of a call, in argument order, then flattening order."""
    for position, binding in enumerate(call.bindings):
        for bound in binding:
            axis = resolved(bound.value, bound.leaf)
            yield Leaf(position, binding, bound, axis, _shape(bound.leaf))


def agreed_size(call: Call, good: Iterable[Leaf]) -> Any:
    """`axis_size`, else the size of most leaves, of the first where that is a tie, else None."""
    if call.axis_size is not None:
        return call.axis_size
    counted = collections.Counter(leaf.size for leaf in good if not leaf.is_split)
    return counted.most_common(1)[0][0] if counted else None


def is_size(size: Any) -> bool:
    """Whether an axis can have this size: an int, or a symbolic dimension."""
    if isinstance(size, int | np.integer):
        return bool(size >= 0)
    from jax import export

    return export.is_symbolic_dim(size)


def _shape(leaf: Any) -> tuple[Any, ...] | None:
    if is_batched_sparse(leaf):
        return tuple(leaf.shape)
    aval = values.typeof(leaf)
    return None if aval is None else tuple(aval.shape)
