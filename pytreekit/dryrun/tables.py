"""A dry run as tables: the memory of a device, the collectives, the findings, the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..show import table
from ..show import values as shown
from ..show.sizes import in_bytes, in_flops, in_seconds
from .collectives import Collective

if TYPE_CHECKING:
    from .result import DryRun

COLUMNS = ("collective", "over", "n", "bytes", "sent", "because of")
MOST_ROWS = 24
"""Rows of collectives that are shown; `collectives` has them all."""

NUMBERS = ("n", "bytes", "sent", "at least")


def title(its: DryRun) -> str:
    """What there is to say of the whole."""
    mesh = ", ".join(f"{name}={size}" for name, size in its.mesh.items())
    held = f"{in_bytes(its.memory.peak)} and {in_flops(its.flops)} per device"
    sent = f"{in_bytes(round(its.communication))} sent by each"
    if its.seconds is not None:
        sent += f"\nat least {in_seconds(its.seconds)}, one after the other"
    return f"{its.step} over {mesh}\n{held}\n{sent}"


def tables(its: DryRun) -> Iterator[table.Table]:
    """The tables, one below the other."""
    memory = its.memory
    rows = [
        ("arguments", in_bytes(memory.arguments)),
        ("outputs", in_bytes(memory.outputs)),
        ("of these in the place of arguments", in_bytes(memory.aliased)),
        ("temporaries", in_bytes(memory.temporaries)),
        ("at once, at most", in_bytes(memory.peak)),
        ("read in a step", in_bytes(its.bytes_read)),
        ("written in a step", in_bytes(its.bytes_written)),
    ]
    yield table.Head(title(its), ("per device", "bytes"), ("bytes",)), rows
    if its.collectives:
        timed = any(one.seconds is not None for one in its.collectives)
        head = "Collectives of a step, per device, as on an accelerator"
        columns = (*COLUMNS[:5], "at least", COLUMNS[5]) if timed else COLUMNS
        yield table.Head(head, columns, NUMBERS), list(_rows(its.collectives, timed=timed))
    if its.findings:
        head = shown.count(len(its.findings), "finding")
        columns = ("code", "where", "what", "remedy")
        found = [(one.code, one.place, one.title, one.note) for one in its.findings]
        yield table.Head(head, columns), found
    if its.notes:
        yield table.Head("What the figures do not know", ("note",)), [(one,) for one in its.notes]


def _rows(found: Sequence[Collective], *, timed: bool) -> Iterator[tuple[str, ...]]:
    """A row for all collectives that are alike, as those of many layers, what costs most first.

    The last row counts those that have none.
    """
    groups: dict[tuple[Any, ...], list[Collective]] = {}
    for one in found:
        its = one.accelerator, one.kind, one.axes, one.exact, one.accelerator_bytes
        groups.setdefault((*its, one.operation, one.source), []).append(one)
    ordered = sorted(groups.values(), key=_cost)
    for group in ordered[:MOST_ROWS]:
        yield _row(group, timed=timed)
    left = [one for group in ordered[MOST_ROWS:] for one in group]
    if left:
        times = sum(one.times for one in left)
        sent = in_bytes(round(sum(one.accelerator_sent for one in left)))
        seconds = (in_seconds(sum(one.seconds or 0.0 for one in left)),) * timed
        yield (f"{len(left)} more", "", f"{times:,}", "", sent, *seconds, "see .collectives")


def _cost(group: Sequence[Collective]) -> tuple[float, float]:
    return -sum(one.seconds or 0.0 for one in group), -sum(one.accelerator_sent for one in group)


def _row(group: Sequence[Collective], *, timed: bool) -> tuple[str, ...]:
    one = group[0]
    kind = one.accelerator + f" ({one.kind} on CPU)" * (one.accelerator != one.kind)
    times = f"{sum(each.times for each in group):,}" + "+" * (not one.exact)
    sent = in_bytes(round(sum(each.accelerator_sent for each in group)))
    seconds = (in_seconds(sum(each.seconds or 0.0 for each in group)),) * timed
    leaves = list(dict.fromkeys(each.leaf for each in group if each.leaf))
    leaf = shown.listing(leaves, 1)
    cause = ", ".join(filter(None, dict.fromkeys([leaf, one.operation, one.source])))
    return (
        kind,
        "+".join(one.axes),
        times,
        in_bytes(one.accelerator_bytes),
        sent,
        *seconds,
        cause,
    )


def plain(its: DryRun) -> str:
    """The tables as text."""
    return table.plain_all(tables(its))
