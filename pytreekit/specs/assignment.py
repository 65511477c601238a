"""What rules say of each leaf of a tree."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from jax.tree_util import keystr

from ..faults import Fault
from ..show import values as shown
from ..trees import paths
from ..trees.boxes import Ends
from ..trees.paths import KeyPath
from .clashes import clashes
from .matcher import NO_RULE
from .nearest import Nearest, nearest
from .reading import place as at_rule
from .rule_values import UNMATCHED, OfLeaf, is_function, rank

if TYPE_CHECKING:
    from .rules import Rules

MOST_CLUES = 40
"""Kinds of leaves for which the nearest rule is looked for; a message shows fewer."""


@dataclasses.dataclass(frozen=True, eq=False)
class Assignment:
    """The rule of each leaf of a tree, and its value. All sequences are in flattening order.

    Attributes:
        rules: The rules.
        ends: The leaves of the tree, with their paths.
        numbers: The index of the rule that took each leaf, -1 where none did.
        said: What that rule says, or the default: functions are not called yet.
    """

    rules: Rules
    ends: Ends
    numbers: list[int]
    said: list[Any]

    @property
    def leaves(self) -> list[Any]:
        """The leaves of the tree."""
        return self.ends.leaves

    @property
    def treedef(self) -> Any:
        """The structure of the tree as it was given, boxes included."""
        return self.ends.structure

    @functools.cached_property
    def values(self) -> list[Any]:
        """The value of each leaf, unread; `UNMATCHED` where nothing gives one."""
        if not self.rules.has_functions:
            return self.said
        return [
            self._called(index, value) if is_function(value) else value
            for index, value in enumerate(self.said)
        ]

    def unread(self) -> list[Any]:
        """As `said`, with each function of a path and a leaf made one of the leaf alone."""
        if not self.rules.has_functions:
            return self.said
        return [
            OfLeaf(value, self.text(index)) if is_function(value) else value
            for index, value in enumerate(self.said)
        ]

    def path(self, index: int) -> KeyPath:
        """The key path of a leaf."""
        return self.ends.paths[index]

    def text(self, index: int) -> str:
        """The path of a leaf as the text that rules match: it ends at the box of an array."""
        return keystr(self.ends.texts[index], simple=True, separator="/")

    def nearest(self, index: int) -> str | None:
        """What might be meant for a leaf that no rule matches, None where there is no clue."""
        found = self._nearest(index)
        if found is None:
            return None
        place = at_rule(found.number)
        said = f"{place} = {self.rules.patterns[found.number].text!r}, {found.fact}"
        return f"{said}: write {found.instead!r}" if found.instead else said

    def faults(
        self, name: str = "tree", spec_name: str = "rules", skip: Collection[int] = ()
    ) -> list[Fault]:
        """PTK305 for each leaf that nothing gives a value; PTK306 where a rule is at fault for it.

        Args:
            name: What messages call the tree.
            spec_name: What they call the rules.
            skip: The indices of leaves that need no rule.
        """
        found: dict[tuple[str, ...], list[Fault]] = {}
        for index, number in enumerate(self.numbers):
            needs = number == NO_RULE or self.rules.has_functions
            if needs and self.values[index] is UNMATCHED and index not in skip:
                fault = self._unmatched(index, name, spec_name)
                cause = fault.spec_path, fault.found, fault.fact, fault.note, fault.hint
                found.setdefault(cause, []).append(fault)  # what is alike is told as one
        return [
            *(fault for alike in found.values() for fault in alike),
            *(self._clash(*its, name, spec_name) for its in self._clashes()),
        ]

    def _unmatched(self, index: int, name: str, spec_name: str) -> Fault:
        number, leaf = self.numbers[index], self.leaves[index]
        place, found = paths.text(self.path(index)), shown.leaf(leaf)
        if number != NO_RULE:
            fact = f"its rule has no entry for rank {rank(leaf)}"
            its = at_rule(number, spec_name), found, shown.spec(self.said[index])
            return Fault("PTK306", name, place, *its, fact=fact, note=self._pattern(number))
        near, fact = self._nearest(index), "no rule matches"
        if near is None:
            note = "no rule is like it" if self.rules.patterns else "there are no rules"
            where = spec_name.removesuffix(".entries")
            return Fault("PTK305", name, place, where, found, "", fact=fact, note=note)
        where, pattern = at_rule(near.number, spec_name), self._pattern(near.number)
        hint = f"write {near.instead!r} in {where}" if near.instead else ""
        return Fault(
            "PTK305", name, place, where, found, pattern, hint=hint, fact=fact, note=near.fact
        )

    def _clash(self, index: int, other: int, name: str, spec_name: str) -> Fault:
        number = self.numbers[index]
        there = name + paths.text(self.path(other))
        place, found = paths.text(self.path(index)), shown.leaf(self.leaves[index])
        where, pattern = at_rule(number, spec_name), self._pattern(number)
        fact = "a rule cannot tell it from another leaf"
        note = f"{there} is {self.text(other)!r}, too"
        return Fault("PTK306", name, place, where, found, pattern, fact=fact, note=note)

    def _pattern(self, number: int) -> str:
        return shown.spec(self.rules.patterns[number].text)

    def _clashes(self) -> Iterator[tuple[int, int]]:
        if self.rules.cuts_keys:
            yield from clashes(self.ends.texts, self.numbers, self.rules)

    def _nearest(self, index: int) -> Nearest | None:
        """As it is for all leaves whose texts differ in numbers alone; only for some of these."""
        text = self.text(index)
        kind = "".join("0" if character.isdecimal() else character for character in text)
        if kind not in self._clues and len(self._clues) < MOST_CLUES:
            its = self.rules.patterns, text, self.rules.split, frozenset(self.numbers)
            self._clues[kind] = nearest(*its)
        return self._clues.get(kind)

    @functools.cached_property
    def _clues(self) -> dict[str, Nearest | None]:
        return {}

    def _called(self, index: int, function: Callable[[str, Any], Any]) -> Any:
        text = self.text(index)
        try:
            return function(text, self.leaves[index])
        except Exception as error:
            number = self.numbers[index]
            its = "the default" if number == NO_RULE else at_rule(number)
            error.add_note(f"ptk.Rules called {its} for {text!r}")
            raise
