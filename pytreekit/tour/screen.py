"""What the tour writes on: colour and a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

INDENT = "    "
LINES_OF_PROGRESS = 5
"""How many lines tell of progress where there is no terminal to redraw."""


class Screen:
    """A console that takes texts as they are: brackets are no markup, and no line is re-wrapped.

    rich decides about colour, from the terminal, `NO_COLOR` and `FORCE_COLOR`.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._headings = 0

    def say(self, text: str = "", style: str = "") -> None:
        """One or more lines of text."""
        self._console.print(
            text, style=style or None, markup=False, highlight=False, emoji=False, soft_wrap=True
        )

    def heading(self, text: str) -> None:
        """The start of the next step, numbered."""
        self._headings += 1
        self.say(f"\n{self._headings}. {text}\n", style="bold cyan")

    def quote(self, text: str, style: str = "") -> None:
        """Code, or an error, indented."""
        # Whether spaces at the end of a line are kept depends on the version of rich.
        lines = [line.rstrip() for line in text.split("\n")]
        self.say(textwrap.indent("\n".join(lines), INDENT), style)

    def source(self, function: Callable[..., Any]) -> None:
        """The source of a function that the tour runs."""
        self.quote(inspect.getsource(function), style="green")

    def table(self, value: Any) -> None:
        """A value that shows itself as a table: rich on a terminal, else its plain text."""
        if self._console.is_terminal:
            self._console.print(value)
        else:
            self.say(str(value))

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[str], None]]:
        """Long work: call what is given once for each step that is done, with a note on it."""
        # FORCE_COLOR makes a pipe count as a terminal, but no bar can be redrawn there.
        if self._console.is_interactive and self._console.file.isatty():
            with self._bar() as bar:
                task = bar.add_task(what, total=total, note="")
                yield lambda note: bar.update(task, advance=1, note=note)
        else:
            yield self._lines(what, total)

    def _bar(self) -> Progress:
        columns = (MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
        return Progress(
            TextColumn(INDENT + "{task.description}"), BarColumn(), *columns, console=self._console
        )

    def _lines(self, what: str, total: int) -> Callable[[str], None]:
        done = 0
        every = max(total // LINES_OF_PROGRESS, 1)

        def advance(note: str) -> None:
            nonlocal done
            done += 1
            if done % every == 0 or done == total:
                self.say(f"{INDENT}{what} {done:{len(str(total))}}/{total}   {note}")

        return advance
