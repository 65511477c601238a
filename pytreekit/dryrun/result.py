"""`DryRun`: what a step would cost, as data, tables, JSON and HTML."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from ..faults import Fault
from ..show import table
from . import tables
from .collectives import Collective
from .compiling import DeviceMemory

ON_CPU = (
    "compiled for CPUs: fusion and layouts differ on an accelerator, so temporaries, bytes read "
    "and bytes written are only of the right order there"
)
RAISED = (
    "16 bit floats are raised to f32 in collectives on CPUs: counted as 16 bit for accelerators"
)
SLICED = (
    "an all-reduce of which each device keeps its slice is a reduce-scatter on accelerators, and "
    "counted so there"
)
UNSURE = "a loop whose end depends on data counts once, and each branch of a condition once"


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a step would cost: what `ptk.dry_run` returns.

    Attributes:
        step: The name of the step.
        mesh: The size of each axis of the mesh.
        platform: What it was compiled for.
        memory: What it takes of the memory of each device, in bytes.
        flops: Floating point operations of matrix products and convolutions, of each device in a
            step, the bodies of loops as often as they run.
        bytes_read: Bytes that each device reads of its memory in a step.
        bytes_written: Bytes that it writes.
        compile_seconds: How long compiling took.
        collectives: What devices exchange, what costs most first.
        findings: What is hardly meant: PTK751 to PTK754, each with its place and a remedy.
        notes: What these figures do not know of an accelerator.

    Examples:
        >>> import jax
        >>> import pytreekit as ptk
        >>> x = jax.ShapeDtypeStruct((8, 4), "float32")
        >>> run = ptk.dry_run(lambda x: 2 * x, x, mesh={"data": 4})
        >>> run.memory.arguments, run.communication, [fault.code for fault in run.findings]
        (128, 0.0, ['PTK753'])
    """

    step: str
    mesh: dict[str, int]
    platform: str
    memory: DeviceMemory
    flops: int
    bytes_read: int
    bytes_written: int
    compile_seconds: float
    collectives: tuple[Collective, ...]
    findings: tuple[Fault, ...]
    notes: tuple[str, ...]

    @property
    def communication(self) -> float:
        """The bytes that each device must send in a step, on an accelerator."""
        return float(sum(one.accelerator_sent for one in self.collectives))

    @property
    def seconds(self) -> float | None:
        """What the collectives of a step take at least, one after the other: the sum of theirs.

        Those that run at once, or while the device computes, keep it waiting for less. None without
        a `bandwidth`, and where there are none.
        """
        known = [one.seconds for one in self.collectives]
        if any(one is None for one in known):
            return None
        return sum(one for one in known if one is not None) if known else None

    def to_json(self) -> str:
        """The whole as JSON.

        Examples:
            >>> import jax, json
            >>> import pytreekit as ptk
            >>> x = jax.ShapeDtypeStruct((8, 4), "float32")
            >>> found = ptk.dry_run(lambda x: 2 * x, x, mesh={"data": 4})
            >>> json.loads(found.to_json())["memory"]["arguments"]
            128
        """
        its = dataclasses.asdict(self)
        its["memory"] = {**self.memory._asdict(), "peak": self.memory.peak}
        its["communication"], its["seconds"] = self.communication, self.seconds
        for told, one in zip(its["collectives"], self.collectives, strict=True):
            more = {"total": one.total, "sent": one.sent, "accelerator_sent": one.accelerator_sent}
            told.update(more)
        return json.dumps(its, indent=1)

    def table(self) -> str:
        """The whole as plain tables, 88 columns wide at most."""
        return tables.plain(self)

    def __repr__(self) -> str:
        return f"<DryRun of {tables.title(self)}>".replace("\n", ": ")

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return table.rich_all(tables.tables(self))

    def _repr_html_(self) -> str:
        return table.html_all(tables.tables(self))


def notes(platform: str, found: Sequence[Collective], unknown: Sequence[str]) -> tuple[str, ...]:
    """What the figures do not know, of what there is.

    Args:
        platform: What the step was compiled for.
        found: The collectives.
        unknown: Routines of which no FLOPs are known.
    """
    told = {
        ON_CPU: platform == "cpu",
        RAISED: any(one.accelerator_bytes < one.bytes for one in found),
        SLICED: any(one.accelerator != one.kind for one in found),
        UNSURE: not all(one.exact for one in found),
        f"no FLOPs are known of {', '.join(unknown)}": bool(unknown),
    }
    return tuple(note for note, is_so in told.items() if is_so)
