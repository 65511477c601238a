"""What a plan takes of the memory of each device, and what of it every device has whole."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...faults import Fault
from ...show import table
from ...show.sizes import in_bytes, percent
from .planned import Planned, ShardedLeaf

MOST_ROWS = 10
"""The largest leaves that are shown; `largest` has them all."""


@dataclasses.dataclass(frozen=True)
class PlanMemory:
    """What the arrays of a plan take of memory: what `plan.memory()` returns.

    Attributes:
        total: The bytes of the tree, each element once.
        per_device: The bytes on each device. It is what
            `compiled.memory_analysis().argument_size_in_bytes` says of a function of this tree.
        replicated: The share of `total`, from 0 to 1, in arrays that every device has whole.
        largest: The arrays, those first that take most of each device.
        mesh: The size of each axis of the mesh.
    """

    total: int
    per_device: int
    replicated: float
    largest: tuple[ShardedLeaf, ...]
    mesh: dict[str, int]

    def __str__(self) -> str:
        return table.plain(self._head(), self._rows())

    def __rich__(self) -> Any:
        return table.rich(self._head(), self._rows())

    def _repr_html_(self) -> str:
        return table.html(self._head(), self._rows())

    def _head(self) -> table.Head:
        total, here = in_bytes(self.total), in_bytes(self.per_device)
        title = f"{total}, {here} per device, {percent(self.replicated)} whole on all"
        columns = ("largest", "found", "spec", "bytes", "per device")
        return table.Head(title, columns, columns[3:])

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [
            (its.text, its.found, str(its.spec), f"{its.bytes:,}", f"{its.device_bytes:,}")
            for its in self.largest[:MOST_ROWS]
        ]
        left = len(self.largest) - MOST_ROWS
        return [*rows, (f"... and {left} more", "", "", "", "")] if left > 0 else rows


def memory(its: Planned) -> PlanMemory:
    """What a plan takes of memory."""
    arrays = [leaf for leaf in its.leaves if leaf.shape is not None]
    total = sum(leaf.bytes for leaf in arrays)
    whole = sum(leaf.bytes for leaf in arrays if is_whole(its, leaf))
    largest = sorted(arrays, key=lambda leaf: -leaf.device_bytes)
    here = sum(leaf.device_bytes for leaf in arrays)
    share = whole / total if total else 0.0
    return PlanMemory(total, here, share, tuple(largest), its.axes.sizes)


def is_whole(its: Planned, leaf: ShardedLeaf) -> bool:
    """Whether each of several devices has all of an array."""
    return its.axes.devices > 1 and its.parts_of(leaf.spec) == 1


def check(its: Planned, max_replicated: float) -> tuple[Fault, ...]:
    """PTK311 for the largest arrays that are whole, if these take too large a share together.

    The smallest are not told that may stay as they are.
    """
    found = memory(its)
    faults: dict[str, Fault] = {}
    left = found.replicated * found.total
    for leaf in sorted(found.largest, key=lambda leaf: -leaf.bytes):
        if left <= max_replicated * found.total:
            break
        if is_whole(its, leaf):
            left -= leaf.bytes
            faults[leaf.path] = _fault(its, leaf, leaf.bytes / found.total)
    return tuple(faults[leaf.path] for leaf in its.leaves if leaf.path in faults)


def _fault(its: Planned, leaf: ShardedLeaf, share: float) -> Fault:
    size = f"{in_bytes(leaf.bytes)}, {percent(share)} of all"
    fact = f"is whole on each of {its.axes.devices} devices: {size}"
    told = leaf.path, "plan.specs" + leaf.path, leaf.found, str(leaf.spec)
    return Fault("PTK311", "plan", *told, fact=fact, note=_free(its, leaf))


def _free(its: Planned, leaf: ShardedLeaf) -> str:
    """The mesh axes that would split an array."""
    told: list[str] = []
    for name, size in its.axes.sizes.items():
        dims = [
            str(dim) for dim, its_size in enumerate(leaf.shape or ()) if _divides(its_size, size)
        ]
        if dims and size > 1:
            told.append(f"{name}={size} divides dimension {' or '.join(dims)}")
    return "; ".join(told) or "no mesh axis divides it"


def _divides(size: Any, parts: int) -> bool:
    return isinstance(size, int) and size > 0 and size % parts == 0
