"""Arrays in a function laid out by a plan, whatever types the axes of the mesh have."""

from __future__ import annotations

import itertools
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ...faults import Fault
from ...show import values as shown
from ...show.errors import raise_faults
from ..meshes import Axes
from ..resolve import axes_by_dimension, normal
from .beside import always, beside
from .planned import Planned

DOING = "plan.constrain"


def constrain(its: Planned, tree: Any) -> Any:
    """The tree, laid out by the plan.

    JAX has one function for Auto axes and another for Explicit ones, and each refuses the axes of
    the other. An array that does not divide it makes whole, or pads, without a word: here it has
    the shape that the plan has checked.

    Raises:
        SpecError: PTK205, if the tree is another than the plan is of; PTK312, if no order of
            constraints makes a layout; PTK001, if there are no devices.
    """
    found = beside(its, tree, "tree", fits=always)
    mesh = _mesh(its)
    raise_faults([*found.faults, *_mixed_up(its, mesh)], doing=DOING)
    explicit, auto = (_of_type(mesh, kind) for kind in (AxisType.Explicit, AxisType.Auto))
    known = {
        spec: tuple(NamedSharding(mesh, _only(spec, names)) for names in (explicit, auto))
        for spec in set(its.specs)
    }
    constrained: list[Any] = []
    for part, leaf, spec in zip(its.parts, found.leaves, its.specs, strict=True):
        value = leaf
        if isinstance(part, jax.ShapeDtypeStruct):
            by_explicit, by_auto = known[spec]
            value = jax.sharding.reshard(value, by_explicit) if explicit else value
            value = jax.lax.with_sharding_constraint(value, by_auto) if auto else value
        constrained.append(value)
    return its.tree(constrained)


def _mesh(its: Planned) -> Any:
    """The mesh: that of the plan, or, if this has no devices, the one that is set."""
    mesh = its.axes.mesh
    if isinstance(mesh, Mesh):
        return mesh
    set_mesh = jax.sharding.get_abstract_mesh()
    if dict(set_mesh.shape) == its.axes.sizes:
        return set_mesh
    told = "none" if set_mesh.empty else Axes(set_mesh.shape).told
    raise_faults([its.no_devices(f"jax.set_mesh has set {told}")], doing=DOING)
    return None


def _of_type(mesh: Any, kind: AxisType) -> frozenset[str]:
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return frozenset(name for name, its in pairs if its == kind)


def _only(spec: PartitionSpec, names: frozenset[str]) -> PartitionSpec:
    """A spec without the axes that are not named."""
    return normal([tuple(a for a in axes if a in names) for axes in axes_by_dimension(spec)])


def _mixed_up(its: Planned, mesh: Any) -> list[Fault]:
    """PTK312 for dimensions that an Auto axis splits first, and then an Explicit one."""
    explicit = _of_type(mesh, AxisType.Explicit)
    if len(explicit) in {0, len(mesh.axis_names)}:
        return []
    wrong = {spec: _first_mixed_up(spec, explicit) for spec in set(its.specs)}
    faults: list[Fault] = []
    for place in its.places:
        pair = wrong[place.spec]
        if pair is not None:
            fact = f"the Auto axis {pair[0]!r} stands before the Explicit axis {pair[1]!r}"
            note = "JAX splits a dimension over Explicit axes first"
            told = place.path, "plan.specs" + place.path, place.found, shown.spec(place.spec)
            faults.append(Fault("PTK312", "tree", *told, fact=fact, note=note))
    return faults


def _first_mixed_up(spec: PartitionSpec, explicit: frozenset[str]) -> tuple[str, str] | None:
    for axes in axes_by_dimension(spec):
        for one, other in itertools.pairwise(axes):
            if one not in explicit and other in explicit:
                return one, other
    return None
