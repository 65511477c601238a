"""A dry run as tables: the memory of a device, the collectives, the findings, the notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..show import table
from ..show import values as shown
from ..show.sizes import in_bytes, in_flops, in_seconds
from .collectives import Collective

if TYPE_CHECKING:
    from .result import DryRun

COLUMNS = ("collective", "over", "n", "bytes", "sent", "because of")
NUMBERS = ("n", "bytes", "sent", "at least")


def title(its: DryRun) -> str:
    """What there is to say of the whole."""
    mesh = ", ".join(f"{name}={size}" for name, size in its.mesh.items())
    held = f"{in_bytes(its.memory.peak)} and {in_flops(its.flops)} per device"
    least = "" if its.seconds is None else f", in at least {in_seconds(its.seconds)}"
    sent = f"{in_bytes(round(its.communication))} sent by each{least}"
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
        its_rows = [_row(one, timed=timed) for one in its.collectives]
        yield table.Head(head, columns, NUMBERS), its_rows
    if its.findings:
        head = shown.count(len(its.findings), "finding")
        columns = ("code", "where", "what", "remedy")
        found = [(one.code, _where(one), one.title, one.note) for one in its.findings]
        yield table.Head(head, columns), found
    if its.notes:
        yield table.Head("What the figures do not know", ("note",)), [(one,) for one in its.notes]


def _where(one: object) -> str:
    place, spec_path = getattr(one, "place", ""), getattr(one, "spec_path", "")
    return place or spec_path


def _row(one: Collective, *, timed: bool) -> tuple[str, ...]:
    kind = (
        one.accelerator if one.accelerator == one.kind else f"{one.accelerator} ({one.kind} on CPU)"
    )
    times = f"{one.times}" if one.exact else f"{one.times}+"
    cells = (kind, "+".join(one.axes), times, in_bytes(one.accelerator_bytes))
    seconds = (in_seconds(one.seconds),) if timed and one.seconds is not None else ("",) * timed
    cause = ", ".join(
        filter(None, [one.leaf, one.operation if one.operation != one.leaf else "", one.source])
    )
    return (*cells, in_bytes(round(one.accelerator_sent)), *seconds, cause)


def plain(its: DryRun) -> str:
    """The tables as text."""
    return table.plain_all(tables(its))
