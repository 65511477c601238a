"""Where instructions come from: the tables of files, functions and frames at the head of HLO."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import NamedTuple

OWN = str(Path(__file__).parents[1])
"""Where pytreekit lies: its frames are no lines of the user."""

LIBRARIES = ("/site-packages/", "/dist-packages/", "<frozen ")
"""Parts of the names of files that no user wrote."""

_TABLES = re.compile(
    r"^(FileNames|FunctionNames|FileLocations|StackFrames)$\n((?:\d+ .*\n)*)", re.MULTILINE
)
_ROW = re.compile(r"^(\d+) (.*)$", re.MULTILINE)
_FIELD = re.compile(r"(\w+)=(\d+)")
_STRING = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\(?:([0-3][0-7]{2})|(.))")
_INT = re.compile(r"\b(stack_frame_id|source_line)=(\d+)")


class Source(NamedTuple):
    """A line of source.

    Attributes:
        file: The path of its file, `""` where it is not known.
        line: Its number.
        function: The name of the function that it is in.
    """

    file: str = ""
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}" if self.file else ""


@dataclasses.dataclass(frozen=True)
class Frames:
    """The stack frames of a module: for each its source and the number of that which called it."""

    frames: dict[int, tuple[Source, int]]

    def stack(self, number: int) -> list[Source]:
        """The sources of a frame and of those around it, the innermost first."""
        found: list[Source] = []
        while number in self.frames and len(found) < len(self.frames):
            source, number = self.frames[number]
            found.append(source)
        return found


def unescaped(text: str) -> str:
    r"""What stands between quotes in HLO, where letters that are not ASCII are octal bytes.

    >>> unescaped(r"w[\'caf\303\251\']")
    "w['café']"
    """
    plain = _ESCAPED.sub(lambda its: bytes([int(its[1], 8)]) if its[1] else its[2], text.encode())
    return plain.decode(errors="replace")


def read_frames(text: str) -> Frames:
    """The frames that the head of a module tells of; none where it has no tables."""
    tables = {name: dict(_ROW.findall(rows)) for name, rows in _TABLES.findall(text)}
    files = {key: unescaped(name[1:-1]) for key, name in tables.get("FileNames", {}).items()}
    functions = {key: unescaped(its[1:-1]) for key, its in tables.get("FunctionNames", {}).items()}
    places: dict[str, Source] = {}
    for number, row in tables.get("FileLocations", {}).items():
        its = dict(_FIELD.findall(row))
        file = files.get(its.get("file_name_id", ""), "")
        function = functions.get(its.get("function_name_id", ""), "")
        places[number] = Source(file, int(its.get("line", 0)), function)
    rows = {key: dict(_FIELD.findall(row)) for key, row in tables.get("StackFrames", {}).items()}
    # XLA writes the number of the parent plus one, so that the outermost frame names itself.
    shift = any(its.get("parent_frame_id") == key for key, its in rows.items())
    return Frames(
        {
            int(key): (
                places.get(its.get("file_location_id", ""), Source()),
                int(its.get("parent_frame_id", 0)) - shift,
            )
            for key, its in rows.items()
        }
    )


class Origin(NamedTuple):
    """Where an instruction comes from: the operation of JAX, and the line of the user."""

    operation: str
    source: Source


def origin(metadata: str, frames: Frames) -> Origin:
    """What the metadata of an instruction tell.

    Args:
        metadata: What stands in `metadata={...}`.
        frames: The frames of its module.
    """
    told = {name: unescaped(value) for name, value in _STRING.findall(metadata)}
    numbers = {name: int(value) for name, value in _INT.findall(metadata)}
    stack = frames.stack(numbers.get("stack_frame_id", 0))
    if not stack and "source_file" in told:
        stack = [Source(told["source_file"], numbers.get("source_line", 0))]
    return Origin(operation(told.get("op_name", "")), _of_user(stack))


def operation(name: str) -> str:
    """The last part of the name of an operation, and whether it is of the backward pass.

    >>> operation("jit(step)/transpose(jvp())/while/body/dot_general")
    'dot_general, backward'
    >>> operation("jit(step)/transpose(jvp(mean/reduce_sum))")
    'reduce_sum, backward'
    >>> operation("p['w1']")
    "p['w1']"
    """
    first, _, _ = name.partition(";")
    if "/" not in first or "['" in first:
        return first
    backward = ", backward" * ("transpose(" in first)
    last = first.rpartition("/")[2]
    opened, closed = last.count("("), last.count(")")
    return last.removesuffix(")" * max(closed - opened, 0)) + backward


def _of_user(stack: list[Source]) -> Source:
    """The innermost line that the user wrote; if there is none, the innermost that there is."""
    for source in stack:
        if source.file and not is_library(source.file):
            return source
    named = [source for source in stack if source.file and not source.file.startswith(OWN)]
    return named[0] if named else Source()


def is_library(file: str) -> bool:
    """Whether a file is none of the user's own."""
    return file.startswith(OWN) or any(part in file for part in LIBRARIES)
