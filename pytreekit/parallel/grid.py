"""The mesh of a call: whose it is, and which of its axes the specs may name."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, Mesh

from ..faults import Fault
from ..sharding.meshes import Axes, axes_of, no_mesh
from ..sharding.remarks import Problem, no_axis
from ..show import values
from ..show.errors import SpecError

HOW = 'as mesh=jax.make_mesh((4, 2), ("data", "model")), or by jax.set_mesh'


@dataclasses.dataclass(frozen=True)
class Grid:
    """A mesh, and the axes of it that a function is mapped over.

    Attributes:
        axes: The axes of the mesh, all of them.
        names: Those that the function is mapped over.
        outer: Those that it is mapped over already, by a shard_map around this one.
    """

    axes: Axes
    names: frozenset[str]
    outer: frozenset[str] = frozenset()

    @property
    def mesh(self) -> Mesh | AbstractMesh:
        """The mesh, an abstract one if it came as a dict."""
        return self.axes.mesh

    @functools.cached_property
    def types(self) -> dict[str, AxisType]:
        """The type of each axis."""
        return dict(zip(self.mesh.axis_names, self.mesh.axis_types, strict=True))

    @property
    def is_explicit(self) -> bool:
        """Whether all axes that the function is mapped over are Explicit."""
        return all(self.types[name] is AxisType.Explicit for name in self.names)

    @property
    def is_whole(self) -> bool:
        """Whether the function is mapped over all axes of the mesh."""
        return self.names == frozenset(self.axes.sizes)

    def unknown(self, name: str) -> Problem | None:
        """What is wrong with an axis that a spec names: PTK301."""
        if name not in self.axes.sizes:
            return no_axis(name, self.axes)
        if name in self.outer:
            fact = f"mesh axis {name!r} is mapped by a shard_map around this one"
            return Problem("PTK301", fact)
        if name not in self.names:
            known = values.listing(sorted(map(repr, self.names)))
            return Problem(
                "PTK301", f"mesh axis {name!r} is not in axis_names", f"that has {known}"
            )
        return None


def grid_of(mesh: Any, axis_names: Any) -> tuple[Grid | None, list[Fault]]:
    """The grid of a call, or what is wrong with its mesh and its axis_names.

    Args:
        mesh: What was passed as such; a dict of sizes is one without devices.
        axis_names: The axes to map over, none for all.
    """
    around = jax.sharding.get_abstract_mesh()
    own = around if mesh is None else mesh
    if mesh is None and around.empty:
        return None, [dataclasses.replace(no_mesh(), note=HOW)]
    try:
        axes = axes_of(own, "shard_map")
    except SpecError as error:
        return None, list(error.faults)
    if not axes.sizes:
        fact = "the mesh has no axes"
        return None, [Fault("PTK001", "", "", "mesh", "", "", fact=fact)]
    faults = _check_context(own, around) + _check_names(axis_names, axes)
    if faults:
        return None, faults
    types = dict(zip(axes.mesh.axis_names, axes.mesh.axis_types, strict=True))
    outer = frozenset(name for name, its in types.items() if its is AxisType.Manual)
    names = frozenset(axis_names) or frozenset(axes.sizes)
    return Grid(axes, names - outer, outer), []


def _check_context(mesh: Any, around: AbstractMesh) -> list[Fault]:
    """PTK501: JAX takes no mesh besides the one that is set."""
    if around.empty or isinstance(mesh, Mapping) or mesh.abstract_mesh == around:
        return []
    set_has, has = _told(around), _told(mesh.abstract_mesh)
    if AxisType.Manual in around.axis_types:
        fact = "mesh is not that of the shard_map or pmap around this call"
        note = f"it has {has}; map by ptk.vmap there"
    elif set_has == has:
        fact, note = "mesh is not the one that jax.set_mesh has set", f"both have {has}"
    else:
        fact = f"mesh is not the one that jax.set_mesh has set, which has {set_has}"
        note = f"it has {has}; leave mesh out to take the one that is set"
    return [Fault("PTK501", "", "", "mesh", "", "", fact=fact, note=note)]


def _told(mesh: AbstractMesh) -> str:
    rows = zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    return values.listing([f"{name}={size} {kind.name}" for name, size, kind in rows])


def _check_names(axis_names: Any, axes: Axes) -> list[Fault]:
    if not isinstance(axis_names, set | frozenset):
        fact = f"axis_names must be a set, this is {values.kind(axis_names)}"
        wanted = values.spec(axis_names)
        return [Fault("PTK001", "", "", "axis_names", "", wanted, fact=fact)]
    odd = [name for name in axis_names if not isinstance(name, str)]
    if odd:
        fact = f"axis_names must hold the names of mesh axes, not {values.kind(odd[0])}"
        return [Fault("PTK001", "", "", "axis_names", "", values.spec(set(axis_names)), fact=fact)]
    wrong = [no_axis(name, axes) for name in sorted(axis_names - axes.sizes.keys(), key=str)]
    told = values.spec(set(axis_names))
    return [
        Fault(its.code, "", "", "axis_names", "", told, fact=its.fact, note=its.note)
        for its in wrong
    ]
