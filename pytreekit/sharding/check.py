"""`ptk.check_shardings`: what JAX would refuse of a tree of shardings or specs beside a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..faults import Fault
from ..show import values as shown
from ..specs.bind import Binding, Bound
from .entries import BadSpec
from .meshes import Axes, axes_of, no_mesh
from .options import Options
from .reading import literal
from .remarks import Problem
from .resolve import resolve
from .shapes import shape_of

_AS_JAX = (type(None), jax.Device, jax.memory.Space)
"""What JAX takes besides shardings, and that says nothing of any dimension."""

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
        SpecError: PTK001, if `mesh` is no mesh.

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
    axes = None if mesh is None else axes_of(mesh, "check_shardings")
    binding = Binding(shardings, tree, "tree", "shardings")
    checked = _Checked(binding, axes, {})
    needs_mesh = axes is None and any(
        isinstance(its.value, PartitionSpec) for its in binding.entries
    )
    return (
        *([no_mesh()] if needs_mesh else []),
        *binding.faults,
        *(fault for bound in binding for fault in checked.faults(bound)),
    )


class _Checked(NamedTuple):
    """Leaves that have been checked: what is alike is looked at once."""

    binding: Binding
    mesh: Axes | None
    known: dict[Any, Sequence[Problem]]

    def faults(self, bound: Bound) -> list[Fault]:
        value, shape = bound.value, shape_of(bound.leaf)
        key = id(value), shape
        if key not in self.known:
            self.known[key] = problems(value, shape, self.mesh)
        its = self.known[key]
        if not its:
            return []
        told = shown.leaf(bound.leaf), said(value)
        return [
            self.binding.fault(one.code, bound, *told, fact=one.fact, note=one.note) for one in its
        ]


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
    mesh: Any = sharding.mesh
    return Axes(dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True)), mesh)


def _refused(sharding: Sharding, shape: tuple[Any, ...]) -> list[Problem]:
    """What a sharding of another kind says of a shape itself."""
    try:
        sharding.shard_shape(shape)
    except Exception as error:  # noqa: BLE001  each kind raises its own
        said = str(error).partition("\n")[0]
        return [Problem("PTK303", f"{type(sharding).__name__} refuses its shape", said)]
    return []
