"""What a `ShardingPlan` is made of: arrays without values, their specs, the mesh, and reasons."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ...faults import Fault
from ...show import values as shown
from ...show.errors import raise_faults
from ...trees.leaves import bytes_of, is_array
from ...trees.sorts import check_sorts
from ..assigning import Assigned, assign
from ..meshes import Axes
from ..options import options_of
from ..plan import PlannedSpec, SpecNote, SpecPlan
from ..resolve import axes_by_dimension


class ShardedLeaf(NamedTuple):
    """A leaf of a `ShardingPlan`.

    Attributes:
        path: Its path, as `jax.tree_util.keystr` prints it.
        text: The same with `/` between its keys.
        found: Its dtype and shape, `"f32[32,8]"`; its type, if it is no array.
        spec: Its `PartitionSpec`, without None at its end.
        why: What says so: the rule or entry, or the reason.
        said: What stands there, or which parameter is meant; `""` where neither is.
        shape: Its shape, None if it is no array.
        dtype: The name of its dtype, `""` if it is no array.
        bytes: Its bytes, all of it once; 0 if it is no array.
        device_bytes: Its bytes on each device.
    """

    path: str
    text: str
    found: str
    spec: PartitionSpec
    why: str
    said: str
    shape: tuple[int, ...] | None
    dtype: str
    bytes: int
    device_bytes: int


@dataclasses.dataclass(frozen=True)
class Planned:
    """A plan's parts, in flattening order.

    Attributes:
        structure: The structure of the tree.
        parts: Each array as a `jax.ShapeDtypeStruct` without a sharding; what is no array, itself.
        places: The path of each, its text, what it is, its spec, and the reason for it.
        notes: What is right, and might still not be meant.
        axes: The axes of the mesh.
    """

    structure: Any
    parts: tuple[Any, ...]
    places: tuple[PlannedSpec, ...]
    notes: tuple[SpecNote, ...]
    axes: Axes

    @property
    def specs(self) -> tuple[PartitionSpec, ...]:
        """The spec of each leaf."""
        return tuple(place.spec for place in self.places)

    @functools.cached_property
    def shardings(self) -> tuple[NamedSharding, ...]:
        """The sharding of each leaf."""
        mesh = self.axes.mesh
        known = {spec: NamedSharding(mesh, spec) for spec in set(self.specs)}
        return tuple(known[spec] for spec in self.specs)

    @functools.cached_property
    def leaves(self) -> tuple[ShardedLeaf, ...]:
        """What there is to say of each leaf."""
        return tuple(map(self._leaf, self.parts, self.places))

    def _leaf(self, part: Any, place: PlannedSpec) -> ShardedLeaf:
        if not isinstance(part, jax.ShapeDtypeStruct):
            return ShardedLeaf(*place, None, "", 0, 0)
        elements = math.prod(part.shape) if all(isinstance(n, int) for n in part.shape) else 0
        here = elements // self.parts_of(place.spec)
        sizes = bytes_of(elements, part.dtype), bytes_of(here, part.dtype)
        return ShardedLeaf(*place, tuple(part.shape), str(part.dtype), *sizes)

    def parts_of(self, spec: PartitionSpec) -> int:
        """Into how many parts a spec splits an array."""
        if spec not in self._parts:
            names = itertools.chain.from_iterable(axes_by_dimension(spec))
            self._parts[spec] = self.axes.parts(names)
        return self._parts[spec]

    @functools.cached_property
    def _parts(self) -> dict[PartitionSpec, int]:
        return {}

    def tree(self, leaves: Any) -> Any:
        """A tree of the plan's structure."""
        return self.structure.unflatten(leaves)

    def no_devices(self, how: str) -> Fault:
        """PTK001: the mesh has no devices, and how it gets some."""
        note = f"its mesh is {self.axes.told}; {how}"
        fact = "the plan has no devices"
        return Fault("PTK001", "", "", "plan", "", "", fact=fact, note=note)

    def with_devices(self, doing: str) -> Mesh:
        """The mesh, if it has devices.

        Raises:
            SpecError: PTK001, if it has none.
        """
        mesh = self.axes.mesh
        if not isinstance(mesh, Mesh):
            raise_faults([self.no_devices("ptk.ShardingPlan(..., mesh) takes a Mesh")], doing)
        return mesh  # pyright: ignore[reportReturnType]  raise_faults does not return


def planned(params: Any, specs: Any, mesh: Any) -> Planned:
    """A plan's parts, of what users pass.

    Raises:
        SpecError: What is wrong with any of it, as `ptk.partition_specs` tells it.
    """
    doing = "ShardingPlan"
    its = specs if isinstance(specs, SpecPlan) else None
    if its is not None and mesh is None and jax.sharding.get_abstract_mesh().empty:
        mesh = its.mesh
    options = options_of(mesh, None, "error", "error", doing)
    raise_faults(check_sorts(params, "tree"), doing=doing)
    found = assign(params, specs, options, None, doing, "specs")
    raise_faults(found.faults, doing=doing, where="specs", when="before placing")
    plan = found.plan()
    places, notes = plan.leaves, plan.notes
    if its is not None:
        places, notes = _with_reasons(found, plan, its), its.notes
    parts = tuple(map(_part, found.source.leaves))
    return Planned(found.source.treedef, parts, places, notes, options.mesh)


def of_specs(tree: Any, specs: SpecPlan) -> Planned:
    """A plan's parts, of specs that were made, and so checked, for this very tree.

    Args:
        tree: A tree of `jax.ShapeDtypeStruct`s without shardings.
        specs: Its specs.
    """
    leaves, structure = jax.tree.flatten(tree)
    return Planned(structure, tuple(leaves), specs.leaves, specs.notes, Axes(specs.mesh))


def _with_reasons(found: Assigned, plan: SpecPlan, given: SpecPlan) -> tuple[PlannedSpec, ...]:
    """The leaves with the reasons of a plan that says the same of them."""
    known = {(leaf.path, leaf.spec): leaf for leaf in given.leaves}
    pairs = ((leaf, known.get((leaf.path, leaf.spec), leaf)) for leaf in plan.leaves)
    return tuple(leaf._replace(why=its.why, said=its.said) for leaf, its in pairs)


def _part(leaf: Any) -> Any:
    """An array without its values and its sharding; what is no array, as it is."""
    if not is_array(leaf):
        return leaf
    aval = shown.typeof(leaf)
    return leaf if aval is None else jax.ShapeDtypeStruct(aval.shape, aval.dtype)
