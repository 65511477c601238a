"""Tables: plain text for files and pipes, rich for terminals, HTML for notebooks.

rich loads only when a table is shown as text.
"""

from __future__ import annotations

import io
import itertools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from .lines import WIDTH, markup

_NONE: Mapping[str, Mapping[str, str]] = types.MappingProxyType({})


class Head(NamedTuple):
    """The title of a table and the names of its columns, and of those that hold numbers."""

    title: str
    columns: tuple[str, ...]
    numbers: tuple[str, ...] = ()


MANY = 200
"""Rows of a table above which rich takes long."""

Table: TypeAlias = tuple[Head, list[tuple[str, ...]]]
"""A head and the rows below it."""


def rich(
    head: Head, rows: Sequence[tuple[str, ...]], styles: Mapping[str, Mapping[str, str]] = _NONE
) -> Any:
    """The table for a terminal: `rich.print(plan)`.

    Args:
        head: Its title and its columns.
        rows: Its cells.
        styles: For some columns, the style of words in them.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(head.title), title_justify="left", box=box.SIMPLE_HEAD)
    for column in head.columns:
        justify = "right" if column in head.numbers else "left"
        table.add_column(Text(column), overflow="fold", justify=justify)
    for row in rows:
        cells = [Text(cell) for cell in row]
        for column, cell in zip(head.columns, cells, strict=True):
            for word, style in styles.get(column, {}).items():
                cell.highlight_words([word], style)
        table.add_row(*cells)
    return table


def rich_all(tables: Iterable[Table], styles: Mapping[str, Mapping[str, str]] = _NONE) -> Any:
    """Tables for a terminal, one below the other."""
    from rich.console import Group

    return Group(*(rich(*one, styles) for one in tables))


def plain(head: Head, rows: Sequence[tuple[str, ...]]) -> str:
    """The table as text: no colour, at most 88 columns."""
    return (_long(head, rows) if len(rows) > MANY else "") or _by_rich(head, rows)


def _by_rich(head: Head, rows: Sequence[tuple[str, ...]]) -> str:
    from rich import box
    from rich.console import Console

    table = rich(head, rows)
    table.box = box.ASCII2
    stream = io.StringIO()
    console = Console(file=stream, width=WIDTH, color_system=None, legacy_windows=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def _long(head: Head, rows: Sequence[tuple[str, ...]]) -> str:
    """A table of very many rows as rich has it, `""` where it does not fit without folding cells.

    rich lays out the head and the widest cells; all other rows are written as it would.
    """
    from rich.cells import cell_len

    cells = [[cell.split("\n") for cell in row] for row in [head.columns, *rows]]
    widths = [[max(map(cell_len, cell)) for cell in column] for column in zip(*cells, strict=True)]
    most = list(map(max, widths))
    if sum(most) + 3 * len(most) + 1 > WIDTH:
        return ""
    widest = {its.index(width) for its, width in zip(widths, most, strict=True)} - {0}
    lines = _by_rich(head, [rows[number - 1] for number in sorted(widest)]).splitlines()
    *above, below = (number for number, line in enumerate(lines) if line.startswith("+-"))
    right = [column in head.numbers for column in head.columns]

    def padded(cell: str, width: int, right: bool) -> str:  # noqa: FBT001
        cell = cell.rstrip() if right else cell
        room = " " * (width - cell_len(cell))
        return room + cell if right else cell + room

    body = (
        "| " + " | ".join(map(padded, line, most, right)) + " |"
        for row in cells[1:]
        for line in itertools.zip_longest(*row, fillvalue="")
    )
    return "\n".join([*lines[: above[-1] + 1], *body, lines[below]])


def plain_all(tables: Iterable[Table]) -> str:
    """Tables as text, one below the other."""
    return "\n\n".join(plain(*one) for one in tables)


def html(
    head: Head,
    rows: Sequence[tuple[str, ...]],
    pictures: Mapping[str, Callable[[str], str | None]] | None = None,
) -> str:
    """The table as HTML that loads nothing from elsewhere, in the style of the page around it.

    Args:
        head: Its title and its columns.
        rows: Its cells.
        pictures: For some columns, what is drawn in the place of a cell: HTML, or None for none.
    """
    drawing = [(pictures or {}).get(column) for column in head.columns]
    styles = [' style="text-align:right"' * (column in head.numbers) for column in head.columns]
    lines = [
        "<table>",
        f"<caption>{'<br>'.join(map(markup, head.title.splitlines()))}</caption>",
        f"<thead>{_html_row('th', map(markup, head.columns), styles)}</thead>",
        "<tbody>",
        *(_html_row("td", map(_cell, row, drawing), styles) for row in rows),
        "</tbody>",
        "</table>",
    ]
    return "\n".join(lines)


def html_all(tables: Iterable[Table]) -> str:
    """Tables as HTML, one below the other."""
    return "\n".join(html(*one) for one in tables)


def _cell(cell: str, draw: Callable[[str], str | None] | None) -> str:
    return (draw(cell) if draw else None) or markup(cell)


def _html_row(tag: str, cells: Iterable[str], styles: Sequence[str]) -> str:
    pairs = zip(cells, styles, strict=True)
    inner = "".join(f"<{tag}{style}>{cell}</{tag}>" for cell, style in pairs)
    return f"<tr>{inner}</tr>"
