"""What `pytreekit shard` shows: the specs, what is to be said of them, and what each rule took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..sharding.plan import SpecPlan
from ..sharding.plans.memory import PlanMemory
from ..sharding.plans.planned import ShardedLeaf
from ..show import folding
from ..show import values as shown
from ..show.lines import wrapped
from ..show.table import Head, Table
from ..specs.audit import Audit, AuditedRule, headline
from .saying import line

MOST_PLACES = 3
"""Places of a note that are shown; the rest is counted."""


class _Row(NamedTuple):
    """What stands in the table of a leaf, or of all that are alike."""

    leaf: str
    leaves: int
    found: str
    spec: str
    rule: str


def planned(
    memory: PlanMemory, leaves: Sequence[ShardedLeaf], numbers: Sequence[int], *, joined: bool
) -> Table:
    """The specs of a plan.

    Args:
        memory: What it takes.
        leaves: Its leaves.
        numbers: The index of the rule of each leaf, -1 for the default.
        joined: Whether leaves that are alike have one row.
    """
    specs = {spec: str(spec) for spec in {leaf.spec for leaf in leaves}}
    rows: Iterable[_Row] = [
        _Row(leaf.text, 1, leaf.found, specs[leaf.spec], str(number) if number >= 0 else "-")
        for leaf, number in zip(leaves, numbers, strict=True)
    ]
    cells = [(row.leaf, f"{row.leaves:,}", *row[2:]) for row in (_joined(rows) if joined else rows)]
    mesh = ", ".join(f"{name}={size}" for name, size in memory.mesh.items())
    counts = shown.count(len(leaves), "leaf", "leaves")
    title = f"{counts} on {mesh}: {memory.total:,} bytes, {memory.per_device:,} a device"
    columns = ("leaf", "leaves", "found", "spec", "rule")
    return Head(title, columns, ("leaves", "rule")), cells


def _joined(rows: Iterable[_Row]) -> Iterator[_Row]:
    """Rows of leaves that are alike but for numbers in their paths as one."""
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault((folding.kind(row.leaf), *row[2:]), []).append(row)
    for alike in groups.values():
        leaf = folding.numberless([row.leaf for row in alike])
        yield alike[0]._replace(leaf=leaf, leaves=len(alike))


def notes(plan: SpecPlan) -> str:
    """The notes of a plan, and an empty line."""
    return "\n".join(["", *_notes(plan)])


def _notes(plan: SpecPlan) -> Iterator[str]:
    places: dict[str, list[_Row]] = {}
    for note in plan.notes:
        places.setdefault(note.note, []).append(_Row(note.text, 1, "", "", ""))
    if places:
        yield shown.count(len(places), "note")
        yield wrapped(_note(told, its) for told, its in places.items())
        yield ""


def _note(told: str, places: Sequence[_Row]) -> str:
    leaves = [folding.told(line(row.leaf)) for row in _joined(places) if row.leaf]
    return f"  {told}" + f": {shown.listing(leaves, MOST_PLACES)}" * bool(leaves)


def audited(audit: Audit) -> Table:
    """What each rule took."""
    rows = [_audited(rule) for rule in audit.rules]
    for told, leaves in (("(the default)", audit.defaulted), ("(no rule)", audit.unmatched)):
        if leaves:
            rows.append(
                ("-", told, "", f"{len(leaves):,}", f"{sum(its.bytes for its in leaves):,}")
            )
    columns = ("rule", "pattern", "value", "leaves", "bytes")
    head = Head(headline(audit), columns, ("rule", "leaves", "bytes"))
    return head, rows


def _audited(rule: AuditedRule) -> tuple[str, ...]:
    value = rule.value if isinstance(rule.value, str) else shown.spec(rule.value)
    counts = f"{rule.leaves:,}", f"{rule.bytes:,}"
    if rule.shadowed_by:
        takers = shown.listing([str(number) for number in rule.shadowed_by], MOST_PLACES)
        counts = "0", f"shadowed by {takers}"
    elif not rule.leaves:
        counts = "0", "optional" if rule.optional else "unused"
    return str(rule.number), rule.pattern, value, *counts
