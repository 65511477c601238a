"""What differs between two trees as text: equal causes told once, a long list cut and counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .lines import fitted
from .message import MOST_GROUPS, MOST_PLACES
from .values import count, listing


class Told(NamedTuple):
    """One difference in words: its kind, its place, and what is there on either side."""

    kind: str
    place: str
    what: str


def text(told: Iterable[Told], between: str) -> str:
    """All of it as text.

    Args:
        told: The differences, in the order in which to tell them.
        between: What differs: `"a and b"`.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for kind, place, what in told:
        groups.setdefault((kind, what), []).append(place or "at the root")
    total = sum(map(len, groups.values()))
    if not total:
        return fitted([f"no differences between {between}"])
    lines = [f"{count(total, 'difference')} between {between}", ""]
    for (kind, what), places in list(groups.items())[:MOST_GROUPS]:
        times = f"x{len(places)}, first " * (len(places) > 1)
        lines.append(f"  {kind:<6}  {times}{places[0]}   {what}")
        if len(places) > 1:
            lines.append(f"      also {listing(places[1:], MOST_PLACES)}")
    left_out = list(groups.values())[MOST_GROUPS:]
    if left_out:
        lines.append(f"  ... and {sum(map(len, left_out))} more")
    return fitted(lines)
