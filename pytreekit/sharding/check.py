"""`ptk.check_shardings`: what JAX would refuse of a tree of shardings or specs beside a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from ..specs.bind import Binding
from ..trees import paths
from ..trees.boxes import Ends
from ..trees.sorts import check_sorts
from .entries import BadSpec
from .meshes import Axes, axes_of, no_mesh
from .options import Options
from .reading import literal
from .remarks import Problem
from .resolve import resolve
from .shapes import shape_of
from .sources import NAME
from .tree_source import alongside

_AS_JAX = (type(None), jax.Device, jax.memory.Space)
"""What JAX takes besides shardings, and that says nothing of any dimension."""

SPEC_NAME = "shardings"
"""What messages call the tree of shardings."""

WANTED = "must be a NamedSharding or a PartitionSpec"


def check_shardings(tree: Any, shardings: Any, *, mesh: Any = None) -> tuple[Fault, ...]:
    """What JAX would refuse of a tree of shardings beside a tree: all of it, by leaf.

    `jax.device_put` and `jax.jit` tell the first fault, often without the leaf.

    Args:
        tree: Any pytree: of arrays or of `jax.ShapeDtypeStruct`s.
        shardings: A pytree prefix of `tree`, as JAX reads it: of `NamedSharding`s, other shardings,
            or `PartitionSpec`s. None says nothing of a leaf.
        mesh: The mesh for specs, as for `ptk.partition_specs`; by default the one that
            `jax.set_mesh` has set.

    Returns:
        The faults, none where all is well: PTK301 to PTK304 of `ptk.partition_specs`, PTK201 to
        PTK204 where the structures do not fit, PTK001 for what is no sharding, or for specs where
        there is no mesh.

    Raises:
        SpecError: PTK001, if `mesh` is no mesh; PTK104, if JAX cannot flatten the tree.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from jax.sharding import PartitionSpec as P
        >>> import pytreekit as ptk
        >>> params = {"w": jnp.ones((6, 8)), "b": jnp.ones(8)}
        >>> faults = ptk.check_shardings(params, {"w": P("model"), "b": P("modle")},
        ...                              mesh={"model": 4})
        >>> for fault in faults:
        ...     print(fault.code, fault.place, fault.fact)
        PTK301 tree['b'] there is no mesh axis 'modle'
        PTK303 tree['w'] dimension 0 of 6 does not divide by 4
    """
    if mesh is None and not jax.sharding.get_abstract_mesh().empty:
        mesh = jax.sharding.get_abstract_mesh()
    checked = _Checked(None if mesh is None else axes_of(mesh, "check_shardings"), {})
    raise_faults(check_sorts(tree, NAME), doing="check_shardings")
    ends = Ends(tree, paths_first=False)
    values = alongside(ends.structure, shardings)
    if values is not None:
        return tuple(_beside(ends, values, checked))
    return tuple(_below(Binding(shardings, tree, NAME, SPEC_NAME), checked))


class _Checked(NamedTuple):
    """What has been checked: what is alike is looked at once."""

    mesh: Axes | None
    known: dict[Any, Sequence[Problem]]

    def problems(self, value: Any, leaf: Any) -> Sequence[Problem]:
        """What is wrong with a sharding or a spec for a leaf."""
        key = id(value), shape_of(leaf)
        if key not in self.known:
            self.known[key] = problems(value, key[1], self.mesh)
        return self.known[key]

    def need_mesh(self, values: Iterable[Any]) -> list[Fault]:
        """The fault of specs that have no mesh."""
        has_specs = self.mesh is None and any(isinstance(its, PartitionSpec) for its in values)
        return [no_mesh()] if has_specs else []


def _beside(ends: Ends, values: list[Any], checked: _Checked) -> Iterator[Fault]:
    """The faults of a tree of shardings that has the structure of the tree."""
    yield from checked.need_mesh(values)
    for index, (leaf, value) in enumerate(zip(ends.leaves, values, strict=True)):
        for one in checked.problems(value, leaf):
            place = paths.text(ends.paths[index])
            told = place, SPEC_NAME + place, shown.leaf(leaf), said(value)
            yield Fault(one.code, NAME, *told, fact=one.fact, note=one.note)


def _below(binding: Binding, checked: _Checked) -> Iterator[Fault]:
    """The faults of a prefix."""
    yield from checked.need_mesh(entry.value for entry in binding.entries)
    yield from binding.faults
    for bound in binding:
        for one in checked.problems(bound.value, bound.leaf):
            told = shown.leaf(bound.leaf), said(bound.value)
            yield binding.fault(one.code, bound, *told, fact=one.fact, note=one.note)


def problems(value: Any, shape: tuple[Any, ...], mesh: Axes | None) -> Sequence[Problem]:
    """What JAX would refuse of a sharding or a spec for an array of some shape.

    Args:
        value: What is to be one.
        shape: The shape of the array.
        mesh: The axes for specs; None where there are none: then only their form is checked.
    """
    if isinstance(value, NamedSharding):
        return spec_problems(value.spec, shape, _axes(value))
    if isinstance(value, PartitionSpec):
        return spec_problems(value, shape, mesh)
    sharding = getattr(value, "sharding", value)  # that of a Format
    if isinstance(sharding, NamedSharding):
        return problems(sharding, shape, mesh)
    if isinstance(sharding, Sharding):
        return _refused(sharding, shape)
    if isinstance(value, _AS_JAX):
        return ()
    return [Problem("PTK001", f"{WANTED}, this is {shown.kind(value)}")]


def spec_problems(
    spec: PartitionSpec, shape: tuple[Any, ...], mesh: Axes | None
) -> Sequence[Problem]:
    """What JAX would refuse of a spec for an array of some shape."""
    try:
        template = literal(spec)
    except BadSpec as bad:
        return [Problem("PTK001", bad.fact, bad.note)]
    if mesh is None:
        names = [name for entry in template.entries for choice in entry for name, _ in choice]
        mesh = Axes(dict.fromkeys(names, 1))
    return resolve(template, shape, Options(mesh)).problems


def said(value: Any) -> str:
    """A sharding or a spec in short."""
    return shown.spec(value.spec if isinstance(value, NamedSharding) else value)


def _axes(sharding: NamedSharding) -> Axes:
    return Axes(sharding.mesh.shape, sharding.mesh)


def _refused(sharding: Sharding, shape: tuple[Any, ...]) -> list[Problem]:
    """What a sharding of another kind says of a shape itself."""
    try:
        sharding.shard_shape(shape)
    except Exception as error:  # noqa: BLE001  each kind raises its own
        said = str(error).partition("\n")[0]
        return [Problem("PTK303", f"{type(sharding).__name__} refuses its shape", said)]
    return []
