"""Repairs of what is asked for, each tried on all leaves that it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jax.sharding import PartitionSpec

from ..show import values as shown
from .entries import BadSpec
from .reading import template
from .remarks import Problem
from .resolve import resolve
from .spec_text import to_text

LONGEST = 60
"""Characters of a value that a hint has."""

MENDED = {"PTK301", "PTK302", "PTK303", "PTK304", "PTK307"}
"""What is wrong with a spec for a leaf, not with the rule or the tree."""

if TYPE_CHECKING:
    from .assigning import Assigned, Group


def hint(assigned: Assigned, group: Group, problem: Problem) -> str:
    """What to write instead, if that was found to repair a problem and to make no other."""
    saying = assigned.source.sayings[group.alike.number]
    if saying.by in {"metadata", "a function"}:  # which are not written in one place
        return ""
    for value in _repairs(saying.value, problem):
        left = _left(assigned, group, problem, value)
        told = shown.spec(value, LONGEST)
        if left is not None and not told.endswith(" ..."):
            remain = f"   (then {', '.join(sorted(left))} remains)" if left else ""
            return f"write {told} in {saying.told(group.leaves[0])[0]}{remain}"
    return ""


def repaired(assigned: Assigned) -> Any:
    """What to ask for instead, if repairs together mend all that is wrong; else None."""
    if not {fault.code for fault in assigned.faults} <= MENDED:
        return None
    values: dict[int, Any] = {}
    for number in {its.alike.number for its in assigned.groups if its.resolved.problems}:
        values[number] = _mended(assigned, number)
        if values[number] is None:
            return None
    return assigned.source.rewritten(values)


def _mended(assigned: Assigned, number: int) -> Any:
    """What to say instead of something, if that can be found step by step; else None."""
    saying = assigned.source.sayings[number]
    if saying.by not in {"a rule", "the default", "an entry"}:
        return None
    value = saying.value
    wrong = _wrong(assigned, number, value)
    while wrong:  # each step leaves less
        steps = (
            one for _, problem in sorted(wrong, key=_place) for one in _repairs(value, problem)
        )
        for step in steps:
            left = _wrong(assigned, number, step)
            if left is not None and left < wrong:
                value, wrong = step, left
                break
        else:
            return None
    return value


def _place(found: tuple[int, Problem]) -> tuple[int, str, str]:
    """What the order of problems goes by."""
    place, problem = found
    return place, problem.code, problem.fact


def _wrong(assigned: Assigned, number: int, value: Any) -> set[tuple[int, Problem]] | None:
    """What is wrong with a value for the leaves that are given it; None if it cannot be read."""
    try:
        asked = template(value)
    except BadSpec:
        return None
    alikes = [its.alike for its in assigned.groups if its.alike.number == number]
    return {
        (place, problem)
        for place, alike in enumerate(alikes)
        for problem in resolve(asked, alike.shape, assigned.options, alike.stack).problems
    }


def _repairs(value: Any, problem: Problem) -> Iterator[Any]:
    if problem.instead:
        yield renamed(value, *problem.instead)
    if problem.dim is not None and isinstance(value, str | PartitionSpec):
        tokens = (value if isinstance(value, str) else to_text(value)).split()
        places = [n for n, token in enumerate(tokens) if token != "..."]
        for place in places:
            if tokens[place] != "_" and "|" not in tokens[place]:
                yield " ".join([*tokens[:place], _droppable(tokens[place]), *tokens[place + 1 :]])


def _droppable(token: str) -> str:
    return "+".join(name if name.endswith("?") else f"{name}?" for name in token.split("+"))


def renamed(value: Any, name: str, instead: str) -> Any:
    """A value with another name in the place of one."""
    if isinstance(value, PartitionSpec):
        return PartitionSpec(*(renamed(part, name, instead) for part in value.partitions))
    if isinstance(value, tuple | list):
        return type(value)(renamed(part, name, instead) for part in value)
    if not isinstance(value, str):
        return value
    if value == name:
        return instead
    return " ".join(_replaced(token, name, instead) for token in value.split())


def _replaced(token: str, name: str, instead: str) -> str:
    choices = []
    for choice in token.split("|"):
        names = [its.removesuffix("?") for its in choice.split("+")]
        marks = ["?" if its.endswith("?") else "" for its in choice.split("+")]
        new = [instead if its == name else its for its in names]
        choices.append("+".join(one + mark for one, mark in zip(new, marks, strict=True)))
    return "|".join(choices)


def _left(assigned: Assigned, group: Group, problem: Problem, value: Any) -> set[str] | None:
    """The codes of what a repair leaves wrong; None if it does not mend this, or breaks more."""
    try:
        asked = template(value)
    except BadSpec:
        return None
    left: set[str] = set()
    for its in assigned.groups:
        if its.alike.number != group.alike.number:
            continue
        alike = its.alike
        after = resolve(asked, alike.shape, assigned.options, alike.stack).problems
        if set(after) - set(its.resolved.problems) or (its is group and problem in after):
            return None
        left |= {one.code for one in after}
    return left
