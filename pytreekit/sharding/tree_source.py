"""What a spec tree, or flax's metadata, say of each leaf of a tree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from ..specs.bind import Binding, Bound
from ..specs.rule_values import UNMATCHED, OfLeaf
from ..specs.ruled import is_rules
from ..trees import paths
from ..trees.boxes import Ends
from ..trees.paths import KeyPath
from ..trees.sorts import check_sorts
from .sources import NAME, NOTHING, Saying, Source, value_key

MANY = 2
"""Leaves from which it is worth to look whether a spec tree has the structure of the tree."""


def from_specs(tree: Any, specs: Any, doing: str, spec_name: str) -> Source:
    """What a spec tree says, a prefix of the tree.

    Raises:
        SpecError: PTK104, if JAX cannot flatten one of them.
    """
    raise_faults(check_sorts(tree, NAME), doing=doing)
    found = Source(Ends(tree, paths_first=False), [], [], lambda skip: [])
    values = alongside(found.treedef, specs)
    if values is None:
        _bind(found, Binding(specs, tree, NAME, spec_name), doing)
        return found
    known: dict[Any, int] = {}
    for value in values:
        number = known.setdefault(value_key(value), len(found.sayings))
        if number == len(found.sayings):
            found.sayings.append(Saying(value, "an entry", _beside(found, value, spec_name)))
        found.numbers.append(number)

    def rewritten(values: Mapping[int, Any]) -> Any:
        said = [values.get(number, found.sayings[number].value) for number in found.numbers]
        return found.treedef.unflatten(said)

    found.rewritten = rewritten
    return found


def alongside(treedef: Any, specs: Any) -> list[Any] | None:
    """The leaves of a spec tree that has the very structure of the tree."""
    try:
        values, structure = jax.tree.flatten(specs)
        if len(values) < MANY or not paths.same(structure, treedef):
            return None
        treedef.flatten_up_to(specs)  # two dataclasses of the same fields have equal structures
    except ValueError:  # that, or keys that do not sort, as `...` does not
        return None
    return None if any(map(is_rules, values)) else values


def _beside(source: Source, value: Any, spec_name: str) -> Callable[[int], tuple[str, str]]:
    return lambda index: (spec_name + source.path(index), shown.spec(value))


def _bind(source: Source, bound: Binding, doing: str) -> None:
    """Put what the entries of a prefix say in a source."""
    raise_faults([fault for fault in bound.faults if fault.code == "PTK104"], doing=doing)
    count, path = len(source.leaves), source.path
    partly = bool(bound.findings)
    at = {path(index): index for index in range(count)} if partly else {}
    source.numbers = [NOTHING] * count if partly else []
    for where, value, subtree in bound.entries:
        said = value(subtree) if isinstance(value, OfLeaf) else value
        number = NOTHING if said is UNMATCHED else len(source.sayings)
        if number != NOTHING:
            source.sayings.append(Saying(said, "an entry", _at_entry(bound, where, said)))
        if not partly:
            source.numbers += [number] * paths.count_leaves(subtree)
            continue
        for below, _ in paths.leaves_with_paths(subtree):
            source.numbers[at[paths.text(where + below)]] = number

    def faults(skip: Collection[int]) -> list[Fault]:
        needless = {NAME + path(index) for index in skip} if partly else set()
        return [
            _as_spec(fault)
            for fault in bound.faults
            if not (fault.code == "PTK305" and fault.place in needless)
        ]

    source.faults = faults


def _as_spec(fault: Fault) -> Fault:
    """A mismatch, with a word to who wrote a spec as a tuple, or rules as a dict: as trees."""
    if fault.code == "PTK201" and set(fault.spec_path) & set("/*{"):
        note = "if the keys are patterns, write ptk.Rules({...})"
        return dataclasses.replace(fault, note=note)
    if fault.code == "PTK202" and fault.wanted.startswith(("(", "[")):
        note = f"if this is a spec, write P({fault.wanted[1:-1].rstrip(',')})"
        return dataclasses.replace(fault, note=note)
    return fault


def _at_entry(bound: Binding, path: KeyPath, value: Any) -> Callable[[int], tuple[str, str]]:
    def told(_: int) -> tuple[str, str]:
        fault = bound.fault("", Bound(path, path, None, value), "", "")
        return fault.spec_path, shown.spec(value)

    return told


def from_metadata(tree: Any, metadata: Sequence[PartitionSpec | None]) -> Source:
    """What metadata say; of leaves that have none, that they are whole."""
    whole = Saying(PartitionSpec(), "nobody", lambda _: ("metadata", "none"), "no metadata")
    ends = Ends(tree, paths_first=False)
    found = Source(ends, [whole], [NOTHING] * len(ends.leaves), lambda skip: [])
    found = with_metadata(found, metadata)
    found.numbers = [max(number, 0) for number in found.numbers]
    return found


def with_metadata(source: Source, metadata: Sequence[PartitionSpec | None]) -> Source:
    """The source, where leaves that nothing is said of have what their metadata say."""
    known: dict[PartitionSpec, int] = {}
    for index, spec in enumerate(metadata):
        if spec is None or source.numbers[index] != NOTHING:
            continue
        if spec not in known:
            known[spec] = len(source.sayings)
            source.sayings.append(Saying(spec, "metadata", _in_metadata(spec)))
        source.numbers[index] = known[spec]
    return source


def _in_metadata(spec: PartitionSpec) -> Callable[[int], tuple[str, str]]:
    return lambda _: ("metadata", shown.spec(spec))
