"""Tables: plain text for files and pipes, rich for terminals, HTML for notebooks.

rich loads only when a table is shown as text.
"""

from __future__ import annotations

import html as markup
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

WIDTH = 88


class Head(NamedTuple):
    """The title of a table and the names of its columns, and of those that hold numbers."""

    title: str
    columns: tuple[str, ...]
    numbers: tuple[str, ...] = ()


Table: TypeAlias = tuple[Head, list[tuple[str, ...]]]
"""A head and the rows below it."""


def rich(head: Head, rows: Sequence[tuple[str, ...]]) -> Any:
    """The table for a terminal: `rich.print(plan)`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(head.title), title_justify="left", box=box.SIMPLE_HEAD)
    for column in head.columns:
        justify = "right" if column in head.numbers else "left"
        table.add_column(Text(column), overflow="fold", justify=justify)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def rich_all(tables: Iterable[Table]) -> Any:
    """Tables for a terminal, one below the other."""
    from rich.console import Group

    return Group(*(rich(*one) for one in tables))


def plain(head: Head, rows: Sequence[tuple[str, ...]]) -> str:
    """The table as text: no colour, at most 88 columns."""
    from rich import box
    from rich.console import Console

    table = rich(head, rows)
    table.box = box.ASCII2
    stream = io.StringIO()
    console = Console(file=stream, width=WIDTH, color_system=None, legacy_windows=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def plain_all(tables: Iterable[Table]) -> str:
    """Tables as text, one below the other."""
    return "\n\n".join(plain(*one) for one in tables)


def html(head: Head, rows: Sequence[tuple[str, ...]]) -> str:
    """The table as HTML that loads nothing from elsewhere, in the style of the page around it."""
    styles = [' style="text-align:right"' * (column in head.numbers) for column in head.columns]
    lines = [
        "<table>",
        f"<caption>{markup.escape(head.title)}</caption>",
        f"<thead>{_html_row('th', head.columns, styles)}</thead>",
        "<tbody>",
        *(_html_row("td", row, styles) for row in rows),
        "</tbody>",
        "</table>",
    ]
    return "\n".join(lines)


def html_all(tables: Iterable[Table]) -> str:
    """Tables as HTML, one below the other."""
    return "\n".join(html(*one) for one in tables)


def _html_row(tag: str, cells: Sequence[str], styles: Sequence[str]) -> str:
    pairs = zip(cells, styles, strict=True)
    inner = "".join(f"<{tag}{style}>{markup.escape(cell)}</{tag}>" for cell, style in pairs)
    return f"<tr>{inner}</tr>"
