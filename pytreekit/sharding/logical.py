"""Logical names: what dimensions are called, and the mesh axes that each may have, in order."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from .meshes import Axes

HOW = 'as [("embed", "fsdp"), ("heads", "model"), ("norm", None)]'


class Row(NamedTuple):
    """One entry of the table: a logical name, and the mesh axes that it may have."""

    name: str
    axes: tuple[str, ...]


class Logical:
    """The table of logical names.

    Attributes:
        rows: Its entries, in order.
        mesh_axes: All mesh axes that it was written with, those that the mesh lacks as well.
    """

    def __init__(self, rows: list[Row], mesh_axes: frozenset[str]) -> None:
        self.rows = rows
        self.mesh_axes = mesh_axes

    @functools.cached_property
    def by_name(self) -> dict[str, list[int]]:
        """The indices of the entries of each name."""
        found: dict[str, list[int]] = {}
        for number, row in enumerate(self.rows):
            found.setdefault(row.name, []).append(number)
        return found


def logical_of(axes: Any, mesh: Axes, missing_axes: str, doing: str) -> Logical | None:
    """The table of logical names, as users pass it.

    Args:
        axes: Pairs of a name and a mesh axis, a tuple of them, or None; or a mapping; or None.
        mesh: The axes of the mesh.
        missing_axes: `"drop"` takes the axes that the mesh lacks from the table.
        doing: What is being done.

    Raises:
        SpecError: PTK001, if it is no such table; PTK301, if it names axes that the mesh lacks.
    """
    if axes is None:
        return None
    if not isinstance(axes, Mapping | tuple | list):
        fact = f"axes must be a list of pairs, this is {values.kind(axes)}"
        raise_faults([_fault("axes", values.spec(axes), fact, HOW)], doing=doing)
    named = isinstance(axes, Mapping)
    rows: list[Row] = []
    emptied: list[Row] = []
    faults: list[Fault] = []
    written: set[str] = set()
    for number, pair in enumerate(list(axes.items()) if named else axes):
        place = f"axes[{pair[0]!r}]" if named else f"axes[{number}]"
        row = _row(pair, place)
        if isinstance(row, Fault):
            faults.append(row)
            continue
        written.update(row.axes)
        lacking = [axis for axis in row.axes if axis not in mesh.sizes]
        if lacking and missing_axes != "drop":
            faults += [no_axis(axis, mesh, place, values.spec(pair)) for axis in lacking]
        left = Row(row.name, tuple(axis for axis in row.axes if axis not in lacking))
        (emptied if lacking and not left.axes else rows).append(left)
    raise_faults(faults, doing=doing)
    return Logical(_kept(rows, emptied), frozenset(written))


def no_axis(axis: str, mesh: Axes, place: str, wanted: str) -> Fault:
    """The fault of a mesh axis that there is not, in an argument that speaks of no leaf."""
    fact = f"there is no mesh axis {axis!r}"
    return Fault("PTK301", "", "", place, "", wanted, fact=fact, note=f"the mesh has {mesh.told}")


def _kept(rows: list[Row], emptied: list[Row]) -> list[Row]:
    """The rows, and at the end those names that have no others, now that the mesh lacks axes."""
    names = {row.name for row in rows}
    return rows + [row for row in dict.fromkeys(emptied) if row.name not in names]


def _row(pair: Any, place: str) -> Row | Fault:
    is_pair = isinstance(pair, tuple | list) and len(pair) == len(Row._fields)
    if not is_pair or not isinstance(pair[0], str) or not pair[0]:
        told = values.spec(pair)
        return _fault(place, told, "an entry must be a pair (logical name, mesh axes)", HOW)
    name, axes = pair
    if axes is None:
        return Row(name, ())
    listed = (axes,) if isinstance(axes, str) else axes
    known = isinstance(listed, tuple | list) and all(isinstance(axis, str) for axis in listed)
    if not known:
        fact = "the mesh axes must be a str, a tuple of them, or None"
        return _fault(place, values.spec(pair), fact, HOW)
    if len(set(listed)) < len(listed):
        return _fault(place, values.spec(pair), "an entry names a mesh axis twice")
    return Row(name, tuple(listed))


def _fault(place: str, wanted: str, fact: str, note: str = "") -> Fault:
    return Fault("PTK001", "", "", place, "", wanted, fact=fact, note=note)
