"""The text of a compiled HLO module, read into instructions: one pass, a line at a time."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from .frames import Frames, read_frames, unescaped
from .shapes import Array, arrays

_NAME = re.compile(r"%([\w.\-]+)")
_HEADER = re.compile(r"(ENTRY )?%([\w.\-]+) \(.*\{\s*$")
_CALLED = re.compile(
    r"\b(calls|to_apply|body|condition|branch_computations|true_computation|false_computation|"
    r"called_computations)=(\{[^}]*\}|%[\w.\-]+)"
)
_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)")
_RESULT = re.compile(r"\bentry_computation_layout=\{\(.*?\)->(.*?)\}(?:, [a-z_]+=|$)")
_METADATA = re.compile(r'\bmetadata=\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\}')


class Instruction(NamedTuple):
    """A line of HLO.

    Attributes:
        name: Its name, without `%`.
        type: Its type as it is written.
        opcode: What it does: `"all-reduce"`.
        operands: The names of the instructions that it takes.
        inside: What stands between its parentheses.
        attributes: What stands behind these.
    """

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    inside: str
    attributes: str

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that it makes."""
        return arrays(self.type)

    @property
    def bytes(self) -> int:
        """The bytes of what it makes."""
        return sum(array.bytes for array in self.arrays)

    @property
    def metadata(self) -> str:
        """What JAX tells of where it comes from."""
        found = _METADATA.search(self.attributes)
        return found[1] if found else ""

    def called(self, *roles: str) -> tuple[str, ...]:
        """The computations that it calls in some of the roles, `"body"`, `"calls"`."""
        found = [names for role, names in _CALLED.findall(self.attributes) if role in roles]
        return tuple(name for names in found for name in _NAME.findall(names))


@dataclasses.dataclass(frozen=True)
class Computation:
    """A function of HLO: its instructions by name, and the one that it returns."""

    name: str
    instructions: dict[str, Instruction]
    root: str

    @functools.cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """What takes the result of each instruction."""
        found: dict[str, list[Instruction]] = {}
        for its in self.instructions.values():
            for name in dict.fromkeys(its.operands):
                found.setdefault(name, []).append(its)
        return found

    @functools.cached_property
    def parameters(self) -> dict[int, Instruction]:
        """Its parameters by number."""
        every = self.instructions.values()
        return {int(its.inside): its for its in every if its.opcode == "parameter"}


@dataclasses.dataclass(frozen=True)
class Module:
    """A compiled program.

    Attributes:
        computations: Its functions by name, those that are called before those that call.
        entry: The name of that with which it begins.
        partitions: For how many devices it is.
        results: What each device has of each array that it returns.
        frames: Where in the source its instructions come from.
    """

    computations: dict[str, Computation]
    entry: str
    partitions: int
    results: tuple[Array, ...]
    frames: Frames

    @functools.cached_property
    def callers(self) -> dict[str, list[tuple[Computation, Instruction]]]:
        """What calls each computation, and from where."""
        found: dict[str, list[tuple[Computation, Instruction]]] = {}
        for computation in self.computations.values():
            for its in computation.instructions.values():
                for _, names in _CALLED.findall(its.attributes):
                    for name in _NAME.findall(names):
                        found.setdefault(name, []).append((computation, its))
        return found


def read(text: str) -> Module:
    """The module that a text, as `compiled.as_text()` returns it, tells of."""
    head, _, _ = text.partition("\n")
    lines = iter(text.splitlines())
    computations: dict[str, Computation] = {}
    entry = ""
    for line in lines:
        header = _HEADER.match(line)
        if header is not None:
            its = _computation(header[2], lines)
            computations[its.name] = its
            entry = its.name if header[1] else entry
    partitions, result = _PARTITIONS.search(head), _RESULT.search(head)
    count = int(partitions[1]) if partitions else 1
    results = arrays(result[1]) if result else ()
    return Module(computations, entry, count, results, read_frames(text))


def _computation(name: str, lines: Iterator[str]) -> Computation:
    instructions: dict[str, Instruction] = {}
    root = ""
    for line in lines:
        if line.startswith("}"):
            break
        its = instruction(line)
        if its is not None:
            instructions[its.name] = its
            root = its.name if line.lstrip().startswith("ROOT ") else root
    return Computation(name, instructions, root)


def instruction(line: str) -> Instruction | None:
    """A line of a computation; None if it is none.

    >>> its = instruction("  ROOT %a.1 = f32[8]{0} add(%x, %y), metadata={op_name='add'}")
    >>> its.name, its.type, its.opcode, its.operands
    ('a.1', 'f32[8]{0}', 'add', ('x', 'y'))
    """
    left, equals, right = line.strip().removeprefix("ROOT ").partition(" = ")
    if not equals:
        return None
    end = _closing(right) + 1 if right.startswith("(") else right.find(" ")
    kind, rest = right[:end], right[end:].lstrip()
    opcode, _, _ = rest.partition("(")
    inner = rest[len(opcode) :]
    close = _closing(inner)
    inside = inner[1:close]
    operands = tuple(_NAME.findall(inside))
    return Instruction(left.lstrip("%"), kind, opcode, operands, inside, inner[close + 1 :])


_BRACKETS = re.compile(r'[()]|"(?:[^"\\]|\\.)*"')


def _closing(text: str) -> int:
    """Where the bracket with which a text begins is closed."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0 and found[0] == ")":
            return found.start()
    return len(text)


_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')


def names(module: Module) -> dict[int, str]:
    """The path of each argument, as JAX names them, by the number of its parameter."""
    found: dict[int, str] = {}
    for number, its in module.computations[module.entry].parameters.items():
        told = _OP_NAME.search(its.metadata)
        found[number] = unescaped(told[1]) if told else ""
    return found
