"""Lines of plain text: ASCII, of bounded width, nothing lost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

WIDTH = 88


def fitted(lines: Iterable[str]) -> str:
    """Lines as one text: what is not ASCII escaped, what is too long broken."""
    return "\n".join(part for line in lines for part in _wrapped(_ascii(line)))


def _ascii(line: str) -> str:
    """A line with what is not ASCII escaped, as in a string literal: keys may be any text."""
    return line.encode("ascii", "backslashreplace").decode("ascii")


def _wrapped(line: str) -> list[str]:
    """A line broken at spaces where it is too long; a long word is cut, never lost."""
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True
    )
