"""What commands answer: tables and texts for people, JSON for programs, faults for both."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from ..faults import Fault
from ..files import writing
from ..files.opening import said
from ..files.reading import STANDARD_INPUT, Stored, from_standard_input, stored
from ..show import folding, table
from ..show.errors import SpecError

DONE, FAULTS, BAD_USAGE = 0, 1, 2

NOT_THERE = "PTK801"
"""The code of what is not there: to name it is wrong usage."""

BUNDLED = "gpt2"
"""The manifest, and the rules, that come with the package."""


class Unusable(Exception):  # noqa: N818  it is told in one line
    """A file that cannot be read or written, and why."""


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
            with jax.enable_x64(True) if x64 else contextlib.nullcontext():
                code = show()
        except SpecError as error:
            faults = error.faults
            code = BAD_USAGE if {fault.code for fault in faults} == {NOT_THERE} else FAULTS
            notes = list(getattr(error, "__notes__", ()))
            self._data.update({"said": notes} if notes else {})
            if not self._as_json:
                say("\n".join([str(error), *notes]), error=True)
        except Unusable as error:
            say(f"pytreekit {self._command}: {error}", error=True)
            return BAD_USAGE
        if self._as_json:
            self._data["faults"] = [fault_data(fault) for fault in faults]
            print(json.dumps(self._data, indent=1))
        return code

    def data(self, **its: Any) -> None:
        """Add to what programs are told."""
        self._data.update(its)

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
        """Show people a table, in colour where it goes to a terminal.

        Args:
            head: Its title and its columns.
            rows: Its cells.
            column: The column that holds paths or patterns.
            styles: For some columns, the style of words in them.
        """
        if self._as_json:
            return
        if not sys.stdout.isatty():
            say(folding.plain(head, rows, column))
            return
        from rich.console import Console

        safe = [tuple(map(plain, row)) for row in rows]
        named = head._replace(title=plain(head.title))
        Console().print(table.rich(named, safe, styles or {}))


def say(text: Any, *, error: bool = False) -> None:
    """Print a text; what a terminal could take for more than text is escaped, as keys are any."""
    if error:
        sys.stdout.flush()  # so that the two streams come in order where both are shown
    print(plain(text), file=sys.stderr if error else sys.stdout)


def plain(text: Any) -> str:
    """A text in which no character can speak to a terminal."""
    return re.sub(r"[^\n -~]", lambda found: ascii(found[0])[1:-1], str(text))


def fault_data(fault: Fault) -> dict[str, Any]:
    """A fault for programs."""
    return {"code": fault.code, "title": fault.title, **dataclasses.asdict(fault)}


def opened(file: str | None) -> Stored:
    """The tree that a command is to look at.

    Args:
        file: Its path, `"-"` for the standard input, None for that of GPT-2.

    Raises:
        SpecError: What `ptk.read_shapes` raises.
    """
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
    try:
        writing.put(Path(file), text)
    except (OSError, ValueError) as error:  # a ValueError of a zero byte in its name
        raise Unusable(f"cannot write {file!r}: {said(error)}") from None
    say(f"wrote {file}", error=True)
