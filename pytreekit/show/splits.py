"""Which dimensions of an array are split over which mesh axes: as text, coloured, and drawn."""

from __future__ import annotations

from typing import Any, NamedTuple

from .lines import markup
from .palette import INK, Palette

HEIGHT, UNIT, GAP = 20, 7.2, 4
MOST_STRIPES = 16


class Dimension(NamedTuple):
    """A dimension: its size, the mesh axes that split it, and into how many parts."""

    size: Any
    axes: tuple[str, ...]
    parts: int

    def __str__(self) -> str:
        return f"{self.size}/{'+'.join(self.axes)}" if self.axes else str(self.size)


class Split(NamedTuple):
    """An array: its dtype in short, and its dimensions."""

    dtype: str
    dimensions: tuple[Dimension, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dimensions))}]"


def drawn(array: Split, palette: Palette) -> str:
    """An array as boxes, one for each dimension, cut into its parts: SVG in a line of text."""
    if not array.dimensions:
        return markup(str(array))
    parts: list[str] = []
    x = 0.5
    for its in array.dimensions:
        told = str(its)
        width = max(len(told) * UNIT + 10, 24)
        parts.append(
            f'<rect x="{x}" y="0.5" width="{width:.1f}" height="{HEIGHT - 1}" '
            f'fill="{palette.fill(its.axes)}" stroke="{INK}" stroke-width="0.8"/>'
        )
        cuts = min(its.parts, MOST_STRIPES)
        parts += (
            f'<path d="M{x + width * cut / cuts:.1f} 0.5v{HEIGHT - 1}" stroke="{INK}" '
            'stroke-opacity="0.35"/>'
            for cut in range(1, cuts)
        )
        where = f'x="{x + width / 2:.1f}" y="14" text-anchor="middle"'
        parts.append(f'<text {where} fill="{INK}">{markup(told)}</text>')
        x += width + GAP
    label = markup(str(array))
    return (
        f"{markup(array.dtype)} "
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'style="vertical-align:middle" '
        f'width="{x:.0f}" height="{HEIGHT}" font-family="monospace" font-size="11">'
        f"<defs>{palette.definitions}</defs>{''.join(parts)}</svg>"
    )
