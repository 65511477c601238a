"""What commands answer: tables and texts for people, JSON for programs, faults for both."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from ..faults import Fault
from ..files import writing
from ..files.opening import said
from ..files.reading import STANDARD_INPUT, Stored, from_standard_input, stored
from ..show import folding, table
from ..show.errors import SpecError
from .saying import BAD_USAGE, line, plain, say

DONE, FAULTS = 0, 1

NOT_THERE = "PTK801"
"""The code of what is not there: to name it is wrong usage."""

MOST_COLOURED = 2_000
"""Rows of a table in colour: that takes long."""

LEAST_WIDTH = 60
"""Columns of a table on a terminal: in fewer, cells would be left out without a word."""

BUNDLED = "gpt2"
"""The manifest, and the rules, that come with the package."""


class Unusable(Exception):  # noqa: N818  it is told in one line
    """What cannot be used, such as a file that cannot be read or written, and why.

    Args:
        why: The reason in one sentence.
        code: The exit code.
        traceback: Where in the user's own code that came from.
    """

    def __init__(self, why: str, code: int = BAD_USAGE, traceback: str = "") -> None:
        super().__init__(why)
        self.code = code
        self.traceback = traceback


class Answer:
    """What a command has to say, in the form that was asked for."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        """Begin to answer.

        Args:
            command: The name of the command.
            as_json: Whether all of it is one object of JSON.
        """
        self._command, self._as_json = command, as_json
        self._data: dict[str, Any] = {"command": command}

    def give(self, show: Callable[[], int], *, x64: bool = True) -> int:
        """Run what shows all of it, and tell its faults.

        Args:
            show: What returns the exit code.
            x64: Whether dtypes are as files have them, and none is made shorter.

        Returns:
            The exit code.
        """
        faults: Sequence[Fault] = ()
        try:
            with _for_files() if x64 else contextlib.nullcontext():
                code = show()
        except SpecError as error:
            faults = error.faults
            code = BAD_USAGE if {fault.code for fault in faults} == {NOT_THERE} else FAULTS
            notes = list(getattr(error, "__notes__", ()))
            self._data.update({"said": notes} if notes else {})
            if not self._as_json:
                say("\n".join([str(error), *notes]), error=True)
        except Unusable as error:
            code = error.code
            self._unusable(error)
        if self._as_json:
            self._data["faults"] = [fault_data(fault) for fault in faults]
            print(_in_rows(self._data))
        return code

    def _unusable(self, error: Unusable) -> None:
        told = {"error": str(error), "traceback": error.traceback}
        self._data.update({name: text for name, text in told.items() if text})
        if not self._as_json:
            lines = [f"pytreekit {self._command}: {error}", error.traceback]
            say("\n".join(filter(None, lines)), error=True)

    def data(self, **its: Any) -> None:
        """Add to what programs are told."""
        self._data.update(its)

    def more(self, make: Callable[[], Mapping[str, Any]]) -> None:
        """Add what takes a while to make, if it is programs that are told."""
        if self._as_json:
            self._data.update(make())

    def text(self, text: Any) -> None:
        """Tell people something."""
        if not self._as_json:
            say(text)

    def table(
        self,
        head: table.Head,
        rows: Sequence[tuple[str, ...]],
        column: int = 0,
        styles: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Show people a table, in colour where it goes to a terminal and is not very long.

        Args:
            head: Its title and its columns.
            rows: Its cells.
            column: The column that holds paths or patterns.
            styles: For some columns, the style of words in them.
        """
        if self._as_json:
            return
        # First: what is escaped is wider.
        safe = [tuple(map(line, row)) for row in rows]
        safe = [(*row[:column], folding.told(row[column]), *row[column + 1 :]) for row in safe]
        named = head._replace(title=plain(head.title))
        if not sys.stdout.isatty() or len(rows) > MOST_COLOURED:
            say(folding.plain(named, safe, column))
            return
        from rich.console import Console
        from rich.text import Text

        console = Console()
        console.width = max(console.width, LEAST_WIDTH)
        console.print(Text(named.title, style="table.title"))
        console.print(table.rich(named._replace(title=""), safe, styles or {}))


@contextlib.contextmanager
def _for_files() -> Iterator[None]:
    """Keep dtypes as files have them, and look for no garbage in cycles.

    That is looked for ever again in all that there is, a third of the time for a large tree, and
    neither trees of files nor what is said of them have any.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with jax.enable_x64(True):
            yield
    finally:
        if was_enabled:
            gc.enable()


def _in_rows(data: Mapping[str, Any]) -> str:
    """An object of JSON with a line for each entry of its lists: to indent all takes far longer."""
    parts = (f" {json.dumps(key)}: {_in_row(value)}" for key, value in data.items())
    return "{\n" + ",\n".join(parts) + "\n}"


def _in_row(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n ]"


def fault_data(fault: Fault) -> dict[str, Any]:
    """A fault for programs."""
    return {"code": fault.code, "title": fault.title, **dataclasses.asdict(fault)}


def opened(file: str | None) -> Stored:
    """The tree that a command is to look at.

    Args:
        file: Its path, `"-"` for the standard input, None for that of GPT-2.

    Raises:
        SpecError: What `ptk.read_shapes` raises.
        Unusable: If the path is empty: to Python that is the folder in which it runs.
    """
    if file == "":
        raise Unusable("the name of a file is empty")
    if file == STANDARD_INPUT:
        return from_standard_input()
    return stored(bundled(".json") if file is None else Path(file))


def bundled(suffix: str) -> Path:
    """The path of one of the bundled files."""
    return Path(__file__).with_name(f"{BUNDLED}{suffix}")


def write(file: str, text: str) -> None:
    """Write a file that was asked for, and say so.

    Raises:
        Unusable: If that cannot be done.
    """
    if file == STANDARD_INPUT:
        raise Unusable("cannot write '-': name a file")
    try:
        writing.put(Path(file), text)
    except (OSError, ValueError) as error:  # a ValueError of a zero byte in its name
        raise Unusable(f"cannot write {file!r}: {said(error)}") from None
    say(f"wrote {file}", error=True)
