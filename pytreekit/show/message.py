"""Faults as the text of an error: ASCII, no colour, at most 88 columns, equal causes told once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ..faults import CODES, Fault, Place
from .lines import fitted
from .values import listing

MOST_GROUPS = 10
MOST_ROWS = 8
MOST_PLACES = 3


def message(
    faults: Sequence[Fault], doing: str = "", where: str = "", when: str = "", kind: str = "fault"
) -> str:
    """The whole text of an error.

    Args:
        faults: What is wrong, in the order in which to tell it.
        doing: What was being done, and to which function: `"vmap(predict)"`.
        where: The spec that is at fault: `"in_axes"`.
        when: When it was found: `"before tracing"`.
        kind: What the faults are called.
    """
    count = f"{len(faults)} {kind}" + "s" * (len(faults) != 1)
    head = f"{doing}: " * bool(doing) + count + f" in {where}" * bool(where)
    lines = [head + f", found {when}" * bool(when), ""]
    groups = [list(group) for _, group in _grouped(faults)]
    for group in groups[:MOST_GROUPS]:
        lines += _one_sized(group) if group[0].code == "PTK102" else _one(group)
    left_out = groups[MOST_GROUPS:]
    if left_out:
        codes = sorted({fault.code for group in left_out for fault in group})
        lines.append(f"  ... and {sum(map(len, left_out))} more ({', '.join(codes)}): see .faults")
    return fitted(lines)


def _grouped(faults: Sequence[Fault]) -> Iterable[tuple[tuple[str, ...], Iterable[Fault]]]:
    """Faults of one cause: the same code, spec entry, thing found and repair, told once."""

    def cause(fault: Fault) -> tuple[str, ...]:
        if fault.code == "PTK102":  # one disagreement, however many leaves take part
            return (fault.code,)
        spec = "" if fault.code.startswith("PTK2") and fault.hint else fault.spec_path
        if fault.code == "PTK205":  # many places that differ alike from those of another tree
            spec = fault.wanted
        return (fault.code, spec, fault.found, fault.title, fault.note, fault.hint)

    return itertools.groupby(faults, cause)


def _one(group: Sequence[Fault]) -> list[str]:
    fault = group[0]
    times = f"x{len(group)}, first " * (len(group) > 1)
    head = "   ".join(filter(None, [times + fault.place, fault.found, fault.title]))
    entry = ", ".join(filter(None, [fault.entry, fault.note]))
    others = listing([other.place for other in group[1:]], MOST_PLACES)
    rest = f"also {others}" if others else ""
    rows = _rows(fault.beside)
    return [f"  {fault.code}  {head}", *_indented([rest, entry, *rows]), *_fix(fault)]


def _one_sized(group: Sequence[Fault]) -> list[str]:
    """Sizes that disagree: who holds which, the majority first, the odd ones marked."""
    agreeing = list(dict.fromkeys(place for fault in group for place in fault.beside))
    differing = [Place(fault.place, fault.found, fault.note, fault.entry) for fault in group]
    room = max(MOST_ROWS - len(agreeing), 1)
    rows = _rows([*agreeing, *differing[:room]], marked=range(len(agreeing), MOST_ROWS * 2))
    if len(differing) > room:
        rows.append(f"... and {len(differing) - room} more that differ")
    fixes = list(dict.fromkeys(line for fault in group for line in _fix(fault)))
    return [f"  PTK102  {CODES['PTK102']}", *_indented(rows), *fixes]


def _rows(places: Sequence[Place], marked: Iterable[int] = ()) -> list[str]:
    """Places in columns. A column is as wide as its widest cell."""
    if not places:
        return []
    widths = [max(len(place[column]) for place in places) for column in range(len(Place._fields))]
    lines = []
    for number, place in enumerate(places):
        cells = [cell.ljust(width) for cell, width in zip(place, widths, strict=True) if width]
        lines.append("   ".join(cells).rstrip() + "   <- differs" * (number in marked))
    return lines


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"      {line}" for line in lines if line]


def _fix(fault: Fault) -> list[str]:
    return _indented([f"fix: {fault.hint}"]) if fault.hint else []
