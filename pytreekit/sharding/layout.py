"""Which mesh axes the dimensions of one array get: who comes first, and who goes without."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from . import remarks
from .entries import Choice, Entry, Name
from .logical import Row
from .options import Options
from .remarks import Problem, Remark

Size: TypeAlias = Any
"""The size of a dimension: an int, or a symbol, of which it is not known whether it divides."""


class _Axis(NamedTuple):
    """A mesh axis of a dimension, and whether it may be left out."""

    name: str
    may_go: bool


@dataclasses.dataclass
class _Slot:
    """A name that a dimension has, on its way to mesh axes.

    Attributes:
        dim: The dimension.
        name: The name.
        axes: Its mesh axes, None as long as it has none.
        spare: The first entry of the table whose axes are free, but do not divide the dimension.
        thieves: Who has the axes of the entries that are taken.
    """

    dim: int
    name: Name
    axes: tuple[str, ...] | None = None
    spare: Row | None = None
    thieves: dict[str, None] = dataclasses.field(default_factory=dict)


class Layout:
    """The mesh axes of each dimension of an array.

    First come the mesh axes of dimensions that have no choice; then their logical names, in the
    order of the table, as in flax; then the dimensions that have a choice, from left to right.

    Attributes:
        axes: The mesh axes of each dimension that has some.
        problems: What is wrong.
        remarks: What is worth to know.
    """

    def __init__(self, sizes: Mapping[int, Size], options: Options) -> None:
        self.axes: dict[int, tuple[str, ...]] = {}
        self.problems: list[Problem] = []
        self.remarks: list[Remark] = []
        self._sizes = sizes
        self._mesh = options.mesh
        self._logical = options.logical
        self._may_go = options.may_go
        self._owners: dict[str, _Slot] = {}

    def put(self, entries: Mapping[int, Entry]) -> None:
        """Give each dimension its axes."""
        fixed = {dim: entry[0] for dim, entry in entries.items() if len(entry) == 1}
        slots = {dim: [_Slot(dim, name) for name in its] for dim, its in fixed.items()}
        listed = [slot for its in slots.values() for slot in its]
        for slot in listed:
            if not self._rows(slot.name.name):
                self._take_axis(slot)
        self._take_logical([slot for slot in listed if slot.axes is None])
        for dim, its in slots.items():
            self._fit(dim, [_Axis(axis, self._goes(axis, s)) for s in its for axis in s.axes or ()])
        for dim, entry in entries.items():
            if dim not in fixed:
                self._choose(dim, entry)

    def _rows(self, name: str) -> list[Row]:
        """The entries of a logical name, none for a mesh axis."""
        table = self._logical
        return [] if table is None else [table.rows[n] for n in table.by_name.get(name, ())]

    def _goes(self, axis: str, slot: _Slot) -> bool:
        return slot.name.may_go or axis in self._may_go

    def _divides(self, dim: int, axes: Sequence[str]) -> bool:
        size = self._sizes[dim]
        return not isinstance(size, int) or size % self._mesh.parts(axes) == 0

    def _take(self, slot: _Slot, axes: tuple[str, ...]) -> None:
        slot.axes = axes
        self._owners.update(dict.fromkeys(axes, slot))

    def _take_axis(self, slot: _Slot) -> None:
        axis = slot.name.name
        if axis in self._owners:
            self.problems.append(remarks.twice(axis, slot.dim, self._owners[axis].dim))
            slot.axes = ()
        else:
            self._take(slot, (axis,))

    def _take_logical(self, slots: Sequence[_Slot]) -> None:
        wanted: dict[str, list[_Slot]] = {}
        for slot in slots:
            wanted.setdefault(slot.name.name, []).append(slot)
        for row in self._logical.rows if self._logical and wanted else ():
            for slot in wanted.get(row.name, ()):
                if slot.axes is None:
                    self._offer(slot, row)
        for slot in slots:
            if slot.axes is None:
                self._without(slot)

    def _offer(self, slot: _Slot, row: Row) -> None:
        thieves = [axis for axis in row.axes if axis in self._owners]
        slot.thieves.update(dict.fromkeys(self._thief(axis) for axis in thieves))
        if thieves:
            return
        beside = [a for a, its in self._owners.items() if its.dim == slot.dim]
        if row.axes and not self._divides(slot.dim, [*beside, *row.axes]):
            slot.spare = slot.spare or row
            return
        if slot.spare or slot.thieves:
            obstacle = "does not divide" if slot.spare else "is taken"
            why = f"an earlier entry of {slot.name.name!r} {obstacle}"
            self.remarks.append(remarks.fallback(slot.dim, row.axes, why))
        self._take(slot, row.axes)

    def _thief(self, axis: str) -> str:
        its = self._owners[axis]
        return f"{axis} is that of {its.name.name!r} in dimension {its.dim}"

    def _without(self, slot: _Slot) -> None:
        """A logical name that no entry of the table gave an axis."""
        slot.axes = ()
        if slot.spare is None:
            self.problems.append(remarks.starved(slot.name.name, slot.dim, slot.thieves))
        elif not any(axis in self._owners for axis in slot.spare.axes):
            self._take(slot, slot.spare.axes)
        elif all(self._goes(axis, slot) for axis in slot.spare.axes):
            self._leave_out(slot.dim, slot.spare.axes)
        else:
            self._does_not_divide(slot.dim, slot.spare.axes)

    def _fit(self, dim: int, axes: list[_Axis]) -> None:
        """Give a dimension as many of its axes as divide it: from the right, what may go goes."""
        kept = self._fitting(dim, axes)
        if kept is None:
            self._does_not_divide(dim, [axis.name for axis in axes])
            return
        self.axes[dim] = tuple(axis.name for axis in kept)
        gone = [axis.name for axis in axes if axis not in kept]
        if gone:
            self._leave_out(dim, gone)
        for axis in gone:
            self._owners.pop(axis, None)

    def _fitting(self, dim: int, axes: Sequence[_Axis]) -> list[_Axis] | None:
        kept = list(axes)
        while not self._divides(dim, [axis.name for axis in kept]):
            places = [place for place, axis in enumerate(kept) if axis.may_go]
            if not places:
                return None
            del kept[places[-1]]
        return kept

    def _leave_out(self, dim: int, axes: Sequence[str]) -> None:
        self.remarks.append(remarks.left_out(dim, self._sizes[dim], axes, self._mesh))

    def _does_not_divide(self, dim: int, axes: Sequence[str]) -> None:
        self.problems.append(remarks.indivisible(dim, self._sizes[dim], axes, self._mesh))

    def _choose(self, dim: int, entry: Entry) -> None:
        """Give a dimension the first of its choices that is free and divides it."""
        for exactly in (True, False):
            for number, choice in enumerate(entry):
                axes = self._free(dim, choice, exactly=exactly)
                if axes is None or (not exactly and self._fitting(dim, axes) is None):
                    continue
                self._owners.update({axis.name: _Slot(dim, Name(axis.name)) for axis in axes})
                self._fit(dim, axes)
                if number:
                    why = self._obstacle(dim, entry[0]).fact
                    self.remarks.append(remarks.fallback(dim, self.axes[dim], why))
                return
        self.problems.append(self._obstacle(dim, entry[0]))

    def _free(self, dim: int, choice: Choice, *, exactly: bool) -> list[_Axis] | None:
        """The axes of a choice; None if one is taken, or, exactly, if they do not divide."""
        found: list[_Axis] = []
        for name in choice:
            rows = self._rows(name.name) or [Row(name.name, (name.name,))]
            taken = {*self._owners, *(axis.name for axis in found)}
            free = [row.axes for row in rows if not taken & set(row.axes)]
            so_far = [axis.name for axis in found]
            fits = [axes for axes in free if self._divides(dim, [*so_far, *axes])]
            if not (fits if exactly else free):
                return None
            axes = (fits or free)[0]
            found += [_Axis(axis, name.may_go or axis in self._may_go) for axis in axes]
        return found

    def _obstacle(self, dim: int, choice: Choice) -> Problem:
        """Why a dimension cannot have a choice."""
        axes: list[str] = []
        for name in choice:
            rows = self._rows(name.name)
            free = [r for r in rows or [Row("", (name.name,))] if not self._taken(r.axes, dim)]
            if free:
                axes += free[0].axes
            elif rows:
                taken = [axis for row in rows for axis in row.axes if axis in self._owners]
                return remarks.starved(name.name, dim, dict.fromkeys(map(self._thief, taken)))
            else:
                return remarks.twice(name.name, dim, self._owners[name.name].dim)
        return remarks.indivisible(dim, self._sizes[dim], axes, self._mesh)

    def _taken(self, axes: Sequence[str], dim: int) -> bool:
        """Whether another dimension has one of these axes."""
        return any(axis in self._owners and self._owners[axis].dim != dim for axis in axes)
