"""What a rule or a spec tree may say of a leaf, read: text, a PartitionSpec, a tuple, None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from ..show import values
from . import spec_text
from .entries import WHOLE, BadSpec, Entry, Name, Template

MOST_ENTRIES = 1000
"""Entries of a spec: no array has as many dimensions."""


def template(value: Any) -> Template:
    """The template that a value stands for.

    Args:
        value: Spec text, a `PartitionSpec` (which may hold `...`), a tuple or list of entries, or
            None for replicated.

    Raises:
        BadSpec: If it is nothing of that.
    """
    if value is None:
        return Template(())
    if isinstance(value, str):
        return spec_text.from_text(value)
    if isinstance(value, PartitionSpec):
        return _from_spec(value)
    if isinstance(value, tuple | list):
        return _from_entries(value)
    wanted = "text, a PartitionSpec, a tuple of entries or None"
    note = "its .spec is one" if isinstance(value, NamedSharding) else ""
    raise BadSpec(f"a spec is {wanted}, this is {values.kind(value)}", note)


def literal(spec: PartitionSpec) -> Template:
    """The template of a PartitionSpec that JAX is to take as it stands.

    Raises:
        BadSpec: If JAX would not.
    """
    found = _from_spec(spec)
    if found.rest is not None:
        note = "ptk.partition_specs makes PartitionSpecs of templates"
        raise BadSpec("a spec holds `...`, which JAX does not know", note)
    return found


def _from_spec(spec: PartitionSpec) -> Template:
    if spec.unreduced or spec.reduced:
        raise BadSpec("a spec has unreduced or reduced axes", "these are for values in a function")
    return _put_together(spec.partitions, _literal_entry)


def _from_entries(value: Sequence[Any]) -> Template:
    is_text = (isinstance(part, str) and part == spec_text.REST for part in value)
    entries = [... if rest else part for part, rest in zip(value, is_text, strict=True)]
    return _put_together(entries, _written_entry)


def _put_together(parts: Sequence[Any], read: Any) -> Template:
    if len(parts) > MOST_ENTRIES:
        raise BadSpec(f"a spec has {len(parts):,} entries, {MOST_ENTRIES:,} are the most")
    entries = tuple(read(part) for part in parts if part is not ...)
    return Template(entries, spec_text.the_rest([part is ... for part in parts]))


def _literal_entry(part: Any) -> Entry:
    """An entry of a PartitionSpec: its strings are names, whatever is in them."""
    if part is None:
        return WHOLE
    if part is PartitionSpec.UNCONSTRAINED:
        note = "the layout of an array must be said; None leaves a dimension whole"
        raise BadSpec("an entry is UNCONSTRAINED", note)
    names = part if isinstance(part, tuple | list) else (part,)
    for name in names:
        if not isinstance(name, str):
            raise _no_entry(name)
    return (tuple(Name(name) for name in names),)


def _written_entry(part: Any) -> Entry:
    """An entry of a tuple or list, whose strings are tokens."""
    if part is None:
        return WHOLE
    if isinstance(part, str):
        if not part.strip() or part.split() != [part]:
            raise BadSpec(f"the entry {part!r} cannot be read", "it is one token")
        return spec_text.entry(part)
    if not isinstance(part, tuple | list):
        raise _no_entry(part)
    names: list[Name] = []
    for inner in part:
        choices = _written_entry(inner) if isinstance(inner, str) else ()
        choice = choices[0] if len(choices) == 1 else ()
        if not choice:
            raise _no_entry(inner)
        names.extend(choice)
    return (tuple(names),)


def _no_entry(part: Any) -> BadSpec:
    told = values.spec(part, 24)
    note = "an entry is a mesh axis, a tuple of them, None or `...`"
    return BadSpec(f"an entry cannot be {told}", note)
