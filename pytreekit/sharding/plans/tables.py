"""A plan as tables and pictures: of its leaves, their dimensions, and of the whole tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from ...show import splits, table
from ...show import values as shown
from ...show.palette import Palette
from ...show.sizes import in_bytes, percent
from ...show.splits import Dimension, Split
from ...show.treemap import Tile, treemap
from ..plan import grouped
from ..resolve import axes_by_dimension, names_of
from .memory import memory
from .planned import Planned, ShardedLeaf

COLUMNS = ("leaf", "n", "split", "per device", "why")
NUMBERS = ("n", "per device")


def title(its: Planned) -> str:
    """What there is to say of the whole."""
    count = shown.count(len(its.leaves), "leaf", "leaves")
    found = memory(its)
    sizes = f"{in_bytes(found.total)}, {in_bytes(found.per_device)} per device"
    return f"{count} over {its.axes.told}\n{sizes}, {percent(found.replicated)} whole on all"


def tables(its: Planned) -> Iterator[table.Table]:
    """The tables of a plan: its leaves, and the notes."""
    rows = [
        (leaf.text, str(split(its, leaf) or leaf.found), _here(leaf), leaf.why)
        for leaf in its.leaves
    ]
    yield table.Head(title(its), COLUMNS, NUMBERS), grouped(rows)
    if its.notes:
        notes = [(note.text, note.kind, note.note) for note in its.notes]
        head = shown.count(len(its.notes), "note")
        yield table.Head(head, ("leaf", "n", "note", ""), ("n",)), grouped(notes)


def split(its: Planned, leaf: ShardedLeaf) -> Split | None:
    """An array, with what splits its dimensions; None for what is none."""
    if leaf.shape is None:
        return None
    axes = axes_by_dimension(leaf.spec)
    axes += [()] * (len(leaf.shape) - len(axes))
    pairs = zip(leaf.shape, axes, strict=True)
    dimensions = (Dimension(size, names, its.axes.parts(names)) for size, names in pairs)
    return Split(shown.short_dtype(leaf.dtype), tuple(dimensions))


def plain(its: Planned) -> str:
    """The tables as text."""
    return table.plain_all(tables(its))


def rich(its: Planned) -> Any:
    """The tables for a terminal, with the mesh axes in colour."""
    styles = {
        f"{sign}{name}": _STYLES[number % len(_STYLES)]
        for number, name in enumerate(its.axes.sizes)
        for sign in "/+"
    }
    return table.rich_all(tables(its), {"split": styles})


_STYLES = ("bold cyan", "bold yellow", "bold green", "bold magenta", "bold blue", "bold red")


def html(its: Planned) -> str:
    """The map and the tables as HTML that loads nothing, in the style of the page around it."""
    first, *others = tables(its)
    drawn = {str(array): array for array in {split(its, leaf) for leaf in its.leaves} if array}
    palette = Palette(list(its.axes.sizes), _name(its) + "d")

    def picture(cell: str) -> str | None:
        return splits.drawn(drawn[cell], palette) if cell in drawn else None

    leaves = table.html(*first, pictures={"split": picture})
    return "\n".join([picture_of(its, alone=False), leaves, table.html_all(others)])


def picture_of(its: Planned, *, alone: bool) -> str:
    """The whole tree as a map."""
    tiles = [
        Tile(leaf.text, leaf.bytes, names(its, leaf), f"{leaf.found} {leaf.spec}")
        for leaf in its.leaves
        if leaf.shape is not None
    ]
    return treemap(tiles, list(its.axes.sizes), _name(its), alone=alone)


def names(its: Planned, leaf: ShardedLeaf) -> tuple[str, ...]:
    """The axes that split a leaf, in the order of the mesh: how, is for the label to say."""
    used = set(names_of(leaf.spec))
    return tuple(name for name, size in its.axes.sizes.items() if name in used and size > 1)


def _name(its: Planned) -> str:
    """A name for the ids of a picture: the same for the same plan."""
    told = repr([(leaf.path, leaf.found, leaf.spec) for leaf in its.leaves]) + its.axes.told
    return "ptk" + hashlib.sha256(told.encode()).hexdigest()[:8]


def _here(leaf: ShardedLeaf) -> str:
    return in_bytes(leaf.device_bytes) if leaf.shape is not None else ""
