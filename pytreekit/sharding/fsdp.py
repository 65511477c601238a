"""`ptk.fsdp_specs` and `ptk.fsdp_plan`: specs that split what is large over one more mesh axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from ..specs.partition import chosen
from ..specs.rules import Rules
from .asked import are_pairs
from .assigning import Assigned, assign
from .logical import no_axis
from .meshes import Axes
from .options import options_of
from .plan import PlannedSpec, SpecNote, SpecPlan
from .resolve import axes_by_dimension, normal, whole
from .shapes import shape_of, stacks_of

MIN_SIZE = 2**16
"""Elements below which an array stays as it is."""


class Fill(NamedTuple):
    """What is the same for all leaves.

    Attributes:
        axes: The mesh axes to split over, as one.
        min_size: Elements below which an array stays as it is.
        mesh: The axes of the mesh.
    """

    axes: tuple[str, ...]
    min_size: int
    mesh: Axes

    @property
    def parts(self) -> int:
        """Into how many parts they split a dimension."""
        return self.mesh.parts(self.axes)


def fsdp_specs(
    params: Any,
    base: Any = None,
    *,
    mesh: Any = None,
    axis: Any = "fsdp",
    min_size: int = MIN_SIZE,
    where: Any = None,
    stack: Any = None,
) -> Any:
    """Specs that split every large leaf over one more mesh axis, as fully sharded training does.

    Of each leaf, the largest dimension that is free and divides by the axis is split; of equal ones
    the first. Where none is, the largest that is split already is split further, if it divides.

    Args:
        params: Any pytree: also an optimizer state, for which this is ZeRO-1.
        base: The specs so far: a tree of specs, a prefix of `params`, or a plan; None for none.
        mesh: As for `ptk.partition_specs`.
        axis: The mesh axis to split over, or a tuple of some, which are used as one.
        min_size: Elements below which a leaf stays as it is.
        where: A mask, which leaves to split: a pytree prefix of bools or functions `leaf -> bool`,
            or rules of bools. By default all.
        stack: Rules of the dimensions that are stacks of layers, `{"decoder/layers/**": 0}`: they
            are not split.

    Returns:
        A tree of the structure of `params`, with a `PartitionSpec` for each leaf.

    Raises:
        SpecError: PTK301, if there is no such mesh axis; what is wrong with `base`, as
            `ptk.partition_specs` tells it; with `where`, as `ptk.partition` does; PTK306, if
            `stack` cannot be read; PTK001, if an argument is of a wrong kind.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> params = {"w": jnp.ones((512, 2048)), "b": jnp.ones(2048)}
        >>> base = ptk.partition_specs(params, [("w", "_ model"), ("b", "_")],
        ...                            mesh={"fsdp": 4, "model": 2})
        >>> ptk.fsdp_specs(params, base, mesh={"fsdp": 4, "model": 2})
        {'b': P(), 'w': P('fsdp', 'model')}

    After FSDP (Zhao et al. 2023, https://arxiv.org/abs/2304.11277) and ZeRO (Rajbhandari et al.
    2020, https://arxiv.org/abs/1910.02054). big_vision and kauldron take the last of equal
    dimensions.
    """
    its = {"axis": axis, "min_size": min_size, "where": where, "stack": stack}
    return _filled(params, base, "fsdp_specs", mesh=mesh, **its).tree


def fsdp_plan(
    params: Any,
    base: Any = None,
    *,
    mesh: Any = None,
    axis: Any = "fsdp",
    min_size: int = MIN_SIZE,
    where: Any = None,
    stack: Any = None,
) -> SpecPlan:
    """As `ptk.fsdp_specs`, with the reason for each spec.

    Args:
        params: As for `ptk.fsdp_specs`.
        base: As for `ptk.fsdp_specs`.
        mesh: As for `ptk.fsdp_specs`.
        axis: As for `ptk.fsdp_specs`.
        min_size: As for `ptk.fsdp_specs`.
        where: As for `ptk.fsdp_specs`.
        stack: As for `ptk.fsdp_specs`.

    Returns:
        A `SpecPlan`, with notes of large leaves that stay whole on every device.

    Raises:
        SpecError: What `ptk.fsdp_specs` raises.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> params = {"w": jnp.ones((512, 2048)), "b": jnp.ones(2048)}
        >>> for leaf in ptk.fsdp_plan(params, mesh={"fsdp": 4}).leaves:
        ...     print(leaf.text, leaf.spec, leaf.why, sep="; ")
        b; P(); small
        w; P(None, 'fsdp'); dimension 1
    """
    its = {"axis": axis, "min_size": min_size, "where": where, "stack": stack}
    return _filled(params, base, "fsdp_plan", mesh=mesh, **its).plan()


class _Filled(NamedTuple):
    """Specs that are filled in, with a reason each."""

    assigned: Assigned
    specs: list[PartitionSpec]
    reasons: list[str]

    @property
    def tree(self) -> Any:
        return self.assigned.source.treedef.unflatten(self.specs)

    def plan(self) -> SpecPlan:
        its, options = self.assigned, self.assigned.options
        leaves: list[PlannedSpec] = []
        notes: list[SpecNote] = []
        for index, (spec, reason) in enumerate(zip(self.specs, self.reasons, strict=True)):
            place = its.source.path(index), its.source.text(index)
            leaves.append(PlannedSpec(*place, its.found(index), spec, reason))
            shape = shape_of(its.source.leaves[index])
            notes += (SpecNote(kind, *place, text) for kind, text in whole(spec, shape, options))
        return SpecPlan(self.tree, tuple(leaves), tuple(notes), options.mesh.sizes)


def _filled(
    params: Any,
    base: Any,
    doing: str,
    *,
    mesh: Any,
    axis: Any,
    min_size: Any,
    where: Any,
    stack: Any,
) -> _Filled:
    options = options_of(mesh, None, "error", "error", doing)
    fill = _fill(axis, min_size, options.mesh, doing)
    base = PartitionSpec() if base is None else base
    assigned = assign(params, base, options, None, doing, spec_name="base")
    stacks = stacks_of(params, assigned.source.leaves, stack)
    raise_faults(
        [*assigned.faults, *stacks.faults], doing=doing, where="base", when="before placing"
    )
    choices = _chosen(params, where, doing, len(assigned.specs))
    known: dict[Any, tuple[PartitionSpec, str]] = {}
    rows: list[tuple[PartitionSpec, str]] = []
    for index, (leaf, spec) in enumerate(zip(assigned.source.leaves, assigned.specs, strict=True)):
        alike = shape_of(leaf), spec, stacks.dims[index]
        key = alike, choices[index]
        if key not in known:
            known[key] = filled(*alike, fill, choice=choices[index])
        rows.append(known[key])
    return _Filled(assigned, [spec for spec, _ in rows], [reason for _, reason in rows])


def _fill(axis: Any, min_size: Any, mesh: Axes, doing: str) -> Fill:
    axes = axis if isinstance(axis, tuple) else (axis,)
    faults: list[Fault] = []
    if not axes or not all(isinstance(name, str) for name in axes) or len(set(axes)) < len(axes):
        fact = "axis must be the name of a mesh axis, or a tuple of some"
        faults.append(Fault("PTK001", "", "", "axis", "", shown.spec(axis, 24), fact=fact))
    else:
        lacking = [name for name in axes if name not in mesh.sizes]
        faults += [no_axis(name, mesh, "axis", shown.spec(axis)) for name in lacking]
    if isinstance(min_size, bool) or not isinstance(min_size, int) or min_size < 0:
        fact = "min_size must be an int of 0 or more"
        faults.append(Fault("PTK001", "", "", "min_size", "", shown.spec(min_size, 24), fact=fact))
    raise_faults(faults, doing=doing)
    return Fill(axes, min_size, mesh)


def _chosen(params: Any, where: Any, doing: str, leaves: int) -> list[bool]:
    if where is None:
        return [True] * leaves
    return chosen(params, Rules(where) if are_pairs(where) else where, doing)


def filled(
    shape: tuple[Any, ...], spec: PartitionSpec, stack: Sequence[int], fill: Fill, *, choice: bool
) -> tuple[PartitionSpec, str]:
    """The spec of one leaf, and the reason for it.

    Args:
        shape: Its shape.
        spec: Its spec so far.
        stack: Its dimensions that are stacks, which are not split.
        fill: What is the same for all leaves.
        choice: Whether it is to be split at all.
    """
    reason = _left_alone(shape, spec, fill) if choice else "where says False"
    if reason:
        return spec, reason
    axes = [*axes_by_dimension(spec), *[()] * (len(shape) - len(spec))]
    free_first = sorted(range(len(shape)), key=lambda dim: (bool(axes[dim]), -shape[dim], dim))
    for dim in free_first:
        parts = fill.mesh.parts([*axes[dim], *fill.axes])
        if dim not in stack and shape[dim] and shape[dim] % parts == 0:
            further = f" further: no free one divides by {fill.parts}" * bool(axes[dim])
            axes[dim] = (*axes[dim], *fill.axes)
            return normal(axes), f"dimension {dim}{further}"
    return spec, f"no dimension divides by {fill.parts}"


def _left_alone(shape: tuple[Any, ...], spec: PartitionSpec, fill: Fill) -> str:
    """Why a leaf stays as it is, nothing if it need not."""
    if not all(isinstance(size, int) for size in shape):
        return "its shape is not known"
    elements = math.prod(shape)
    if elements < max(fill.min_size, 2):
        return "small"
    there = [name for axes in axes_by_dimension(spec) for name in axes if name in fill.axes]
    return f"{there[0]} splits it already" if there else ""
