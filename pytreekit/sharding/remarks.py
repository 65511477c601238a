"""What there is to say of one leaf and its spec: what is wrong, and what is worth to know."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from ..show import values
from .logical import Logical
from .meshes import Axes


class Problem(NamedTuple):
    """What is wrong with a spec for a shape: a fault without its place.

    Attributes:
        code: Its code.
        fact: What is wrong, in one line.
        note: What else there is to know.
        instead: A name that is wrong, and the one that might be meant.
        dim: The dimension that does not divide.
    """

    code: str
    fact: str
    note: str = ""
    instead: tuple[str, str] | None = None
    dim: int | None = None


class Remark(NamedTuple):
    """What is right, and might still not be meant: its kind in a word, and a sentence."""

    kind: str
    text: str


def dimensions(count: int) -> str:
    """A number of dimensions in words."""
    return values.count(count, "dimension")


def too_long(entries: int, rank: int, *, stacked: bool) -> Problem:
    """More entries than dimensions."""
    more = " besides its stack" * stacked
    fact = f"has {dimensions(rank)}{more}, its spec has {values.count(entries, 'entry', 'entries')}"
    return Problem("PTK302", fact)


def no_axis(name: str, mesh: Axes) -> Problem:
    """A name that is no mesh axis, where there are no others."""
    fact, note = f"there is no mesh axis {name!r}", f"the mesh has {mesh.told}"
    return _unknown("PTK301", name, list(mesh.sizes), fact, note)


def no_name(name: str, logical: Logical, mesh: Axes) -> Problem:
    """A name that is neither a logical name nor a mesh axis."""
    fact = f"there is no logical name or mesh axis {name!r}"
    known = values.listing([repr(its) for its in logical.by_name]) or "none"
    note = f"axes has {known}; the mesh has {mesh.told}"
    return _unknown("PTK307", name, [*logical.by_name, *mesh.sizes], fact, note)


def twice(axis: str, dim: int, other: int) -> Problem:
    """A mesh axis that a spec has twice."""
    if dim == other:
        return Problem("PTK304", f"mesh axis {axis!r} splits dimension {dim} twice")
    return Problem("PTK304", f"mesh axis {axis!r} splits dimension {other} and dimension {dim}")


def starved(name: str, dim: int, thieves: Iterable[str]) -> Problem:
    """A logical name whose mesh axes are all taken."""
    fact = f"logical name {name!r} of dimension {dim} gets no mesh axis"
    note = f"{values.listing(list(thieves))}; ({name!r}, None) in axes would leave it whole"
    return Problem("PTK307", fact, note)


def indivisible(dim: int, size: int, axes: Iterable[str], mesh: Axes) -> Problem:
    """A dimension that does not divide by the axes that split it."""
    axes = list(axes)
    parts = mesh.parts(axes)
    below, above = size // parts * parts, (size // parts + 1) * parts
    sizes = f"{below} or {above}" if below else f"{above}"
    fact = f"dimension {dim} of {size} does not divide by {parts}"
    note = f"{mesh.with_sizes(axes)}; {sizes} would divide, {above - size} of padding makes {above}"
    return Problem("PTK303", fact, note, dim=dim)


def left_out(dim: int, size: int, axes: Iterable[str], mesh: Axes) -> Remark:
    """Axes that are left out where a dimension does not divide."""
    told = mesh.with_sizes(axes)
    return Remark("dropped", f"dimension {dim} of {size} does not divide: {told} left out")


def lacking(names: Iterable[str]) -> Remark:
    """Axes that are left out since the mesh lacks them."""
    return Remark("dropped", f"the mesh has no {values.listing([repr(name) for name in names])}")


def fallback(dim: int, got: Iterable[str], why: str) -> Remark:
    """A choice that is not the first."""
    return Remark("fallback", f"dimension {dim} gets {'+'.join(got) or 'no axis'}: {why}")


def few_entries(entries: int, rank: int) -> Remark:
    """Fewer entries than dimensions, and nothing that says which dimensions are meant."""
    last = values.count(entries, "dimension")
    text = f"has {dimensions(rank)}, its spec speaks of the first {last}"
    return Remark("under-rank", text.replace("the first 1 dimension", "the first"))


def large(elements: int, devices: int) -> Remark:
    """A large array that every device has whole."""
    return Remark(
        "replicated-large", f"{elements:,} elements are whole on each of {devices} devices"
    )


def _unknown(code: str, name: str, known: list[str], fact: str, note: str) -> Problem:
    close = difflib.get_close_matches(name, known, n=1)
    if not close:
        return Problem(code, fact, note)
    return Problem(code, fact, f"did you mean {close[0]!r}? {note}", instead=(name, close[0]))
