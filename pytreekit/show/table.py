"""Tables: plain text for files and pipes, rich for terminals. rich loads only when one is shown."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

WIDTH = 88


class Head(NamedTuple):
    """The title of a table and the names of its columns."""

    title: str
    columns: tuple[str, ...]


def rich(head: Head, rows: Sequence[tuple[str, ...]]) -> Any:
    """The table for a terminal: `rich.print(plan)`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(head.title), title_justify="left", box=box.SIMPLE_HEAD)
    for column in head.columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


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
