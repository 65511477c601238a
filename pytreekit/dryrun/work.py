"""What each device computes, reads and writes, the bodies of loops as often as they run.

`compiled.cost_analysis()` counts the body of each loop once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from .hlo import Computation, Instruction, Module
from .loops import runs

_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"\bdim_labels=\w+_(\w+)->")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')

_FREE = {
    "after-all",
    "bitcast",
    "call",
    "conditional",
    "constant",
    "get-tuple-element",
    "iota",
    "optimization-barrier",
    "parameter",
    "partition-id",
    "replica-id",
    "tuple",
    "while",
}
"""What touches no memory, or only in what it calls."""


class Work(NamedTuple):
    """What a device does in a step.

    Attributes:
        flops: Floating point operations of products of matrices and of convolutions.
        read: Bytes that operations read.
        written: Bytes that they write.
        unknown: Calls of routines from outside of XLA, of which no FLOPs are known.
    """

    flops: int
    read: int
    written: int
    unknown: tuple[str, ...]


def work(module: Module) -> Work:
    """What a device does in a step."""
    flops = read = written = 0
    unknown: set[str] = set()
    fused = {
        name
        for computation in module.computations.values()
        for its in computation.instructions.values()
        if its.opcode == "fusion"
        for name in its.called("calls")
    }
    for name, times in runs(module).items():
        computation = module.computations[name]
        for its in computation.instructions.values():
            flops += times.times * _flops(computation, its)
            if its.opcode == "custom-call":
                unknown |= {found[1] for found in _TARGET.finditer(its.attributes)}
            if name not in fused and its.opcode not in _FREE:
                taken, made = _touched(module, computation, its)
                read, written = read + times.times * taken, written + times.times * made
    return Work(flops, read, written, tuple(sorted(unknown)))


def _flops(computation: Computation, its: Instruction) -> int:
    if its.opcode == "dot":
        left = computation.instructions[its.operands[0]].arrays[0]
        found = _CONTRACTED.search(its.attributes)
        dims = [int(dim) for dim in found[1].split(",") if dim] if found else []
        return 2 * its.arrays[0].elements * math.prod(left.shape[dim] for dim in dims)
    if its.opcode == "convolution":
        kernel = computation.instructions[its.operands[1]].arrays[0]
        labels = _LABELS.search(its.attributes)
        outputs = kernel.shape[labels[1].index("o")] if labels else 1
        return 2 * its.arrays[0].elements * kernel.elements // max(outputs, 1)
    return 0


def _touched(module: Module, computation: Computation, its: Instruction) -> tuple[int, int]:
    """The bytes that an instruction reads and writes: of what it slices or updates, that part."""
    if its.opcode == "fusion":
        inner = module.computations[its.called("calls")[0]]
        return sum(_read_inside(inner)), _written_inside(inner)
    operands = [computation.instructions[name] for name in its.operands]
    if its.opcode in {"dynamic-slice", "slice", "gather"}:
        return its.bytes, its.bytes
    if its.opcode == "dynamic-update-slice":
        return operands[1].bytes, operands[1].bytes
    return sum(operand.bytes for operand in operands), its.bytes


def _read_inside(inner: Computation) -> Iterator[int]:
    for parameter in inner.parameters.values():
        users = inner.users.get(parameter.name, [])
        first = [user for user in users if user.operands[0] == parameter.name]
        if users and len(first) == len(users):
            if all(user.opcode == "dynamic-slice" for user in users):
                yield sum(user.bytes for user in users)
                continue
            if all(user.opcode == "dynamic-update-slice" for user in users):
                continue  # it is written in place
        yield parameter.bytes


def _written_inside(inner: Computation) -> int:
    root = inner.instructions[inner.root]
    while root.opcode == "bitcast":
        root = inner.instructions[root.operands[0]]
    if root.opcode == "dynamic-update-slice":
        return inner.instructions[root.operands[1]].bytes
    return root.bytes
