"""Tables whose paths and patterns are broken between their keys, not in the midst of a word."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import table
from .lines import wrapped
from .table import Head

LEAST_ROOM = 24
"""Characters of a path on one line, at least."""

ROOT = "(root)"
"""The path of a tree that is one array."""

LONGEST = 240
"""Characters of a path that are shown: names in files of others have any length."""

_DIGITS = re.compile(r"(\d+)")
_KEY = re.compile(r"[^/.,}]+[/.,}]*|[/.,}]+")


def plain(head: Head, rows: Sequence[tuple[str, ...]], column: int = 0) -> str:
    """A table as plain text, 88 columns wide, where one column is broken between keys.

    Its title is as wide as there is room, however narrow the table is.

    Args:
        head: The title and the names of the columns.
        rows: The cells.
        column: The column that holds paths or patterns.
    """
    from rich.cells import cell_len

    columns = [[name, *its] for name, *its in zip(head.columns, *rows, strict=True)]
    widest = [max(map(cell_len, its)) for n, its in enumerate(columns) if n != column]
    room = max(table.WIDTH - 3 * len(columns) - 1 - sum(widest), LEAST_ROOM)
    broken = [(*row[:column], _broken(row[column], room), *row[column + 1 :]) for row in rows]
    below = table.plain(head._replace(title=""), broken)
    return "\n".join([wrapped(head.title.splitlines()), below])


def told(path: str) -> str:
    """A path as it is shown: its beginning and its end, if it is very long.

    >>> told("up/kernel"), told(""), len(told("x" * 1_000_000))
    ('up/kernel', '(root)', 240)
    """
    half = LONGEST // 2
    if not path:
        return ROOT
    return path if len(path) <= LONGEST else f"{path[: half - 3]}...{path[-half:]}"


def numberless(texts: Sequence[str]) -> str:
    """Texts that differ in numbers alone as one, with `*` for these.

    >>> numberless(["h/0/ln_1", "h/1/ln_1"]), numberless(["h/0/ln_1"])
    ('h/*/ln_1', 'h/0/ln_1')
    """
    parts = zip(*map(_DIGITS.split, texts), strict=True)
    return "".join(its[0] if len(set(its)) == 1 else "*" for its in parts)


def kind(text: str) -> str:
    """What texts that differ in numbers alone have in common."""
    return _DIGITS.sub("0", text)


def _broken(text: str, room: int) -> str:
    from rich.cells import cell_len

    if cell_len(text) <= room:
        return text
    lines = [""]
    for key in _KEY.findall(text):
        if cell_len(lines[-1]) + cell_len(key) > room and lines[-1].strip():
            lines.append("  ")
        lines[-1] += key
    return "\n".join(lines)
