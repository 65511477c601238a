"""What rules say of the leaves of a state: they win over what follows from the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec

from ...faults import Fault
from ...show import values as shown
from ...specs.reading import bad_rule
from ...specs.rules import Rules
from ..entries import BadSpec, Template
from ..options import Options
from ..reading import template
from ..remarks import Remark
from ..resolve import Resolved, resolve
from ..rule_source import from_rules
from ..shapes import shape_of
from ..sources import NOTHING

NAME = "state"
"""What messages call the state."""


class Ruled(NamedTuple):
    """What a rule gives a leaf: its spec, which rule it is, and what is worth to know."""

    spec: PartitionSpec
    why: str
    remarks: tuple[Remark, ...]


class StateRules:
    """Rules for the leaves of a state; their default is for what nothing else explains.

    Attributes:
        faults: What is wrong with what was asked for so far.
    """

    def __init__(self, state: Any, rules: Any, options: Options) -> None:
        self._source = from_rules(
            state, rules if isinstance(rules, Rules) else Rules(rules), "rules"
        )
        self._options = options
        self._known: dict[Any, Resolved | None] = {}
        self.faults: list[Fault] = []

    def of(self, index: int, *, default: bool = False) -> Ruled | None:
        """What a rule says of a leaf, or the default; None where it says nothing.

        A leaf whose rule is at fault has a fault more, and is whole.
        """
        number = self._source.numbers[index]
        if number == NOTHING:
            return None
        saying = self._source.sayings[number]
        if (saying.by == "the default") is not default:
            return None
        shape = shape_of(self._source.leaves[index])
        if (number, shape) not in self._known:
            self._known[number, shape] = self._resolved(index, saying.value, shape)
        its = self._known[number, shape]
        if its is None:
            return Ruled(PartitionSpec(), saying.why(index), ())
        self.faults += self._faults(index, its)
        return Ruled(its.spec, saying.why(index), its.remarks)

    def _resolved(self, index: int, value: Any, shape: tuple[Any, ...]) -> Resolved | None:
        asked = self._template(index, value)
        return None if asked is None else resolve(asked, shape, self._options)

    def _template(self, index: int, value: Any) -> Template | None:
        try:
            return template(value)
        except BadSpec as bad:
            place, wanted = self._told(index)
            found = bad_rule(place, wanted, bad.fact, bad.note)
            if found not in self.faults:
                self.faults.append(found)
            return None

    def _faults(self, index: int, its: Resolved) -> Iterator[Fault]:
        place, wanted = self._told(index)
        where = self._source.path(index)
        found = shown.leaf(self._source.leaves[index])
        for problem in its.problems:
            told = where, place, found, wanted
            yield Fault(problem.code, NAME, *told, fact=problem.fact, note=problem.note)

    def _told(self, index: int) -> tuple[str, str]:
        return self._source.sayings[self._source.numbers[index]].told(index)
