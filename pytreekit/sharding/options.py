"""How templates become specs: the mesh, the logical names, and what may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from .logical import Logical, logical_of, no_axis
from .meshes import Axes, axes_of

ERROR, REPLICATE, DROP = "error", "replicate", "drop"


class Options(NamedTuple):
    """What is the same for all leaves.

    Attributes:
        mesh: The axes of the mesh.
        logical: The table of logical names, None where there is none.
        may_go: The mesh axes that may be left out where a dimension does not divide.
        missing_may_go: Whether a mesh axis that the mesh lacks may be left out.
    """

    mesh: Axes
    logical: Logical | None = None
    may_go: frozenset[str] = frozenset()
    missing_may_go: bool = False


def options_of(mesh: Any, axes: Any, on_indivisible: Any, missing_axes: Any, doing: str) -> Options:
    """The options as users pass them.

    Raises:
        SpecError: PTK001, if one is of the wrong kind; PTK301, if one names an axis that the mesh
            lacks.
    """
    its = axes_of(mesh, doing)
    if not isinstance(missing_axes, str) or missing_axes not in {ERROR, DROP}:
        raise_faults([_no_choice("missing_axes", missing_axes, DROP)], doing=doing)
    may_go = _may_go(on_indivisible, its, doing)
    return Options(its, logical_of(axes, its, missing_axes, doing), may_go, missing_axes == DROP)


def _may_go(said: Any, mesh: Axes, doing: str) -> frozenset[str]:
    word = said if isinstance(said, str) else ""
    if word in {ERROR, REPLICATE}:
        return frozenset(mesh.sizes if word == REPLICATE else ())
    per_axis = said if isinstance(said, Mapping) else {}
    if per_axis is not said:
        raise_faults([_no_choice("on_indivisible", said, REPLICATE, _PER_AXIS)], doing=doing)
    faults: list[Fault] = []
    for axis, one in per_axis.items():
        place = f"on_indivisible[{axis!r}]"
        if axis not in mesh.sizes:
            faults.append(no_axis(axis, mesh, place, values.spec(one)))
        if not isinstance(one, str) or one not in {ERROR, REPLICATE}:
            faults.append(_no_choice(place, one, REPLICATE))
    raise_faults(faults, doing=doing)
    return frozenset(axis for axis, one in per_axis.items() if one == REPLICATE)


_PER_AXIS = ", or a dict of these by mesh axis"


def _no_choice(place: str, said: Any, other: str, more: str = "") -> Fault:
    fact = f"must be {ERROR!r} or {other!r}{more}"
    return Fault("PTK001", "", "", place, "", values.spec(said, 24), fact=f"{place} {fact}")
