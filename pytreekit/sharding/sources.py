"""What is asked for each leaf of a tree, and where: in rules, a spec tree or metadata."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from ..specs.assignment import Assignment
from ..specs.bind import Binding, Bound
from ..specs.matcher import NO_RULE
from ..specs.reading import place as at_rule
from ..specs.rule_values import UNMATCHED, OfLeaf, OptionalRule, is_function
from ..specs.rules import Rules
from ..trees import paths
from ..trees.paths import KeyPath

NOTHING = -1
"""The number of a leaf that nothing is said of."""

NAME = "tree"
"""What messages call the tree."""


class Saying(NamedTuple):
    """Something that is said of leaves.

    Attributes:
        value: What is said, unread.
        by: Who says so: "a rule", "the default", "an entry", "metadata", "nobody".
        told: Where that stands, and what stands there.
        short: The same in short; the default is where it stands.
    """

    value: Any
    by: str
    told: Callable[[], tuple[str, str]]
    short: str = ""

    @property
    def why(self) -> str:
        """Where it stands, for tables."""
        return self.short or self.told()[0]


@dataclasses.dataclass
class Source:
    """What is said of each leaf of a tree, in flattening order.

    Attributes:
        leaves: The leaves.
        treedef: The structure of the tree.
        sayings: All that is said.
        numbers: For each leaf, the index of what is said of it, or `NOTHING`.
        path: The key path of a leaf.
        faults: Given the leaves that need nothing said of them, what is wrong with the others.
    """

    leaves: Sequence[Any]
    treedef: Any
    sayings: list[Saying]
    numbers: list[int]
    path: Callable[[int], KeyPath]
    faults: Callable[[Collection[int]], list[Fault]]


def source_of(
    tree: Any, rules: Any, metadata: Sequence[Any] | None, doing: str, spec_name: str
) -> Source:
    """What rules, a spec tree or metadata say.

    Args:
        tree: The tree.
        rules: Rules or pairs of them, a spec tree, or None for metadata alone.
        metadata: The spec in the metadata of each leaf, None where there are none.
        doing: What is being done.
        spec_name: What messages call the rules.

    Raises:
        SpecError: PTK001, if there are neither; what `ptk.Rules` raises.
    """
    if rules is None:
        if metadata is None:
            fact = f"{spec_name} are missing, and no leaf has metadata of flax"
            note = "as [('kernel', '... model'), ...], or a tree of PartitionSpecs"
            fault = Fault("PTK001", "", "", spec_name, "", "", fact=fact, note=note)
            raise_faults([fault], doing=doing)
        return _of_metadata(tree, metadata or [])
    if isinstance(rules, str | bytes):
        fact = f"{spec_name} must be a list of pairs or a spec tree, this is {shown.kind(rules)}"
        note = f"[('**', {shown.spec(rules, 24)})] is a rule for all leaves"
        fault = Fault("PTK001", "", "", spec_name, "", shown.spec(rules), fact=fact, note=note)
        raise_faults([fault], doing=doing)
    if isinstance(rules, Rules) or are_pairs(rules):
        found = _of_rules(tree, rules if isinstance(rules, Rules) else Rules(rules), spec_name)
    else:
        found = _of_specs(tree, rules, doing, spec_name)
    return found if metadata is None else _with_metadata(found, metadata)


def are_pairs(rules: Any) -> bool:
    """Whether this is a list of rules. A spec tree has no pairs of text and something in it."""
    return isinstance(rules, list | tuple) and all(
        isinstance(row, OptionalRule)
        or (
            isinstance(row, tuple | list)
            and len(row) == len(("pattern", "value"))
            and isinstance(row[0], str | re.Pattern)
        )
        for row in rules
    )


def _of_rules(tree: Any, rules: Rules, spec_name: str) -> Source:
    found = rules.assign(tree)
    sayings = [_of_rule(found, *rule, spec_name) for rule in enumerate(rules.values)]
    numbers = list(found.numbers)
    if rules.has_default:
        sayings.append(_of_rule(found, NO_RULE, rules.default, spec_name))
        last = len(sayings) - 1
        numbers = [last if number == NO_RULE else number for number in numbers]
    if rules.has_functions:
        _call_functions(found, sayings, numbers, spec_name)

    def faults(skip: Collection[int]) -> list[Fault]:
        said = [index for index, number in enumerate(numbers) if number != NOTHING]
        return found.faults(NAME, spec_name, {*skip, *said})

    return Source(found.leaves, found.treedef, sayings, numbers, found.path, faults)


def _call_functions(
    found: Assignment, sayings: list[Saying], numbers: list[int], spec_name: str
) -> None:
    """Put what functions say of leaves in the place of the functions."""
    known: dict[Any, int] = {}
    for index, number in enumerate(numbers):
        if number == NOTHING or not is_function(sayings[number].value):
            continue
        value = found.values[index]
        if value is UNMATCHED:
            numbers[index] = NOTHING
            continue
        key = (number, value_key(value))
        if key not in known:
            known[key] = len(sayings)
            sayings.append(_of_rule(found, found.numbers[index], value, spec_name))
        numbers[index] = known[key]


def _of_rule(found: Assignment, number: int, value: Any, spec_name: str) -> Saying:
    its = found.rules

    def told() -> tuple[str, str]:
        if number == NO_RULE:
            return f"{spec_name}.default", shown.spec(value)
        written = its.values[number]
        gave = f" gave {shown.spec(value, 30)}" if written is not value else ""
        pattern = its.patterns[number].text
        return at_rule(number, spec_name), f"({pattern!r}, {shown.spec(written, 44)}){gave}"

    if number == NO_RULE:
        return Saying(value, "the default", told)
    return Saying(
        value, "a rule", told, f"{at_rule(number, spec_name)} {its.patterns[number].text}"
    )


def _of_specs(tree: Any, specs: Any, doing: str, spec_name: str) -> Source:
    bound = Binding(specs, tree, NAME, spec_name)
    raise_faults([fault for fault in bound.faults if fault.code == "PTK104"], doing=doing)
    rows, treedef = jax.tree_util.tree_flatten_with_path(tree)
    partly = bool(bound.findings)
    at = {paths.text(path): index for index, (path, _) in enumerate(rows)} if partly else {}
    sayings: list[Saying] = []
    numbers = [NOTHING] * len(rows) if partly else []
    for path, value, subtree in bound.entries:
        said = value(subtree) if isinstance(value, OfLeaf) else value
        if said is UNMATCHED:
            continue
        sayings.append(Saying(said, "an entry", _at_entry(bound, path, said)))
        number = len(sayings) - 1
        if not partly:
            numbers += [number] * paths.count_leaves(subtree)
            continue
        for below, _ in paths.leaves_with_paths(subtree):
            numbers[at[paths.text(path + below)]] = number

    def faults(skip: Collection[int]) -> list[Fault]:
        needless = {NAME + paths.text(rows[index][0]) for index in skip} if partly else set()
        return [
            _as_spec(fault)
            for fault in bound.faults
            if not (fault.code == "PTK305" and fault.place in needless)
        ]

    leaves = [leaf for _, leaf in rows]
    return Source(leaves, treedef, sayings, numbers, lambda index: rows[index][0], faults)


def _as_spec(fault: Fault) -> Fault:
    """A mismatch, with a word to who wrote a spec as a tuple: to JAX that is a tree."""
    if fault.code == "PTK202" and fault.wanted.startswith(("(", "[")):
        note = f"if this is a spec, write P({fault.wanted[1:-1].rstrip(',')})"
        return dataclasses.replace(fault, note=note)
    return fault


def _at_entry(bound: Binding, path: KeyPath, value: Any) -> Callable[[], tuple[str, str]]:
    def told() -> tuple[str, str]:
        fault = bound.fault("", Bound(path, path, None, value), "", "")
        return fault.spec_path, shown.spec(value)

    return told


def _of_metadata(tree: Any, metadata: Sequence[PartitionSpec | None]) -> Source:
    rows, treedef = jax.tree_util.tree_flatten_with_path(tree)
    whole = Saying(PartitionSpec(), "nobody", lambda: ("metadata", "none"), "no metadata")
    found = Source(
        [leaf for _, leaf in rows],
        treedef,
        [whole],
        [NOTHING] * len(rows),
        lambda index: rows[index][0],
        lambda skip: [],
    )
    found = _with_metadata(found, metadata)
    found.numbers = [max(number, 0) for number in found.numbers]
    return found


def _with_metadata(source: Source, metadata: Sequence[PartitionSpec | None]) -> Source:
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


def _in_metadata(spec: PartitionSpec) -> Callable[[], tuple[str, str]]:
    return lambda: ("metadata", shown.spec(spec))


def value_key(value: Any) -> Any:
    """What is equal for values that say the same: themselves, or the object where it cannot be."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
