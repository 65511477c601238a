"""What an assertion of `ptk.testing` found, as text. It shows values: a test is about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .lines import fitted
from .message import MOST_GROUPS
from .values import count


class Gap(NamedTuple):
    """Where two arrays of one shape differ.

    Attributes:
        place: Which arrays these are.
        found: Their dtype and shape.
        number: How many values differ.
        of: How many there are.
        largest: The largest difference, None where there is no telling.
        first: Where the first of them is.
        values: What either array has there.
    """

    place: str
    found: str
    number: int
    of: int
    largest: Any
    first: tuple[int, ...]
    values: tuple[Any, Any]


def text(fact: str, below: str = "") -> str:
    """A fact, and below it what it is about."""
    return fitted([fact, *(["", *below.splitlines()] if below else [])])


def gaps(fact: str, found: Sequence[Gap], names: tuple[str, str]) -> str:
    """A fact, and the arrays whose values differ; at most ten of them."""
    lines = [line for gap in found[:MOST_GROUPS] for line in _gap(gap, names)]
    return fitted([fact, "", *lines, *_more(found)])


def rows(fact: str, told: Sequence[tuple[str, ...]]) -> str:
    """A fact, and rows in columns; at most ten of them."""
    shown = told[:MOST_GROUPS]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = [fact, ""]
    for row in shown:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width]
        lines.append("  " + "   ".join(cells).rstrip())
    return fitted([*lines, *_more(told)])


def _more(found: Sequence[Any]) -> list[str]:
    left_out = len(found) - MOST_GROUPS
    return [f"  ... and {left_out} more"] if left_out > 0 else []


def _gap(its: Gap, names: tuple[str, str]) -> Iterator[str]:
    differ = "differs" if its.number == 1 else "differ"
    most = " at most" if its.number > 1 else ""
    by = "" if its.largest is None else f", by {_number(its.largest)}{most}"
    of = count(its.of, "value")
    yield f"  {its.place}   {its.found}   {its.number} of {of} {differ}{by}"
    here, there = _pair(*its.values)
    at = f" at [{','.join(map(str, its.first))}]" if its.first else ""
    yield f"      {names[0]} has {here}, {names[1]} has {there}{at}"


def _pair(one: Any, other: Any) -> tuple[str, str]:
    """Two values that differ, in as many digits as it takes to see that."""
    short = _number(one), _number(other)
    return short if short[0] != short[1] else (_number(one, 17), _number(other, 17))


def _number(value: Any, digits: int = 6) -> str:
    return f"{value:.{digits}g}" if isinstance(value, float | complex | np.inexact) else str(value)
