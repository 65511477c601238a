"""A template and a shape become a spec: every name an axis, every dimension divided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from . import remarks
from .entries import WHOLE, Choice, Entry, Template
from .layout import Layout, Size
from .options import Options
from .remarks import Problem, Remark

LARGE = 2**20
"""Elements from which an array that every device has whole is remarked on."""


class Resolved(NamedTuple):
    """The spec of one leaf, in normal form, and what there is to say of it.

    Attributes:
        spec: What can be said for sure, where there are problems.
        problems: What is wrong.
        remarks: What is worth to know.
    """

    spec: PartitionSpec
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Remark, ...] = ()


def resolve(
    template: Template, shape: Sequence[Size], options: Options, stack: Sequence[int] = ()
) -> Resolved:
    """The spec that a template gives an array.

    Args:
        template: What is asked for.
        shape: The shape of the array.
        options: The mesh, the logical names, and what may be left out.
        stack: Dimensions of the array that the template does not speak of: they stay whole.
    """
    dims = [dim for dim in range(len(shape)) if dim not in stack]
    written = template.over(len(dims))
    entries, problems, told = _known(written, options)
    if len(entries) > len(dims):
        wrong = remarks.too_long(len(template.entries), len(dims), stacked=bool(stack))
        return Resolved(PartitionSpec(), (wrong, *problems), tuple(told))
    layout = Layout({dim: shape[dim] for dim in dims}, options)
    layout.put(dict(zip(dims, entries, strict=False)))
    spec = normal([layout.axes.get(dim, ()) for dim in range(len(shape))])
    told += layout.remarks
    if template.rest is None and template.names_any and len(entries) < len(dims):
        told.append(remarks.few_entries(len(entries), len(dims)))
    problems += layout.problems
    told += whole(spec, shape, options) if not problems else []
    return Resolved(spec, tuple(problems), tuple(told))


def whole(spec: PartitionSpec, shape: Sequence[Size], options: Options) -> list[Remark]:
    """What is to be said of a large array that every device has whole."""
    elements = math.prod(shape) if all(isinstance(size, int) for size in shape) else 0
    large = elements >= LARGE and options.mesh.devices > 1
    if large and options.mesh.parts(names_of(spec)) == 1:
        return [remarks.large(elements, options.mesh.devices)]
    return []


def normal(axes: Sequence[Sequence[str]]) -> PartitionSpec:
    """A spec of the axes of each dimension, in normal form: no None at the end, no tuple of one."""
    entries: list[Any] = [its[0] if len(its) == 1 else tuple(its) or None for its in axes]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def axes_by_dimension(spec: PartitionSpec) -> list[tuple[str, ...]]:
    """The mesh axes of each entry of a spec."""
    return [
        () if part is None else part if isinstance(part, tuple) else (part,)
        for part in spec.partitions
    ]


def names_of(spec: PartitionSpec) -> list[str]:
    """All mesh axes of a spec."""
    return [name for axes in axes_by_dimension(spec) for name in axes]


def _known(
    entries: Sequence[Entry], options: Options
) -> tuple[list[Entry], list[Problem], list[Remark]]:
    """The entries without the names that nothing is known of, and what to say of these."""
    problems: dict[Problem, None] = {}
    missing: dict[str, None] = {}
    for name, _ in (its for entry in entries for choice in entry for its in choice):
        if _may_be_missing(name, options):
            missing[name] = None
        elif not _is_known(name, options):
            problems[_unknown(name, options)] = None
    known = [_without_missing(entry, options) for entry in entries]
    told = [remarks.lacking(missing)] if missing else []
    return known, list(problems), told


def _without_missing(entry: Entry, options: Options) -> Entry:
    """An entry without the axes that the mesh lacks; whole, where a name is a fault."""
    kept: list[Choice] = []
    for choice in entry:
        names = tuple(its for its in choice if not _may_be_missing(its.name, options))
        if not all(_is_known(its.name, options) for its in names):
            return WHOLE
        if names or not choice:
            kept.append(names)
    return tuple(kept) or WHOLE


def _is_known(name: str, options: Options) -> bool:
    is_logical = options.logical is not None and name in options.logical.by_name
    return is_logical or name in options.mesh.sizes


def _may_be_missing(name: str, options: Options) -> bool:
    """Whether a name is an axis of another mesh: with logical names, these must speak of it."""
    if not options.missing_may_go or _is_known(name, options):
        return False
    return options.logical is None or name in options.logical.mesh_axes


def _unknown(name: str, options: Options) -> Problem:
    if options.logical is None:
        return remarks.no_axis(name, options.mesh)
    return remarks.no_name(name, options.logical, options.mesh)
