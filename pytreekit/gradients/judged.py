"""What is done with each leaf of a call, from what was read of the loss: told in its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..faults import Fault
from ..show import values
from .choice import READ, TWO_PASS
from .estimates import taken
from .ghost.verdicts import GHOST, ITSELF, UNUSED
from .ghost.work import LeafWork, LossWork
from .plan import PlannedGradient


def judged(
    planned: Sequence[PlannedGradient], work: LossWork, method: str
) -> tuple[PlannedGradient, ...]:
    """Planned leaves, with what is done with each of them, why, and what it takes.

    Args:
        planned: The leaves.
        work: What the loss takes.
        method: The method.
    """
    rest = iter(work.leaves)
    return tuple(leaf if leaf.left else _judged(leaf, next(rest), method) for leaf in planned)


def _judged(leaf: PlannedGradient, its: LeafWork, method: str) -> PlannedGradient:
    size, how = leaf.bytes, its.how
    if how == GHOST and method not in READ:
        how = ITSELF
    elif how == GHOST:
        size = _NUMBER if method == TWO_PASS and its.alone else int(its.kept)
    flops = int(taken(its, method).flops)
    return leaf._replace(how=how, why=its.why, bytes=size, flops=flops, source=its.source)


_NUMBER = 4
"""The bytes of a norm."""


def check_memory(
    planned: Sequence[PlannedGradient], at_once: int, memory: int, method: str
) -> list[Fault]:
    """PTK410: leaves whose gradients, of so many examples, are what exceeds the memory.

    Args:
        planned: The leaves, judged if the loss was read.
        at_once: How many examples are differentiated at once.
        memory: How many bytes their gradients may take.
        method: The method.
    """
    formed = [leaf for leaf in planned if not leaf.left and leaf.how not in (GHOST, UNUSED)]
    rest = at_once * sum(leaf.bytes for leaf in formed)
    faults = []
    for leaf in sorted(formed, key=lambda its: -its.bytes):
        if rest <= memory:
            break
        faults.append(_fault(leaf, at_once, memory, method))
        rest -= at_once * leaf.bytes
    return faults


def _fault(leaf: PlannedGradient, at_once: int, memory: int, method: str) -> Fault:
    its = values.count(at_once, "example")
    fact = f"the gradients of {its} take {at_once * leaf.bytes:,} bytes"
    note = "; ".join(_why(leaf, method))
    place = leaf.argument, leaf.path, "memory", leaf.found, str(memory)
    return Fault("PTK410", *place, fact=fact, note=note)


def _why(leaf: PlannedGradient, method: str) -> Iterator[str]:
    yield leaf.why if method in READ else f"method={method!r} forms them"
    if leaf.source and method in READ:
        yield f"at {leaf.source}"
