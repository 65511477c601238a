"""What rules say of each leaf of a tree."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

from ..faults import Fault
from ..show import values as shown
from ..specs.assignment import Assignment
from ..specs.matcher import NO_RULE
from ..specs.reading import Row
from ..specs.reading import place as at_rule
from ..specs.rule_values import UNMATCHED, is_function
from ..specs.rules import Rules
from .sources import NAME, NOTHING, Saying, Source, value_key


def from_rules(tree: Any, rules: Rules, spec_name: str) -> Source:
    """What rules say.

    Raises:
        SpecError: What `rules.assign` raises.
    """
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

    def rewritten(values: Mapping[int, Any]) -> Rules:
        rows = [
            Row(its.pattern.text, values.get(number, its.value), its.optional, its.pattern.under)
            for number, its in enumerate(rules.entries)
        ]
        default = values.get(len(rows), rules.default)
        return Rules(rows, default=default, split=rules.split)

    return Source(found.ends, sayings, numbers, faults, rewritten)


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

    @functools.cache
    def text() -> tuple[str, str]:
        if number == NO_RULE:
            return f"{spec_name}.default", shown.spec(value)
        written = its.values[number]
        gave = f" gave {shown.spec(value, 30)}" if written is not value else ""
        pattern = its.patterns[number].text
        return at_rule(number, spec_name), f"({pattern!r}, {shown.spec(written, 44)}){gave}"

    def told(_: int) -> tuple[str, str]:
        return text()

    if number == NO_RULE:
        return Saying(value, "the default", told)
    return Saying(value, "a rule" if its.values[number] is value else "a function", told)
