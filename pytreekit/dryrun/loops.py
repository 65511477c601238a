"""How often each computation runs in a step: the trip counts of the loops around it."""

from __future__ import annotations

import re
from typing import NamedTuple

from .hlo import Computation, Instruction, Module

_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')

_ONCE = ("calls", "to_apply", "called_computations")
_BRANCHES = ("branch_computations", "true_computation", "false_computation")
_CALLS = {"fusion", "call", "async-start", "custom-call"}
"""What runs what it calls once; `reduce` and its kin run theirs for each element."""


class Runs(NamedTuple):
    """How often something runs in a step.

    Attributes:
        times: The number.
        exact: Whether it is known: a loop whose end depends on data counts once, and each branch of
            a condition once.
        looped: Whether it is in a loop.
    """

    times: int
    exact: bool = True
    looped: bool = False


def trips(its: Instruction) -> int | None:
    """How often the body of a loop runs, where the compiler knows it."""
    found = _TRIPS.search(its.attributes)
    return int(found[1]) if found else None


def runs(module: Module) -> dict[str, Runs]:
    """How often each computation runs; those that never do are left out."""
    found: dict[str, Runs] = {module.entry: Runs(1)}
    for name in reversed(module.computations):  # callers stand behind what they call
        if name in found:
            _count(module.computations[name], found[name], found)
    return found


def _count(computation: Computation, here: Runs, found: dict[str, Runs]) -> None:
    for its in computation.instructions.values():
        if its.opcode == "while":
            times = trips(its)
            inner = Runs(here.times * (times or 1), here.exact and times is not None, looped=True)
            names = its.called("body", "condition")
        elif its.opcode == "conditional":
            inner, names = here._replace(exact=False), its.called(*_BRANCHES)
        elif its.opcode in _CALLS:
            inner, names = here, its.called(*_ONCE)
        else:
            continue
        for name in names:
            before = found.get(name, Runs(0))
            found[name] = Runs(
                before.times + inner.times,
                before.exact and inner.exact,
                before.looped or inner.looped,
            )
