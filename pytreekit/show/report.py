"""A report as one file of HTML that opens anywhere: a map, memory, collectives, arrays to search.

It loads nothing: its policy forbids all requests. What it does with a mouse it does with keys, too,
and each picture has a table beside it that says the same.
"""

from __future__ import annotations

import importlib.resources
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import folding, treemap
from .lines import markup
from .palette import Palette
from .sizes import in_bytes, percent
from .treemap import Box, Placed, Tile
from .values import count

MOST_ROWS = 5_000
"""Rows of arrays; where there are more, those that are alike share one."""

WHOLE = "whole"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Array(NamedTuple):
    """An array of a report.

    Attributes:
        path: Its path as text.
        split: Its dtype and its dimensions, with what splits them.
        spec: Its spec.
        axes: The mesh axes that split it.
        bytes: Its bytes.
        device_bytes: Its bytes on each device.
        why: What says so.
    """

    path: str
    split: str
    spec: str
    axes: tuple[str, ...]
    bytes: int
    device_bytes: int
    why: str


class Report(NamedTuple):
    """What a report tells.

    Attributes:
        title: What it is of.
        facts: What is to be known at once, each with its name.
        axes: The size of each axis of the mesh.
        arrays: The arrays.
        notes: What is right, and might still not be meant.
        memory: More of what each device holds, in bytes, such as the temporaries of a step.
        collectives: What crosses the wires: rows with the same keys, which name the columns.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    axes: Mapping[str, int]
    arrays: Sequence[Array]
    notes: Sequence[str] = ()
    memory: Sequence[tuple[str, int]] = ()
    collectives: Sequence[Mapping[str, Any]] = ()


def page(report: Report) -> str:
    """The report as HTML."""
    palette = Palette(list(report.axes), "ptk")
    style, script = _part("report.css"), _part("report.js")
    title = markup(report.title)
    facts = "".join(
        f"<div><dt>{markup(name)}</dt><dd>{markup(fact)}</dd></div>" for name, fact in report.facts
    )
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{title}</title>\n<link rel="icon" href="data:,">',
        f"<style>\n{style}</style>\n</head>\n<body>",
        '<a class="skip" href="#arrays-title">Skip to the arrays</a>',
        f'<header><h1>{title}</h1>\n<dl class="facts">{facts}</dl></header>\n<main>',
        *_map(report, palette),
        *_memory(report, palette),
        *_collectives(report),
        *_arrays(report),
        *_notes(report),
        "<footer>Made by pytreekit. This file is complete: it loads nothing.</footer>",
        f"</main>\n<script>\n{script}</script>\n</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _part(name: str) -> str:
    return (importlib.resources.files(__package__ or "") / name).read_text(encoding="utf-8")


def _map(report: Report, palette: Palette) -> Iterator[str]:
    dotted = not any("/" in its.path for its in report.arrays)
    tiles = [
        Tile(its.path.replace(".", "/") if dotted else its.path, its.bytes, its.axes, its.split)
        for its in report.arrays
    ]
    yield '<section aria-labelledby="map-title"><h2 id="map-title">Where the bytes are</h2>'
    if not any(tile.size for tile in tiles):
        yield "<p>No array has any bytes.</p></section>"
        return
    yield "<p>Area by bytes, colour by the mesh axes that split an array. A rectangle picks what"
    yield "is in it from the arrays below, and gives it back when it is pressed again. The arrow"
    yield "keys go from one to the next.</p>"
    yield '<ul class="legend">'
    for axes, its in _by_axes(report.arrays).items():
        swatch = f'<span class="swatch" style="background:{palette.css(axes)}"></span>'
        size = in_bytes(sum(array.bytes for array in its))
        yield f"<li>{swatch}{markup(_axes_told(axes))} {size}</li>"
    yield '</ul>\n<div class="map" role="group" aria-label="Map of the arrays by bytes">'
    box = Box(0, 0, treemap.WIDTH, treemap.HEIGHT)
    for placed in treemap.placed(tiles, box):
        yield _tile(placed, palette, "." if dotted else "/")
    # What is focused is told by its own name; this is for eyes.
    yield '</div><p class="pointed" aria-hidden="true"></p></section>'


def _tile(its: Placed, palette: Palette, separator: str) -> str:
    box = its.box
    place = (
        f"left:{100 * box.x / treemap.WIDTH:.3f}%;top:{100 * box.y / treemap.HEIGHT:.3f}%;"
        f"width:{100 * box.width / treemap.WIDTH:.3f}%;"
        f"height:{100 * box.height / treemap.HEIGHT:.3f}%"
    )
    largest = max(its.tiles, key=lambda tile: tile.size)
    is_module = all(f"{tile.path}/".startswith(f"{its.name}/") for tile in its.tiles)
    path = (its.name if is_module else its.name.rpartition("/")[0]).replace("/", separator)
    size = in_bytes(sum(tile.size for tile in its.tiles))
    more = f" and {count(len(its.tiles) - 1, 'more array')}" * (len(its.tiles) > 1)
    told = markup(
        f"{path or folding.ROOT}{more}: {size}, {_axes_told(largest.axes)}, {largest.told}"
    )
    label = treemap.label(its.name.replace("/", separator) or folding.ROOT, box.width)
    label = label if box.height >= treemap.LEAST_HEIGHT else ""
    return (
        f'<button type="button" class="tile" aria-pressed="false" title="{told}" '
        f'aria-label="{told}" data-path="{markup(path)}" '
        f'style="{place};background:{palette.css(largest.axes)}">{markup(label)}</button>'
    )


def _memory(report: Report, palette: Palette) -> Iterator[str]:
    here = sum(its.device_bytes for its in report.arrays)
    devices = math.prod(report.axes.values())
    yield '<section aria-labelledby="memory-title"><h2 id="memory-title">Each device</h2>'
    yield f"<p>Each of {count(devices, 'device')} holds {in_bytes(here)} of the arrays.</p>"
    rows = [
        (_axes_told(axes), len(its), sum(one.bytes for one in its), its_here, palette.css(axes))
        for axes, its in _by_axes(report.arrays).items()
        for its_here in [sum(one.device_bytes for one in its)]
    ]
    widest = max([row[3] for row in rows] + [size for _, size in report.memory], default=0) or 1
    yield _opened("memory", "Bytes on each device, by the mesh axes that split the arrays")
    yield _head(("split over", ""), ("arrays", "number"), ("bytes in all", "number"))
    yield '<th scope="col" class="number">on each device</th><th scope="col">share</th>'
    yield '<td class="bars" aria-hidden="true"></td></tr></thead><tbody>'
    for told, number, total, its_here, colour in rows:
        yield f'<tr><th scope="row"><code>{markup(told)}</code></th>{_number(number)}'
        yield f"{_number(total)}{_number(its_here)}<td>{percent(its_here / (here or 1))}</td>"
        yield f"{_bar(its_here / widest, colour)}</tr>"
    for told, size in report.memory:
        yield f'<tr><th scope="row">{markup(told)}</th><td></td><td></td>{_number(size)}<td></td>'
        yield f"{_bar(size / widest, 'var(--soft)')}</tr>"
    yield "</tbody></table></div></section>"


def _collectives(report: Report) -> Iterator[str]:
    if not report.collectives:
        return
    columns = list(dict.fromkeys(key for row in report.collectives for key in row))
    yield '<section aria-labelledby="collectives-title">'
    yield '<h2 id="collectives-title">What crosses the wires</h2>'
    yield _opened("collectives", count(len(report.collectives), "collective"))
    number = {
        key: all(_is_number(row.get(key, 0)) for row in report.collectives) for key in columns
    }
    yield _head(*((key.replace("_", " "), "number" * number[key]) for key in columns), sort=True)
    yield "</tr></thead><tbody>"
    for row in report.collectives:
        cells = (
            _number(row[key]) if _is_number(row.get(key)) else f"<td>{_text(row.get(key, ''))}</td>"
            for key in columns
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div></section>"


def _arrays(report: Report) -> Iterator[str]:
    rows = _rows(report.arrays)
    kinds = dict.fromkeys(_axes_told(its.axes) for its in report.arrays)
    options = "".join(f'<option value="{markup(its)}">{markup(its)}</option>' for its in kinds)
    yield '<section aria-labelledby="arrays-title">'
    yield '<h2 id="arrays-title" tabindex="-1">Arrays</h2>'
    yield '<form role="search"><label>Path contains'
    yield '<input id="filter" type="search" autocomplete="off" spellcheck="false"'
    yield ' placeholder="words, such as: mlp kernel" aria-controls="arrays"></label>'
    yield '<label>Split over<select id="split" aria-controls="arrays">'
    yield f'<option value="">anything</option>{options}</select></label>'
    yield '<button type="reset">Show all</button></form>'
    yield '<p><output id="count" for="filter split" aria-live="polite"></output></p>'
    shared = ", those alike but for numbers in one row" * (len(report.arrays) > MOST_ROWS)
    left = f", the first {MOST_ROWS:,} of {len(rows):,} rows" * (len(rows) > MOST_ROWS)
    caption = f"{count(len(report.arrays), 'array')}{shared}{left}; the heads sort"
    yield _opened("arrays", caption)
    yield _head(("path", ""), ("array", ""), ("spec", ""), ("bytes", "number"), sort=True)
    columns = _columns((("on each device", "number"), ("why", "")), sort=True)
    yield f"{columns}</tr></thead><tbody>"
    yield from map(_array, rows[:MOST_ROWS])
    yield "</tbody></table></div></section>"


def _rows(arrays: Sequence[Array]) -> Sequence[Array]:
    """Rows of arrays; of very many, those that differ in numbers alone as one."""
    if len(arrays) <= MOST_ROWS:
        return arrays
    groups: dict[tuple[Any, ...], list[Array]] = {}
    for its in arrays:
        groups.setdefault((folding.kind(its.path), *its[1:]), []).append(its)
    joined = (
        its[0]._replace(
            path=folding.numberless([one.path for one in its]),
            bytes=sum(one.bytes for one in its),
            device_bytes=sum(one.device_bytes for one in its),
        )
        for its in groups.values()
    )
    return list(joined)


def _array(its: Array) -> str:
    data = f'data-path="{markup(its.path)}" data-split="{markup(_axes_told(its.axes))}"'
    path = markup(its.path or folding.ROOT).replace("/", "/<wbr>").replace(".", ".<wbr>")
    return (
        f'<tr {data} data-bytes="{its.bytes}"><th scope="row"><code>{path}</code></th>'
        f"<td>{markup(its.split)}</td><td>{markup(its.spec)}</td>{_number(its.bytes)}"
        f"{_number(its.device_bytes)}<td>{markup(its.why)}</td></tr>"
    )


def _notes(report: Report) -> Iterator[str]:
    if report.notes:
        yield '<section aria-labelledby="notes-title"><h2 id="notes-title">Notes</h2><ul>'
        yield from (f"<li>{markup(note)}</li>" for note in report.notes[:MOST_ROWS])
        yield "</ul></section>"


def _by_axes(arrays: Iterable[Array]) -> dict[tuple[str, ...], list[Array]]:
    """Arrays by the axes that split them, those first that have most bytes."""
    found: dict[tuple[str, ...], list[Array]] = {}
    for its in arrays:
        found.setdefault(its.axes, []).append(its)
    return dict(sorted(found.items(), key=lambda item: -sum(one.bytes for one in item[1])))


def _axes_told(axes: Sequence[str]) -> str:
    return "+".join(axes) or WHOLE


def _opened(name: str, caption: str) -> str:
    """A table that scrolls by itself where a screen is narrow, by keys, too."""
    region = f'class="scroll" role="region" aria-label="{name}" tabindex="0"'
    return f'<div {region}><table id="{name}"><caption>{markup(caption)}</caption>'


def _head(*columns: tuple[str, str], sort: bool = False) -> str:
    return f"<thead><tr>{_columns(columns, sort=sort)}"


def _columns(columns: Iterable[tuple[str, str]], *, sort: bool) -> str:
    cells = []
    for name, kind in columns:
        told = markup(name)
        told = f'<button type="button">{told}</button>' if sort else told
        cells.append(f'<th scope="col" class="{kind}">{told}</th>')
    return "".join(cells)


def _bar(share: float, colour: str) -> str:
    style = f"width:{100 * share:.1f}%;background:{colour}"
    return f'<td class="bars" aria-hidden="true"><span class="bar" style="{style}"></span></td>'


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _number(value: Any) -> str:
    told = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    return f'<td class="number" data-value="{value}">{told}</td>'


def _text(value: Any) -> str:
    is_listing = isinstance(value, Sequence) and not isinstance(value, str)
    return markup(", ".join(map(str, value)) if is_listing else str(value))
