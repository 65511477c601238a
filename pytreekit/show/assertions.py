"""What an assertion of `ptk.testing` found, as text. It shows values: a test is about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .lines import fitted
from .values import count


class Gap(NamedTuple):
    """Where two arrays of one shape differ.

    Attributes:
        number: How many values differ.
        of: How many there are.
        largest: The largest difference.
        first: Where the first of them is.
        values: What either array has there.
    """

    number: int
    of: int
    largest: Any
    first: tuple[int, ...]
    values: tuple[Any, Any]


def gap(place: str, found: str, its: Gap, names: tuple[str, str]) -> str:
    """A leaf whose values differ."""
    here, there = (_number(value) for value in its.values)
    at = f" at [{','.join(map(str, its.first))}]" * bool(its.first)
    differ = f"{its.number} of {count(its.of, 'value')} {'differs' * (its.number == 1) or 'differ'}"
    return fitted(
        [
            f"  {place}   {found}   {differ}, by {_number(its.largest)} at most",
            f"      {names[0]} has {here}, {names[1]} has {there}{at}",
        ]
    )


def rows(head: str, told: Sequence[tuple[str, ...]]) -> str:
    """A head, and a line for each thing that was told, in columns."""
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in told), strict=True)]
    lines = [
        "  " + "   ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in told
    ]
    return fitted([head, "", *lines])


def head(fact: str, below: str = "") -> str:
    """A fact, and what it is about below it."""
    return fitted([fact]) + (f"\n\n{below}" if below else "")


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
