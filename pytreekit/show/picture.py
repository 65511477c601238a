"""Pictures as the text of an SVG file: bars that lie, bars that stand. Nothing else is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .lines import markup

WIDTH = 720.0
ROW, GAP, MARGIN = 18.0, 6.0, 16.0
NAMES = 260.0
"""The room for the names of bars that lie."""

STANDING = 140.0
"""How high bars that stand can be."""

MOST_BINS = 40

CHARACTER = 7.0
"""The width of a character, about."""


class Bar(NamedTuple):
    """A bar: its name, how long it is, and what is written at its end."""

    name: str
    length: float
    told: str


class Chart(NamedTuple):
    """A title over bars; those of a histogram stand side by side, others lie below each other."""

    title: str
    bars: Sequence[Bar]
    standing: bool = False


def histogram(numbers: np.ndarray) -> list[Bar]:
    """Bars for how many numbers lie where, none of them for what is not finite."""
    finite = np.asarray(numbers)[np.isfinite(numbers)]
    counts, edges = np.histogram(finite, bins=MOST_BINS) if len(finite) else ([], [])
    pairs = zip(counts, edges, strict=False)
    return [Bar(f"{edge:.3g}", float(count), str(count)) for count, edge in pairs]


def svg(charts: Sequence[Chart]) -> str:
    """Charts below each other. Colours are those of the page around it, where there is one."""
    top, parts = MARGIN, []
    for chart in charts:
        parts.append(_text(MARGIN, top + ROW - GAP, chart.title, weight="bold"))
        top += ROW + GAP
        drawn, height = _standing(chart.bars, top) if chart.standing else _lying(chart.bars, top)
        parts += drawn
        top += height + MARGIN
    size = f'width="{WIDTH:g}" height="{top:g}" viewBox="0 0 {WIDTH:g} {top:g}"'
    style = 'font-family="monospace" font-size="12" fill="currentColor"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">'
    return "\n".join([opening, *parts, "</svg>"]) + "\n"


def _lying(bars: Sequence[Bar], top: float) -> tuple[list[str], float]:
    room = WIDTH - NAMES - 2 * MARGIN - 12 * CHARACTER
    longest = max((bar.length for bar in bars), default=0.0) or 1.0
    parts = []
    for number, bar in enumerate(bars):
        y = top + number * (ROW + GAP)
        name, length = _cut(bar.name, int(NAMES / CHARACTER)), room * max(bar.length, 0.0) / longest
        parts.append(_text(MARGIN, y + ROW - GAP, name))
        parts.append(_box(MARGIN + NAMES, y, length, ROW - 2))
        parts.append(_text(MARGIN + NAMES + length + GAP, y + ROW - GAP, bar.told))
    return parts, len(bars) * (ROW + GAP)


def _standing(bars: Sequence[Bar], top: float) -> tuple[list[str], float]:
    width = (WIDTH - 2 * MARGIN) / max(len(bars), 1)
    longest = max((bar.length for bar in bars), default=0.0) or 1.0
    every = max(1, math.ceil(9 * CHARACTER / width))
    parts = []
    for number, bar in enumerate(bars):
        x, height = MARGIN + number * width, STANDING * bar.length / longest
        parts.append(_box(x, top + STANDING - height, width - 1, height))
        if number % every == 0:
            parts.append(_text(x, top + STANDING + ROW - GAP, bar.name))
    return parts, STANDING + ROW


def _box(x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="#3f51b5" fill-opacity="0.75"/>'


def _text(x: float, y: float, text: str, weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}">{markup(text)}</text>'


def _cut(name: str, most: int) -> str:
    """The end of a name that is too long: what tells leaves apart is there."""
    return name if len(name) <= most else f"...{name[3 - most :]}"
