"""A progress bar for work that takes long, on a terminal alone. rich loads only when it shows."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Advance: TypeAlias = Callable[[int], None]
"""What is called with what is done since."""

PATIENCE = 1.0
"""Seconds of work after which a bar is shown."""


@contextlib.contextmanager
def progress(what: str, total: int, *, show: bool | None, unit: str = "bytes") -> Iterator[Advance]:
    """A bar on the standard error that is gone when the work is done.

    Args:
        what: What is done: `"placing"`.
        total: The bytes in all, or another number.
        show: Whether to show it; None does on a terminal, if the work takes longer than a second.
        unit: What is counted.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield _nothing
        return
    with contextlib.ExitStack() as stack:
        patience = PATIENCE if show is None and unit == "bytes" else 0.0
        bar = _Bar(what, total, stack, patience, unit)
        bar(0)
        yield bar


class _Bar:
    """A bar that shows itself once the work has taken a while."""

    def __init__(
        self, what: str, total: int, stack: contextlib.ExitStack, patience: float, unit: str
    ) -> None:
        self._what, self._total, self._stack, self._unit = what, total, stack, unit
        self._from = time.monotonic() + patience
        self._done = 0
        self._shown: tuple[Any, Any] | None = None

    def __call__(self, more: int) -> None:
        self._done += more
        if self._shown is None and time.monotonic() >= self._from:
            self._shown = self._start()
        if self._shown is not None:
            bar, task = self._shown
            bar.update(task, completed=self._done)

    def _start(self) -> tuple[Any, Any]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        counted = TextColumn("{task.completed} of {task.total} " + self._unit)
        done = DownloadColumn() if self._unit == "bytes" else counted
        columns = (TextColumn("{task.description}"), BarColumn(), done)
        console = Console(stderr=True)
        bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self._stack.enter_context(bar)
        return bar, bar.add_task(self._what, total=self._total)


def _nothing(_: int) -> None:
    """No bar."""


@contextlib.contextmanager
def waiting(what: str, *, show: bool | None) -> Iterator[None]:
    """What is being done and for how long, for work that cannot tell how far it is.

    Args:
        what: What is done: `"compiling"`.
        show: Whether to show it; None does on a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=None)
        yield
