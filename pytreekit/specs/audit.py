"""`rules.audit`: what each rule took in trees, which took nothing and why, as data."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..faults import Fault
from ..show import table
from ..show import values as shown
from ..show.errors import raise_faults
from ..trees import paths
from ..trees.leaves import size_in_bytes
from .assignment import Assignment
from .matcher import NO_RULE, Matcher
from .reading import bad_rule, place
from .rule_values import UNMATCHED

if TYPE_CHECKING:
    from .rules import Rules

MOST_ROWS = 200
"""Rules that are shown; `rules` has them all."""

MOST_VALUE = 24
"""Characters of a value that are shown."""


class AuditedRule(NamedTuple):
    """A rule, and what it took.

    Attributes:
        number: Its index.
        pattern: Its pattern as text.
        value: Its value.
        optional: Whether it may match nothing.
        leaves: How many leaves it took.
        bytes: The bytes of the arrays among them.
        first: The text of the first of them, `""` where it took none.
        shadowed_by: The indices of the rules that took all leaves that it matches, if it took none.
    """

    number: int
    pattern: str
    value: Any
    optional: bool
    leaves: int
    bytes: int
    first: str
    shadowed_by: tuple[int, ...]


class AuditedLeaf(NamedTuple):
    """A leaf that no rule took.

    Attributes:
        tree: The name of the tree that it is in.
        path: Where, as `jax.tree_util.keystr` prints it.
        text: Its path as text.
        found: Its dtype and shape, or its type.
        bytes: Its bytes, if it is an array.
    """

    tree: str
    path: str
    text: str
    found: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Audit:
    """What `rules.audit` returns: `print` and notebooks show it as a table.

    Attributes:
        rules: An `AuditedRule` for each rule.
        defaulted: An `AuditedLeaf` for each leaf that got the default.
        unmatched: An `AuditedLeaf` for each leaf that no rule matches, where there is no default.

    Examples:
        >>> import pytreekit as ptk
        >>> params = {"mlp": {"up": {"kernel": 1.0}}, "norm": {"scale": 2.0}}
        >>> audit = ptk.Rules([("kernel", "k"), ("mlp/**", "m"), ("bias", "b")]).audit(params)
        >>> audit.unused, audit.shadowed, [leaf.text for leaf in audit.unmatched]
        ((2,), (1,), ['norm/scale'])
    """

    rules: tuple[AuditedRule, ...]
    defaulted: tuple[AuditedLeaf, ...]
    unmatched: tuple[AuditedLeaf, ...]

    @property
    def unused(self) -> tuple[int, ...]:
        """The indices of the rules that match nothing, but for those that may."""
        return tuple(rule.number for rule in self.rules if _is_unused(rule))

    @property
    def shadowed(self) -> tuple[int, ...]:
        """The indices of the rules whose leaves were all taken by earlier rules."""
        return tuple(rule.number for rule in self.rules if rule.shadowed_by)

    def raise_if(
        self,
        *,
        unused: bool = False,
        shadowed: bool = False,
        unmatched: bool = False,
        defaulted: bool = False,
    ) -> None:
        """Raise one error that tells all that is asked for, if there is any.

        Args:
            unused: Rules that match nothing in any tree, but for those that may.
            shadowed: Rules whose leaves were all taken by earlier rules.
            unmatched: Leaves that no rule matches, where there is no default.
            defaulted: Leaves that got the default.

        Raises:
            SpecError: PTK306 for each such rule, PTK305 for each such leaf.

        Examples:
            >>> import pytreekit as ptk
            >>> rules = ptk.Rules([("kernel", True)], default=False)
            >>> rules.audit({"kernel": 1.0, "bias": 2.0}).raise_if(unused=True, shadowed=True)
        """
        faults = [
            *(_unused(rule) for rule in self.rules if unused and _is_unused(rule)),
            *(_shadowed(rule) for rule in self.rules if shadowed and rule.shadowed_by),
            *(_untaken(leaf, "no rule matches") for leaf in self.unmatched if unmatched),
            *(_untaken(leaf, "has the default") for leaf in self.defaulted if defaulted),
        ]
        raise_faults(faults, doing="rules.audit")

    def __str__(self) -> str:
        return table.plain(self._headed(), self._cells())

    def __rich__(self) -> Any:
        return table.rich(self._headed(), self._cells())

    def _repr_html_(self) -> str:
        return table.html(self._headed(), self._cells())

    def _headed(self) -> table.Head:
        columns = ("rule", "pattern", "value", "leaves", "bytes", "first")
        return table.Head(headline(self), columns, ("rule", "leaves", "bytes"))

    def _cells(self) -> list[tuple[str, ...]]:
        rows = [_cells(rule) for rule in self.rules[:MOST_ROWS]]
        if len(self.rules) > MOST_ROWS:
            rows.append(("", f"... and {len(self.rules) - MOST_ROWS:,} more", "", "", "", ""))
        for what, leaves in (("default", self.defaulted), ("no rule", self.unmatched)):
            if leaves:
                counts = f"{len(leaves):,}", f"{sum(leaf.bytes for leaf in leaves):,}"
                rows.append(("", f"({what})", "", *counts, leaves[0].text))
        return rows


def headline(audit: Audit) -> str:
    """How many rules there are, and how many of them took nothing: `9 rules, 1 unused`."""
    told = [shown.count(len(audit.rules), "rule")]
    told += [f"{len(audit.unused)} unused"] * bool(audit.unused)
    told += [f"{len(audit.shadowed)} shadowed"] * bool(audit.shadowed)
    return ", ".join(told)


def audit(rules: Rules, trees: Sequence[Any]) -> Audit:
    """What each rule took in trees."""
    names = ["tree"] if len(trees) == 1 else [f"trees[{number}]" for number in range(len(trees))]
    found = {name: rules.assign(tree) for name, tree in zip(names, trees, strict=True)}
    counts: collections.Counter[int] = collections.Counter()
    taken: collections.Counter[int] = collections.Counter()
    first: dict[int, str] = {}
    for assignment in found.values():
        counts.update(assignment.numbers)
        for index, number in enumerate(assignment.numbers):
            taken[number] += size_in_bytes(assignment.leaves[index])
            if number not in first:
                first[number] = assignment.text(index)
    idle = [number for number in range(len(rules.entries)) if number not in first]
    shadows = _shadows(rules, idle, list(found.values()))
    rows = [
        AuditedRule(
            number,
            rule.pattern.text,
            rule.value,
            rule.optional,
            counts[number],
            taken[number],
            first.get(number, ""),
            tuple(sorted(shadows.get(number, ()))),
        )
        for number, rule in enumerate(rules.entries)
    ]
    untaken = tuple(leaf for name, its in found.items() for leaf in _untaken_leaves(name, its))
    if rules.default is UNMATCHED:
        return Audit(tuple(rows), (), untaken)
    return Audit(tuple(rows), untaken, ())


def _shadows(
    rules: Rules, idle: list[int], assignments: Sequence[Assignment]
) -> dict[int, set[int]]:
    """For each rule that matches something and took nothing, the rules that took it."""
    takers: dict[int, set[int]] = {}
    for number in _matching(rules, idle, assignments):
        alone = Matcher([rules.patterns[number]], rules.split)
        takers[number] = {
            taker
            for assignment in assignments
            for its, taker in zip(
                alone.first(assignment.ends.texts), assignment.numbers, strict=True
            )
            if its != NO_RULE
        }
    return takers


def _matching(rules: Rules, idle: list[int], assignments: Sequence[Assignment]) -> Iterator[int]:
    """Those of some rules that match anything: each round finds those that come first somewhere."""
    while idle:
        alone = Matcher([rules.patterns[number] for number in idle], rules.split)
        seen = {its for one in assignments for its in alone.first(one.ends.texts)} - {NO_RULE}
        yield from (idle[its] for its in sorted(seen))
        idle = [number for its, number in enumerate(idle) if its not in seen] if seen else []


def _untaken_leaves(name: str, assignment: Assignment) -> Iterator[AuditedLeaf]:
    for index, number in enumerate(assignment.numbers):
        if number == NO_RULE:
            leaf, path = assignment.leaves[index], paths.text(assignment.path(index))
            found = shown.leaf(leaf), size_in_bytes(leaf)
            yield AuditedLeaf(name, path, assignment.text(index), *found)


def _is_unused(rule: AuditedRule) -> bool:
    return not (rule.leaves or rule.shadowed_by or rule.optional)


def _unused(rule: AuditedRule) -> Fault:
    return bad_rule(place(rule.number), shown.spec(rule.pattern), "a rule matches nothing")


def _shadowed(rule: AuditedRule) -> Fault:
    takers = shown.listing([place(number) for number in rule.shadowed_by])
    fact = "a rule takes nothing: earlier ones took all that it matches"
    return bad_rule(place(rule.number), shown.spec(rule.pattern), fact, f"by {takers}")


def _untaken(leaf: AuditedLeaf, fact: str) -> Fault:
    return Fault("PTK305", leaf.tree, leaf.path, "rules", leaf.found, "", fact=fact)


def _cells(rule: AuditedRule) -> tuple[str, ...]:
    first = rule.first
    if rule.shadowed_by:
        first = f"(shadowed by {shown.listing([str(number) for number in rule.shadowed_by], 3)})"
    elif not rule.leaves:
        first = "(none, optional)" if rule.optional else "(unused)"
    counts = f"{rule.leaves:,}", f"{rule.bytes:,}"
    return (str(rule.number), rule.pattern, shown.spec(rule.value, MOST_VALUE), *counts, first)
