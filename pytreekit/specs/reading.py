"""Rules as they are written, read all at once: what is wrong with any of them is told of all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import values as shown
from .globs import BadPattern
from .patterns import Pattern, Prefix, parsed
from .patterns import prefix as read_prefix
from .rule_values import ByRank, Inside, OptionalRule, is_function

MOST_RULES = 100_000
"""Rules of one list: one that is longer, or never ends, is a mistake."""

_SPECIAL = "*{},\\"


class Read(NamedTuple):
    """A rule."""

    pattern: Pattern
    value: Any
    optional: bool = False

    def below(self, prefix: Prefix, separators: str) -> Read:
        """The same rule for what lies below a prefix."""
        value = self.value
        if is_function(value) and not isinstance(value, ByRank):
            value = Inside(value, prefix.globs, separators)
        return self._replace(pattern=self.pattern.below(prefix), value=value)


class Row(NamedTuple):
    """A rule as a file has it."""

    pattern: Any
    value: Any
    optional: bool = False
    under: Any = ""


def read(rules: Any, separators: Any) -> tuple[list[Read], list[Fault]]:
    """The rules of a list of pairs or a mapping, and what is wrong with those that are left out.

    In the place of a rule there may be a `Row`, or a fault that was found already.
    """
    fact = _not_separators(separators)
    if fact:
        return [], [bad_rule("split", shown.spec(separators), fact)]
    if isinstance(rules, Mapping):
        rules = list(rules.items())
    if isinstance(rules, str | bytes) or not isinstance(rules, Iterable):
        fact = f"rules must be a list of pairs, this is {shown.kind(rules)}"
        return [], [bad_rule("rules", shown.spec(rules), fact, "as [(pattern, value), ...]")]
    rows = list(itertools.islice(rules, MOST_RULES + 1))
    if len(rows) > MOST_RULES:
        return [], [bad_rule("rules", "", f"there are more than {MOST_RULES:,} rules")]
    found: list[Read] = []
    faults: list[Fault] = []
    for number, row in enumerate(rows):
        one = _one(row, place(number), separators)
        if isinstance(one, Fault):
            faults.append(one)
        else:
            found.append(one)
    return found, faults


def place(number: int, name: str = "rules") -> str:
    """Where a rule stands: `rules[3]`."""
    return f"{name}[{number}]"


def bad_rule(where: str, wanted: str, fact: str, note: str = "") -> Fault:
    """A fault of a rule itself, whatever it is used for."""
    return Fault("PTK306", "", "", where, "", wanted, fact=fact, note=note)


def _one(row: Any, where: str, separators: str) -> Read | Fault:
    if isinstance(row, Fault):
        return row
    if isinstance(row, OptionalRule):
        row = Row(row.pattern, row.value, optional=True)
    elif isinstance(row, tuple | list) and len(row) == len(("pattern", "value")):
        row = Row(*row)
    elif not isinstance(row, Row):
        fact = f"a rule must be a pair (pattern, value), this is {shown.kind(row)}"
        return bad_rule(where, shown.spec(row), fact)
    try:
        rule = Read(parsed(row.pattern, separators), row.value, row.optional)
        return rule.below(read_prefix(row.under, separators), separators) if row.under else rule
    except BadPattern as bad:
        return bad_rule(where, shown.spec(row.pattern), bad.fact, bad.note)


def _not_separators(separators: Any) -> str:
    """Why paths cannot be cut at these characters, nothing where they can."""
    if not isinstance(separators, str):
        return f"split must be a str such as '/.', this is {shown.kind(separators)}"
    if not separators.startswith("/") or len(set(separators)) < len(separators):
        return "split must begin with /, and name each character once"
    return "split cannot name a character of globs" if set(separators) & set(_SPECIAL) else ""
