"""What a collective of a CPU program is on an accelerator, where the CPU compiler cannot make it.

Two things differ. XLA makes no reduce-scatter for CPUs, but an all-reduce of which each device
keeps a slice. And it has no collectives of 16 bit floats there: it raises them to f32.
"""

from __future__ import annotations

from typing import NamedTuple

from .flow import At, Use, depends_on, index, uses
from .hlo import Instruction, Module
from .shapes import Array, bits

_HALVES = ("bf16", "f16")
_REDUCING = {"all-reduce", "reduce-scatter"}


class Narrow(NamedTuple):
    """A value as an accelerator would send it: its dtype, and whether it keeps a slice only."""

    dtype: str
    sliced: bool


def on_accelerator(module: Module, at: At, members: int) -> list[Narrow]:
    """What an accelerator would make of each array that a collective sends.

    Args:
        module: The program.
        at: The collective.
        members: How many devices are in a group.
    """
    operands = [at.computation.instructions[name] for name in at.its.operands]
    found: list[Narrow] = []
    for number, operand in enumerate(operands):
        (array, *_) = operand.arrays or (Array("token", ()),)
        results = _results(at, number, len(operands))
        reduced = at.its.opcode.removesuffix("-start") in _REDUCING
        source = At(at.computation, operand)
        dtype = _raised(module, at, results) if reduced else _widened(module, source)
        sliced = at.its.opcode == "all-reduce" and _is_sliced(module, results, array, members)
        narrow = dtype if array.dtype == "f32" and dtype in _HALVES else array.dtype
        found.append(Narrow(narrow, sliced))
    return found


def _results(at: At, number: int, count: int) -> list[At]:
    """What stands for the result of one operand: the collective, or elements of its tuple."""
    if count == 1 and not at.its.type.startswith("("):
        return [at]
    users = at.computation.users.get(at.its.name, [])
    elements = [user for user in users if user.opcode == "get-tuple-element"]
    return [At(at.computation, user) for user in elements if index(user) == number]


def _is_sliced(module: Module, results: list[At], array: Array, members: int) -> bool:
    """Whether of a result only slices are used, each device its own, none larger than its share."""
    share = array.elements // max(members, 1)
    ends = [use for result in results for use in uses(module, result)]
    return bool(ends) and all(_is_own_slice(module, use, share) for use in ends)


def _is_own_slice(module: Module, use: Use, share: int) -> bool:
    computation, its = use.at
    if its.opcode != "dynamic-slice" or use.operand != 0 or its.arrays[0].elements > share:
        return False
    starts = (At(computation, computation.instructions[name]) for name in its.operands[1:])
    return any(depends_on(module, start, "partition-id") for start in starts)


def _raised(module: Module, at: At, results: list[At]) -> str:
    """The dtype of a reduction before XLA raised it, which it tells in the name of the function."""
    names = at.its.called("to_apply")
    if not any("promoted" in name for name in names):
        return ""
    operands = (at.computation.instructions[name] for name in at.its.operands)
    before = (_widened(module, At(at.computation, operand)) for operand in operands)
    after = (_narrowed(module, result) for result in results)
    return next((dtype for dtype in [*after, *before] if dtype), _HALVES[0])


def _narrowed(module: Module, result: At) -> str:
    """The dtype to which the first conversion of a value brings it, `""` for none."""
    for user in result.computation.users.get(result.its.name, []):
        convert = _first_conversion(module, user)
        dtype = convert.arrays[0].dtype if convert is not None and convert.arrays else ""
        if dtype in _HALVES:
            return dtype
    return ""


def _first_conversion(module: Module, user: Instruction) -> Instruction | None:
    if user.opcode != "fusion":
        return user if user.opcode == "convert" else None
    inner = module.computations[user.called("calls")[0]]
    converts = [its for its in inner.instructions.values() if its.opcode == "convert"]
    taken = [its for its in converts if inner.instructions[its.operands[0]].opcode == "parameter"]
    return taken[0] if taken else None


def _widened(module: Module, at: At) -> str:
    """The dtype of a value before it was converted to the one that it has, `""` for none."""
    computation, its = at
    for _ in range(100):
        if its.opcode == "fusion":
            computation = module.computations[its.called("calls")[0]]
            its = computation.instructions[computation.root]
        elif its.opcode == "convert":
            operand = computation.instructions[its.operands[0]]
            dtype = operand.arrays[0].dtype if operand.arrays else ""
            return dtype if 0 < bits(dtype) < bits(its.arrays[0].dtype) else ""
        elif its.opcode in {"bitcast", "copy", "transpose", "reshape"}:
            its = computation.instructions[its.operands[0]]
        else:
            break
    return ""
