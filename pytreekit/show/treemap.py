"""A tree as a map: each leaf a rectangle with the area of its bytes, modules side by side."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .lines import markup
from .palette import INK, Palette
from .sizes import in_bytes
from .values import count

WIDTH, HEIGHT, LEGEND = 880, 440, 26
SMALLEST = 1 / 200
"""The share of the map below which a module is one rectangle: no picture has very many."""

MOST = 150
"""Rectangles in one module."""

CHARACTER = 6.6
"""The width of a character in the labels."""

LEAST_HEIGHT = 16
"""The height of a rectangle that has a label."""

FEWEST = 8
"""Characters of a label that is cut: fewer tell nothing, and the path is shown on hovering."""


class Tile(NamedTuple):
    """A leaf of the map.

    Attributes:
        path: Its path, with `/` between its keys.
        size: Its bytes.
        axes: The mesh axes that split it.
        told: What there is to say of it.
    """

    path: str
    size: int
    axes: tuple[str, ...]
    told: str


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


@dataclasses.dataclass
class _Node:
    """A module, or a leaf: its name, the leaves below it, its bytes."""

    name: str
    tiles: list[Tile]
    below: dict[str, _Node]

    @functools.cached_property
    def size(self) -> int:
        return sum(tile.size for tile in self.tiles)


def treemap(tiles: Sequence[Tile], axes: Sequence[str], prefix: str, *, alone: bool) -> str:
    """The map as SVG that loads nothing.

    Args:
        tiles: The leaves.
        axes: The mesh axes.
        prefix: What ids begin with, different in each picture of a page.
        alone: Whether it is a file of its own, which has to follow light and dark itself; in a page
            its text has the colour of the page.
    """
    palette = Palette(axes, prefix)
    shown = [tile for tile in tiles if tile.size > 0]
    box = Box(0, LEGEND, WIDTH, HEIGHT)
    rectangles = "".join(_rectangle(its, palette) for its in placed(shown, box))
    legend = "".join(_legend(shown, palette))
    style = _STYLE if alone else ""
    total = in_bytes(sum(tile.size for tile in shown))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ptk-map" role="img" '
        f'viewBox="0 0 {WIDTH} {HEIGHT + LEGEND}" width="100%" '
        f'style="max-width:{WIDTH}px" font-family="monospace" font-size="11">'
        f"<title>{count(len(shown), 'array')}, {total}, area by bytes, colour by sharding</title>"
        f"{style}<defs>{palette.definitions}</defs>{legend}{rectangles}</svg>"
    )


_STYLE = (
    "<style>svg.ptk-map{color:#14171a}"
    "@media (prefers-color-scheme:dark){svg.ptk-map{color:#e6e8ea}}</style>"
)


def _tree(tiles: Sequence[Tile]) -> _Node:
    root = _Node("", list(tiles), {})
    for tile in tiles:
        node = root
        for key in tile.path.split("/"):
            node = node.below.setdefault(key, _Node(key, [], {}))
            node.tiles.append(tile)
    return root


class Placed(NamedTuple):
    """A rectangle of the map: a leaf, or a module too small to be told apart.

    Attributes:
        name: Its path.
        tiles: The leaves in it.
        box: Where it is.
    """

    name: str
    tiles: Sequence[Tile]
    box: Box


def placed(tiles: Sequence[Tile], box: Box) -> Iterator[Placed]:
    """The rectangles of a map.

    Args:
        tiles: The leaves, of which those without bytes have no place.
        box: The whole map.
    """
    root = _tree([tile for tile in tiles if tile.size > 0])
    whole = root.size
    pending: list[tuple[_Node, str, Box]] = [(root, "", box)] if whole else []
    while pending:
        node, name, here = pending.pop()
        while len(node.below) == 1:
            (node,) = node.below.values()
            name = f"{name}/{node.name}".lstrip("/")
        if not node.below or node.size < SMALLEST * whole:
            yield Placed(name, node.tiles, here)
            continue
        children = _largest(node)
        boxes = squarified([child.size for child in children], here)
        for child, its in reversed(list(zip(children, boxes, strict=True))):
            pending.append((child, f"{name}/{child.name}".lstrip("/"), its))


def _largest(node: _Node) -> list[_Node]:
    """What is below a module, the largest first, the smallest of very many as one."""
    children = sorted(node.below.values(), key=lambda child: -child.size)
    few, rest = children[: MOST - 1], children[MOST - 1 :]
    if len(rest) <= 1:
        return children
    tiles = [tile for child in rest for tile in child.tiles]
    return sorted([*few, _Node(f"({len(rest):,} more)", tiles, {})], key=lambda child: -child.size)


def squarified(sizes: Sequence[int], box: Box) -> list[Box]:
    """Rectangles of these areas, largest first, that fill a box and are nearly square.

    After Bruls, Huizing and van Wijk, Squarified Treemaps, 2000.
    """
    left = sum(sizes)
    boxes: list[Box] = []
    row: list[int] = []
    for size in sizes:
        if row and _worst([*row, size], left, box) > _worst(row, left, box):
            placed, box = _laid(row, left, box)
            boxes += placed
            left -= sum(row)
            row = []
        row.append(size)
    return boxes + (_laid(row, left, box)[0] if row else [])


def _worst(row: Sequence[int], left: int, box: Box) -> float:
    """How far from square the worst rectangle of a row is."""
    short, long = sorted((box.width, box.height))
    if not short or not left:
        return 1.0
    depth = long * sum(row) / left
    lengths = [short * size / sum(row) for size in row]
    return max(max(depth / length, length / depth) for length in lengths)


def _laid(row: Sequence[int], left: int, box: Box) -> tuple[list[Box], Box]:
    """A row along the short side of a box, and what is left of the box."""
    share, along = sum(row) / left, 0.0
    boxes: list[Box] = []
    for size in row:
        part = size / sum(row)
        if box.width >= box.height:
            depth = box.width * share
            boxes.append(Box(box.x, box.y + along, depth, box.height * part))
            along += box.height * part
        else:
            depth = box.height * share
            boxes.append(Box(box.x + along, box.y, box.width * part, depth))
            along += box.width * part
    if box.width >= box.height:
        cut = box.width * share
        return boxes, Box(box.x + cut, box.y, box.width - cut, box.height)
    cut = box.height * share
    return boxes, Box(box.x, box.y + cut, box.width, box.height - cut)


def told(its: Placed) -> str:
    """What there is to say of a rectangle, the largest leaf in it first."""
    largest = _largest_of(its)
    more = f" and {len(its.tiles) - 1} more" if len(its.tiles) > 1 else ""
    return f"{largest.path}{more}: {in_bytes(sum(tile.size for tile in its.tiles))}, {largest.told}"


def label(name: str, width: float | int) -> str:
    """The end of a name that has room in a width, `""` for less than tells anything."""
    room = int((width - 8) / CHARACTER)
    if room < min(len(name), FEWEST):
        return ""
    return name if len(name) <= room else ".." + name[2 - room :]


def _largest_of(its: Placed) -> Tile:
    return max(its.tiles, key=lambda tile: tile.size)


def _rectangle(its: Placed, palette: Palette) -> str:
    box = its.box
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
    fill = palette.fill(_largest_of(its).axes)
    cut = label(its.name, box.width) if box.height >= LEAST_HEIGHT else ""
    where = f'x="{box.x + 4:.1f}" y="{box.y + 13:.1f}"'
    text = f'<text {where} fill="{INK}">{markup(cut)}</text>' if cut else ""
    rect = f'<rect {place} fill="{fill}" stroke="{INK}" stroke-width="0.6"/>'
    return f"<g><title>{markup(told(its))}</title>{rect}{text}</g>"


def _legend(tiles: Sequence[Tile], palette: Palette) -> Iterator[str]:
    """What the colours stand for."""
    sizes: dict[tuple[str, ...], int] = {}
    for tile in tiles:
        sizes[tile.axes] = sizes.get(tile.axes, 0) + tile.size
    x = 0.0
    for axes, size in sorted(sizes.items(), key=lambda item: -item[1]):
        its = f"{'+'.join(axes) or 'whole'} {in_bytes(size)}"
        if x + 20 + len(its) * CHARACTER > WIDTH:
            return
        yield f'<rect x="{x:.1f}" y="5" width="14" height="14" fill="{palette.fill(axes)}"/>'
        yield f'<text x="{x + 19:.1f}" y="16" fill="currentColor">{markup(its)}</text>'
        x += 35 + len(its) * CHARACTER
