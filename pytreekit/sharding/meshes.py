"""The axes of a mesh and their sizes: of one of JAX's, or as a dict, which needs no device."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, Mesh

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults

HOW = 'as {"data": 4, "model": 2}'


class Axes:
    """The axes of a mesh.

    Attributes:
        sizes: The size of each axis, by its name, in the order of the mesh.
        devices: How many devices there are.
    """

    def __init__(self, sizes: Mapping[str, int], mesh: Mesh | AbstractMesh | None = None) -> None:
        self.sizes = dict(sizes)
        self.devices = math.prod(self.sizes.values())
        self._mesh = mesh

    @functools.cached_property
    def mesh(self) -> Mesh | AbstractMesh:
        """The mesh that these axes are of; an abstract one, if they came as a dict."""
        if self._mesh is not None:
            return self._mesh
        types = (AxisType.Auto,) * len(self.sizes)  # the default is not the same on every JAX
        return AbstractMesh(tuple(self.sizes.values()), tuple(self.sizes), axis_types=types)

    def parts(self, names: Iterable[str]) -> int:
        """Into how many parts axes split a dimension."""
        return math.prod(self.sizes[name] for name in names)

    def with_sizes(self, names: Iterable[str]) -> str:
        """Some of the axes in words: `data=4, model=2`."""
        return values.listing([f"{name}={self.sizes[name]}" for name in names])

    @property
    def told(self) -> str:
        """The axes in words: `data=4, model=2`."""
        return self.with_sizes(self.sizes) or "no axes"


def axes_of(mesh: Any, doing: str) -> Axes:
    """The axes of a mesh, as users pass it.

    Args:
        mesh: A `Mesh`, an `AbstractMesh`, a dict of axis names to sizes, or None for the mesh that
            `jax.set_mesh` has set.
        doing: What is being done.

    Raises:
        SpecError: PTK001, if it is no mesh, has an axis twice, or one without devices.
    """
    if mesh is None:
        mesh = jax.sharding.get_abstract_mesh()
        if mesh.empty:
            raise_faults([no_mesh()], doing=doing)
    if isinstance(mesh, Mesh | AbstractMesh):
        # By name they would be one: JAX takes a mesh that has an axis twice.
        rows = list(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
        raise_faults(_wrong(rows), doing=doing)
        return Axes(dict(rows), mesh)
    if not isinstance(mesh, Mapping):
        fact = f"mesh must be a mesh or a dict of sizes, this is {values.kind(mesh)}"
        raise_faults([_fault("", values.spec(mesh), fact, HOW)], doing=doing)
    rows = list(mesh.items())
    raise_faults(_wrong(rows), doing=doing)
    return Axes(dict(rows))


def no_mesh() -> Fault:
    """The fault of specs that have no mesh."""
    return _fault("", "", "mesh is missing, and jax.set_mesh has set none", HOW)


def _wrong(rows: list[tuple[Any, Any]]) -> list[Fault]:
    seen: list[Any] = []
    faults = []
    for name, size in rows:
        where = f"[{name!r}]"
        if not isinstance(name, str) or not name:
            fact = f"the name of a mesh axis must be a str, this is {values.kind(name)}"
            faults.append(_fault(where, "", fact if name != "" else "a mesh axis has no name"))
        elif name in seen:
            faults.append(_fault(where, "", f"the mesh has the axis {name!r} twice"))
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            fact = "the size of a mesh axis must be an int of 1 or more"
            faults.append(_fault(where, values.spec(size, 24), fact))
        seen.append(name)
    return faults


def _fault(where: str, wanted: str, fact: str, note: str = "") -> Fault:
    return Fault("PTK001", "", "", f"mesh{where}", "", wanted, fact=fact, note=note)
