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

if TYPE_CHECKING:
    from .assigning import Assigned, Group


def hint(assigned: Assigned, group: Group, problem: Problem) -> str:
    """What to write instead, if that was found to repair a problem and to make no other."""
    saying = assigned.source.sayings[group.alike.number]
    if saying.by == "metadata":
        return ""
    for value in _repairs(saying.value, problem):
        left = _left(assigned, group, problem, value)
        if left is not None:
            remain = f"   (then {', '.join(sorted(left))} remains)" if left else ""
            return f"write {shown.spec(value, 40)} in {saying.told(group.leaves[0])[0]}{remain}"
    return ""


def _repairs(value: Any, problem: Problem) -> Iterator[Any]:
    if problem.instead:
        yield _renamed(value, *problem.instead)
    if problem.dim is not None and isinstance(value, str | PartitionSpec):
        tokens = (value if isinstance(value, str) else to_text(value)).split()
        places = [n for n, token in enumerate(tokens) if token != "..."]
        for place in places:
            if tokens[place] != "_" and "|" not in tokens[place]:
                yield " ".join([*tokens[:place], _droppable(tokens[place]), *tokens[place + 1 :]])


def _droppable(token: str) -> str:
    return "+".join(name if name.endswith("?") else f"{name}?" for name in token.split("+"))


def _renamed(value: Any, name: str, instead: str) -> Any:
    """A value with another name in the place of one."""
    if isinstance(value, PartitionSpec):
        return PartitionSpec(*(_renamed(part, name, instead) for part in value.partitions))
    if isinstance(value, tuple | list):
        return type(value)(_renamed(part, name, instead) for part in value)
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
