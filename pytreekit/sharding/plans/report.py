"""A plan as a report: one file of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jax.sharding import PartitionSpec

from ...show import values as shown
from ...show.report import Array, Report, page
from ...show.sizes import in_bytes, percent
from .planned import Planned
from .sharding_plan import ShardingPlan
from .tables import names, split


def html(
    plan: ShardingPlan,
    title: str,
    *,
    memory: Sequence[tuple[str, int]] = (),
    collectives: Sequence[Mapping[str, Any]] = (),
) -> str:
    """A plan as HTML that loads nothing.

    Args:
        plan: The plan.
        title: What it is of.
        memory: More of what each device holds, with its bytes: `("temporaries", 4096)`.
        collectives: What crosses the wires: rows with the same keys, which name the columns.
    """
    found = plan.memory()
    mesh = ", ".join(f"{name}={size}" for name, size in found.mesh.items()) or "no axes"
    facts = [
        ("mesh", mesh),
        ("arrays", f"{len(found.largest):,}"),
        ("in all", in_bytes(found.total)),
        ("on each device", in_bytes(found.per_device)),
        ("whole on all", percent(found.replicated)),
    ]
    its = plan._its  # noqa: SLF001  its own
    arrays = list(_arrays(its))
    notes = list(_notes(its))
    return page(Report(title, facts, found.mesh, arrays, notes, memory, collectives))


def _arrays(its: Planned) -> Iterator[Array]:
    known: dict[tuple[str, PartitionSpec], tuple[str, str, tuple[str, ...]]] = {}
    for leaf in its.leaves:
        if leaf.shape is None:
            continue
        alike = leaf.found, leaf.spec
        if alike not in known:
            known[alike] = str(split(its, leaf)), str(leaf.spec), names(its, leaf)
        why = f"{leaf.why}: {leaf.said}" if leaf.said else leaf.why
        yield Array(leaf.text, *known[alike], leaf.bytes, leaf.device_bytes, why)


def _notes(its: Planned) -> Iterator[str]:
    places: dict[str, list[str]] = {}
    for note in its.notes:
        places.setdefault(note.note, []).append(note.text)
    for told, texts in places.items():
        where = shown.listing([text for text in texts if text], 3)
        yield f"{told}: {where}" if where else told
