"""What each leaf gets and why, and what is worth to know of it: a plan of specs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from ..show import table
from ..show import values as shown
from .spec_text import to_text

MOST_ROWS = 200
"""Rows that are shown; the plan has them all."""


class PlannedSpec(NamedTuple):
    """A leaf and its spec.

    Attributes:
        path: Its path, as `jax.tree_util.keystr` prints it.
        text: The same with `/` between its keys.
        found: Its dtype and shape, `"f32[32,8]"`, or its type.
        spec: Its `PartitionSpec`, without None at its end.
        why: What says so: the rule or entry, or the reason.
        said: What stands there, or which parameter is meant; `""` where neither is.
    """

    path: str
    text: str
    found: str
    spec: PartitionSpec
    why: str
    said: str = ""


class SpecNote(NamedTuple):
    """Something that is right, and might still not be meant.

    Attributes:
        kind: What it is: `"dropped"`, mesh axes that were left out; `"fallback"`, a choice that is
            not the first; `"under-rank"`, fewer entries than dimensions and no `...`;
            `"defaulted"`, a leaf that no rule matches; `"replicated-large"`, a large array that is
            whole on every device; `"metadata"`, metadata of flax that say something else;
            `"idle-axis"`, a mesh axis that splits nothing; of a state, `"small"`, an array of no
            parameter that is whole for its size, and `"by-name"`, one read by its field's name.
        path: The leaf, `""` where it is of none.
        text: The same with `/` between its keys.
        note: The note in one sentence.
    """

    kind: str
    path: str
    text: str
    note: str


@dataclasses.dataclass(frozen=True)
class SpecPlan:
    """The spec of each leaf of a tree, why it has that one, and notes. `print(plan)` shows a table.

    Attributes:
        specs: The tree of specs.
        leaves: A `PlannedSpec` for each leaf, in flattening order.
        notes: A `SpecNote` for all that is right, and might still not be meant.
        mesh: The size of each axis of the mesh.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> params = {"embed": jnp.ones((50258, 8)), "norm": jnp.ones(8)}
        >>> rules = [("embed", "model|data _"), ("norm", "replicate")]
        >>> plan = ptk.partition_plan(params, rules, mesh={"data": 2, "model": 4})
        >>> plan.leaves[0].spec, plan.notes[0].kind
        (P('data',), 'fallback')
    """

    specs: Any
    leaves: tuple[PlannedSpec, ...]
    notes: tuple[SpecNote, ...]
    mesh: dict[str, int]

    def table(self) -> str:
        """The plan as plain tables, 88 columns wide at most; what is alike is in one row."""
        return table.plain_all(self._tables())

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> Any:
        return table.rich_all(self._tables())

    def _repr_html_(self) -> str:
        return table.html_all(self._tables())

    def _tables(self) -> Iterator[table.Table]:
        mesh = shown.listing([f"{name}={size}" for name, size in self.mesh.items()])
        title = f"{shown.count(len(self.leaves), 'leaf', 'leaves')} over {mesh}"
        columns = ("leaf", "n", "found", "spec", "why")
        rows = [(leaf.text, leaf.found, to_text(leaf.spec), leaf.why) for leaf in self.leaves]
        yield table.Head(title, columns, ("n",)), grouped(rows)
        if self.notes:
            notes = [(note.text, note.kind, note.note) for note in self.notes]
            title = shown.count(len(self.notes), "note")
            yield table.Head(title, ("leaf", "n", "note", ""), ("n",)), grouped(notes)


def grouped(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows that differ in their first cell alone as one: the first, and how many there are."""
    first: dict[tuple[str, ...], str] = {}
    counts: dict[tuple[str, ...], int] = {}
    for path, *rest in rows:
        alike = tuple(rest)
        first.setdefault(alike, path)
        counts[alike] = counts.get(alike, 0) + 1
    told = [(first[alike], str(count), *alike) for alike, count in counts.items()]
    left = len(told) - MOST_ROWS
    more = [(f"... and {left} more", *[""] * (len(told[0]) - 1))] if left > 0 else []
    return told[:MOST_ROWS] + more
