"""Two plans side by side: by the paths of their leaves, so that a plan from a file is one too."""

from __future__ import annotations

from collections.abc import Iterator

from ...trees.difference import Difference, TreeDiff
from .planned import Planned, ShardedLeaf


def diff(one: Planned, other: Planned, names: tuple[str, str]) -> TreeDiff:
    """Everything in which two plans differ, reasons and notes apart."""
    return TreeDiff(tuple(_differences(one, other)), names)


def same(one: Planned, other: Planned) -> bool:
    """Whether two plans say the same of the same tree."""
    return (
        one.structure == other.structure
        and one.specs == other.specs
        and axes_told(one) == axes_told(other)
        and not any(True for _ in _differences(one, other))
    )


def axes_told(its: Planned) -> str:
    """The axes of a mesh with their types: `data=4 (Auto), model=2 (Explicit)`."""
    mesh = its.axes.mesh
    rows = zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    return ", ".join(f"{name}={size} ({kind.name})" for name, size, kind in rows) or "no axes"


def _differences(one: Planned, other: Planned) -> Iterator[Difference]:
    here, there = axes_told(one), axes_told(other)
    if here != there:
        yield Difference("mesh", "", here, there)
    others = {leaf.path: leaf for leaf in other.leaves}
    for leaf in one.leaves:
        its = others.pop(leaf.path, None)
        if its is None:
            yield Difference("keys", leaf.path, _told(leaf), "")
        else:
            yield from _of_leaf(leaf, its)
    for leaf in others.values():
        yield Difference("keys", leaf.path, "", _told(leaf))


def _of_leaf(one: ShardedLeaf, other: ShardedLeaf) -> Iterator[Difference]:
    if one.found != other.found:
        yield Difference("leaf", one.path, one.found, other.found)
    if one.spec != other.spec:
        yield Difference("spec", one.path, str(one.spec), str(other.spec))


def _told(leaf: ShardedLeaf) -> str:
    return f"{leaf.found} {leaf.spec}"
