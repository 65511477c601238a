"""Why a leaf has its spec, in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from ...faults import Fault
from ...show import values as shown
from ...show.errors import raise_faults
from ...show.lines import fitted
from ...show.sizes import in_bytes
from ...specs.rules import Rules
from ..resolve import axes_by_dimension, names_of
from ..states.shape_reading import ITS
from .planned import Planned, ShardedLeaf

MOST_KINDS = 10
"""Leaves that are explained at once; alike ones are told as one."""


def explain(its: Planned, path: str) -> str:
    """Which rule took a leaf, what each of its dimensions gets, and what was noted.

    Raises:
        SpecError: PTK001, if there is no such leaf.
    """
    found = _found(its, path)
    alike: dict[tuple[str, ...], list[ShardedLeaf]] = {}
    for leaf in found:
        notes = [f"{note.kind}: {note.note}" for note in its.notes if note.path == leaf.path]
        said = "" if ITS in leaf.why else leaf.said
        key = leaf.found, str(leaf.spec), leaf.why, said, *notes
        alike.setdefault(key, []).append(leaf)
    told = [_told(its, leaves, key[4:]) for key, leaves in list(alike.items())[:MOST_KINDS]]
    left = len(alike) - MOST_KINDS
    more = [[f"... and {left} more"]] if left > 0 else []
    return "\n\n".join(fitted(lines) for lines in [*told, *more])


def _found(its: Planned, path: str) -> Sequence[ShardedLeaf]:
    if not isinstance(path, str):
        fact = f"a path must be a str, this is {shown.kind(path)}"
        raise_faults([Fault("PTK001", "path", "", "", "", "", fact=fact)], doing="plan.explain")
    exactly = [leaf for leaf in its.leaves if path in {leaf.path, leaf.text}]
    if exactly:
        return exactly
    texts = [leaf.text for leaf in its.leaves]
    takes = Rules([(path, True)], default=False).assign(its.tree(its.parts)).values
    found = [leaf for leaf, taken in zip(its.leaves, takes, strict=True) if taken]
    if not found:
        close = difflib.get_close_matches(path, texts, n=1, cutoff=0.3)
        note = f"did you mean {close[0]!r}?" if close else ""
        fact = f"no leaf of the plan is {path!r}"
        fault = Fault("PTK001", "path", "", "", "", "", fact=fact, note=note)
        raise_faults([fault], doing="plan.explain")
    return found


def _told(its: Planned, leaves: Sequence[ShardedLeaf], notes: Sequence[str]) -> list[str]:
    leaf = leaves[0]
    lines = [f"{leaf.text or '(root)'}   {leaf.found}   {leaf.spec}"]
    if len(leaves) > 1:
        lines.append(f"    also {shown.listing([one.text for one in leaves[1:]], 3)}")
    lines.append(f"    by {_reason(leaf)}")
    if leaf.shape is None:
        return [*lines, "    no array: it passes by"]
    lines += [f"    {line}" for line in _dimensions(its, leaf)]
    lines += [f"    {note}" for note in notes]
    idle = [name for name in its.axes.sizes if name not in names_of(leaf.spec)]
    along = f", the same along {its.axes.with_sizes(idle)}" if idle else ""
    size = f"{in_bytes(leaf.bytes)} in all, {in_bytes(leaf.device_bytes)} on each device"
    return [*lines, f"    {size}{along}"]


def _reason(leaf: ShardedLeaf) -> str:
    if ITS in leaf.why and leaf.said:
        return leaf.why.replace(ITS, f"{ITS} {leaf.said}")
    return f"{leaf.why} = {leaf.said}" if leaf.said else leaf.why


def _dimensions(its: Planned, leaf: ShardedLeaf) -> Iterator[str]:
    axes = axes_by_dimension(leaf.spec)
    for dim, size in enumerate(leaf.shape or ()):
        names = axes[dim] if dim < len(axes) else ()
        if names:
            here = size // its.axes.parts(names)
            yield f"dimension {dim} of {size}: over {its.axes.with_sizes(names)}, {here} each"
        else:
            yield f"dimension {dim} of {size}: whole"
