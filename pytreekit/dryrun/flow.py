"""Where values go and come from in a module: through copies, fusions and the state of loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .hlo import Computation, Instruction, Module

_MOVES = {"bitcast", "copy", "transpose", "reshape", "convert", "get-tuple-element"}
"""What hands a value on, arranged or written otherwise."""

_PARTS = _MOVES | {"dynamic-slice", "slice"}
"""What hands on a value, or a part of it."""

_OUTSIDE = {"fusion", "parameter", "get-tuple-element"}
"""What a value comes from may stand in another computation than these."""

_ALWAYS = {"constant", "iota", "partition-id", "replica-id"}
_INDEX = re.compile(r"\bindex=(\d+)")
MOST_STEPS = 1000
"""Instructions that are followed for one question: so that no program makes it long."""


class At(NamedTuple):
    """An instruction and the computation that it is in."""

    computation: Computation
    its: Instruction


class Use(NamedTuple):
    """What takes a value in the end, and which of its operands the value is."""

    at: At
    operand: int


def index(its: Instruction) -> int:
    """Which element of a tuple an instruction takes, or which number a parameter has."""
    if its.opcode == "parameter":
        return int(its.inside)
    found = _INDEX.search(its.attributes)
    return int(found[1]) if found else 0


def uses(module: Module, start: At) -> Iterator[Use]:
    """What takes a value, past what only moves it, and within fusions."""
    pending, seen = [start], {(start.computation.name, start.its.name)}
    while pending and len(seen) < MOST_STEPS:
        here = pending.pop()
        if here.its.name == here.computation.root:
            outside = _around(module, here.computation)
            if outside is None:
                yield Use(here, -1)
            else:
                _push(outside, pending, seen)
            continue
        for user in here.computation.users.get(here.its.name, []):
            at = At(here.computation, user)
            for number in [n for n, name in enumerate(user.operands) if name == here.its.name]:
                inner = _inside(module, user, number)
                if inner is not None:
                    _push(inner, pending, seen)
                elif user.opcode in _MOVES:
                    _push(at, pending, seen)
                else:
                    yield Use(at, number)


def _push(at: At, pending: list[At], seen: set[tuple[str, str]]) -> None:
    key = at.computation.name, at.its.name
    if key not in seen:
        seen.add(key)
        pending.append(at)


def _inside(module: Module, fusion: Instruction, number: int) -> At | None:
    """The parameter of a fusion that is one of its operands."""
    if fusion.opcode != "fusion":
        return None
    (name,) = fusion.called("calls")
    inner = module.computations[name]
    return At(inner, inner.parameters[number])


def _around(module: Module, computation: Computation) -> At | None:
    """The fusion that a computation is; None if it is none."""
    callers = module.callers.get(computation.name, [])
    if len(callers) == 1 and callers[0][1].opcode == "fusion":
        return At(*callers[0])
    return None


def source(module: Module, at: At) -> At:
    """Where a value comes from, of which an instruction is the whole or a part.

    A value that a loop hands on unchanged comes from outside of the loop.
    """
    for _ in range(MOST_STEPS):
        before = _before(module, at)
        if before is None:
            return at
        at = before
    return at


def _before(module: Module, at: At) -> At | None:
    computation, its = at
    if its.opcode == "fusion":
        (name,) = its.called("calls")
        inner = module.computations[name]
        return At(inner, inner.instructions[inner.root])
    if its.opcode == "parameter":
        return _argument(module, at)
    if its.opcode == "get-tuple-element":
        return _element(module, at)
    if its.opcode in _PARTS and its.operands:
        return At(computation, computation.instructions[its.operands[0]])
    return None


def _argument(module: Module, at: At) -> At | None:
    """What a fusion is given as a parameter."""
    outside = _around(module, at.computation)
    if outside is None:
        return None
    operands = outside.its.operands
    return At(outside.computation, outside.computation.instructions[operands[index(at.its)]])


def _element(module: Module, at: At) -> At | None:
    """What an element of a tuple is: of one that was made, or that a loop hands on."""
    computation, its = at
    whole = computation.instructions[its.operands[0]]
    if whole.opcode == "tuple":
        return At(computation, computation.instructions[whole.operands[index(its)]])
    loop = loop_of(module, computation) if whole.opcode == "parameter" else None
    if loop is None or index(its) not in kept(computation):
        return None
    start = loop.computation.instructions[loop.its.operands[0]]
    if start.opcode != "tuple":
        return None
    name = start.operands[index(its)]
    return At(loop.computation, loop.computation.instructions[name])


def depends_on(module: Module, at: At, opcode: str) -> bool:
    """Whether an instruction of some kind is among those that a value is made from."""
    pending, seen = [at], {(at.computation.name, at.its.name)}
    while pending and len(seen) < MOST_STEPS:
        here = pending.pop()
        if here.its.opcode == opcode:
            return True
        inner = _before(module, here) if here.its.opcode in _OUTSIDE else None
        names = here.its.operands if inner is None and here.its.opcode != "fusion" else ()
        for one in [
            inner,
            *(At(here.computation, here.computation.instructions[n]) for n in names),
        ]:
            if one is not None:
                _push(one, pending, seen)
    return False


def loop_of(module: Module, computation: Computation) -> At | None:
    """The loop that a computation is the body of; None if it is none, or that of several."""
    callers = module.callers.get(computation.name, [])
    loops = [At(*one) for one in callers if computation.name in one[1].called("body")]
    return loops[0] if len(loops) == 1 else None


def kept(body: Computation) -> set[int]:
    """The elements of a loop's state that its body hands on as they are."""
    last = body.instructions[body.root]
    if last.opcode != "tuple":
        return set()
    found: set[int] = set()
    for number, name in enumerate(last.operands):
        its = body.instructions[name]
        while its.opcode in {"copy", "bitcast"}:
            its = body.instructions[its.operands[0]]
        if its.opcode == "get-tuple-element" and index(its) == number:
            whole = body.instructions[its.operands[0]]
            found |= {number} if whole.opcode == "parameter" else set()
    return found


def is_constant_in(body: Computation, its: Instruction) -> bool:
    """Whether an instruction of a loop's body makes the same each time."""
    same = kept(body)
    known: dict[str, bool] = {}
    pending = [its.name]
    while pending:
        name = pending[-1]
        one = body.instructions[name]
        if _is_state(body, one):
            known[name] = index(one) in same
        elif one.opcode in {"parameter", "rng", "rng-bit-generator", "custom-call", "infeed"}:
            known[name] = False
        elif one.opcode in _ALWAYS:
            known[name] = True
        elif missing := [each for each in one.operands if each not in known]:
            pending += missing
            continue
        else:
            known[name] = all(known[each] for each in one.operands)
        pending.pop()
    return known[its.name]


def _is_state(body: Computation, its: Instruction) -> bool:
    """Whether an instruction takes an element of a loop's state."""
    is_element = its.opcode == "get-tuple-element"
    return is_element and body.instructions[its.operands[0]].opcode == "parameter"
