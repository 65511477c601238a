"""Lines of plain text: ASCII, of bounded width, nothing lost; and text for HTML and SVG."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable

WIDTH = 88

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML does not allow."""


def fitted(lines: Iterable[str]) -> str:
    """Lines as one text: what is not ASCII escaped, what is too long broken."""
    return wrapped(map(_ascii, lines))


def wrapped(lines: Iterable[str]) -> str:
    """Lines as one text: what is too long broken."""
    return "\n".join(part for line in lines for part in _wrapped(line))


def markup(text: str) -> str:
    """Text for HTML and SVG: escaped, also what no such file can hold, as halves of characters."""
    return html.escape(_UNFIT.sub(lambda found: ascii(found[0])[1:-1], text))


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
