"""The collectives of a compiled program: what they send, over which axes, and because of what."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

from .accelerator import on_accelerator
from .flow import At, is_constant_in, source, uses
from .frames import Origin, Source, origin
from .groups import Over, over
from .hlo import Module
from .links import Links, sent
from .loops import Runs, runs
from .shapes import Array, bits

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)


@dataclasses.dataclass(frozen=True)
class Collective:
    """Arrays that the devices of a program exchange, at one place in it.

    Attributes:
        kind: What is done, in the words of XLA: `"all-reduce"`.
        axes: The axes of the mesh that it runs over.
        devices: How many devices exchange with each other.
        arrays: The arrays, as `"f32[64,128]"`: what is reduced, what is gathered from all.
        bytes: The bytes of these on each device, in one go.
        times: How often it runs in a step, by the trip counts of the loops around it.
        exact: Whether `times` is known: a loop whose end depends on data counts once.
        operation: The operation of JAX that it comes from.
        source: The line of the user that it comes from, `"train.py:12"`.
        file: The path of that file, `""` where it is not known.
        line: The number of that line, 0 where it is not known.
        leaf: The argument that is sent, or a part of which, `"params['w']"`; `""` if it is none.
        accelerator: What it would be on an accelerator.
        accelerator_bytes: The bytes that it would have there.
        seconds: What it takes at least in a step, on an accelerator; None without a `bandwidth`.
    """

    kind: str
    axes: tuple[str, ...]
    devices: int
    arrays: tuple[str, ...]
    bytes: int
    times: int
    exact: bool
    operation: str
    source: str
    file: str
    line: int
    leaf: str
    accelerator: str
    accelerator_bytes: int
    seconds: float | None

    @property
    def total(self) -> int:
        """The bytes of a step on each device: `bytes` times `times`."""
        return self.bytes * self.times

    @property
    def sent(self) -> float:
        """The bytes that each device must send in a step, as compiled for CPUs."""
        return self.times * sent(self.kind, self.bytes, self.devices)

    @property
    def accelerator_sent(self) -> float:
        """The bytes that each device must send in a step, on an accelerator."""
        return self.times * sent(self.accelerator, self.accelerator_bytes, self.devices)


@dataclasses.dataclass(frozen=True)
class Found:
    """A collective, and where it stands in the program.

    Attributes:
        told: What there is to say of it.
        at: The instruction.
        runs: How often it runs.
    """

    told: Collective
    at: At
    runs: Runs


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a program beside its text.

    Attributes:
        mesh: The size of each axis of the mesh.
        names: The path of each argument, by the number of its parameter.
        links: The links between devices, if they are known.
        is_cpu: Whether it was compiled for CPUs.
    """

    mesh: Mapping[str, int]
    names: Mapping[int, str]
    links: Links | None
    is_cpu: bool


def collectives(module: Module, known: Known) -> list[Found]:
    """All collectives of a program that more than one device takes part in."""
    found: list[Found] = []
    for name, times in runs(module).items():
        computation = module.computations[name]
        for its in computation.instructions.values():
            if its.opcode.removesuffix("-start") in KINDS:
                found += _collective(module, At(computation, its), times, known)
    return found


def _collective(module: Module, at: At, times: Runs, known: Known) -> Iterator[Found]:
    kind = at.its.opcode.removesuffix("-start")
    its = over(at.its.attributes, known.mesh)
    if its.devices <= 1:
        return
    grows = its.devices if kind == "all-gather" else 1
    operands = [at.computation.instructions[name] for name in at.its.operands]
    arrays = [operand.arrays[0] for operand in operands if operand.arrays]
    narrow = on_accelerator(module, at, its.devices) if known.is_cpu else None
    there, halved = kind, grows * sum(array.bytes for array in arrays)
    if narrow is not None:
        pairs = zip(operands, narrow, strict=True)
        halved = grows * sum(op.arrays[0].elements * bits(one.dtype) // 8 for op, one in pairs)
        is_slice = bool(narrow) and all(one.sliced for one in narrow)
        there = "reduce-scatter" if is_slice else kind
    came = _origin(module, at)
    told = Collective(
        kind=kind,
        axes=its.axes,
        devices=its.devices,
        arrays=_written(module, at, arrays, grows),
        bytes=grows * sum(array.bytes for array in arrays),
        times=times.times,
        exact=times.exact,
        operation=came.operation,
        source=str(came.source),
        file=came.source.file,
        line=came.source.line,
        leaf=_leaf(module, at, known.names),
        accelerator=there,
        accelerator_bytes=halved,
        seconds=_seconds(known, its, there, halved, times),
    )
    yield Found(told, at, times)


def _seconds(known: Known, its: Over, kind: str, size: int, times: Runs) -> float | None:
    if known.links is None:
        return None
    return times.times * known.links.seconds(kind, size, its.axes, known.mesh)


def _written(module: Module, at: At, arrays: list[Array], grows: int) -> tuple[str, ...]:
    """The arrays, those of one kind once; a gathered one as it is when it is whole."""
    if grows > 1 and not at.its.opcode.endswith("-start"):
        return tuple(map(str, at.its.arrays))
    groups = itertools.groupby(map(str, arrays))
    counts = [(text, len(list(its))) for text, its in groups]
    return tuple(text if count == 1 else f"{count} x {text}" for text, count in counts)


def _origin(module: Module, at: At) -> Origin:
    """Where a collective comes from; if that is an argument, its line is that of what takes it."""
    came = origin(at.its.metadata, module.frames)
    if came.source.file:
        return came
    for use in uses(module, at):
        user = origin(use.at.its.metadata, module.frames)
        if user.source.file:
            return Origin(user.operation, user.source)
    return Origin(came.operation, Source())


def _leaf(module: Module, at: At, names: Mapping[int, str]) -> str:
    """The argument that is sent, if the collective sends one, or a part of one."""
    if len(at.its.operands) != 1:
        return ""
    operand = at.computation.instructions[at.its.operands[0]]
    came = source(module, At(at.computation, operand))
    if came.its.opcode != "parameter" or came.computation.name != module.entry:
        return ""
    return names.get(int(came.its.inside), "")


def repeats(module: Module, found: Found) -> bool:
    """Whether a collective in a loop sends the same each time."""
    if not found.runs.looped:
        return False
    computation, its = found.at
    operands = [computation.instructions[name] for name in its.operands]
    return all(is_constant_in(computation, operand) for operand in operands)
