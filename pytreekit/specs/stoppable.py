"""Searches for regular expressions in a process of their own, which can be stopped.

`re` searches in one go: neither another thread nor a timer can interrupt it everywhere (signals
reach the main thread alone, and not on all systems), so that one that backtracks without end would
hang the program.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Order(NamedTuple):
    """An expression, and the texts to search it in; None for those that all orders share."""

    regex: re.Pattern[str]
    texts: Sequence[str] | None = None


class Stopped(Exception):  # noqa: N818  it is made into a fault
    """No answer came for an order: its index, and why."""

    def __init__(self, index: int, fact: str) -> None:
        super().__init__(fact)
        self.index, self.fact = index, fact


_SEARCHES = """
import json, re, sys
shared, orders = json.load(sys.stdin)
for pattern, flags, texts in orders:
    search = re.compile(pattern, flags).search
    texts = shared if texts is None else texts
    print(json.dumps([index for index, text in enumerate(texts) if search(text)]), flush=True)
"""


def searched(shared: Sequence[str], orders: Sequence[Order], seconds: float) -> list[list[int]]:
    """The indices of the texts in which each expression is found.

    Args:
        shared: The texts of orders without any of their own.
        orders: What to search for; with none, no process is started.
        seconds: The time for all of it, in seconds.

    Raises:
        Stopped: If that is not enough, or no process can be started.
    """
    if not orders:
        return []
    import json
    import subprocess

    if getattr(sys, "frozen", False) or not sys.executable:
        raise Stopped(0, "may search without end, and there is no Python here to try it in")
    rows = [[regex.pattern, regex.flags & ~re.DEBUG, texts] for regex, texts in orders]
    command = [sys.executable, "-I", "-S", "-c", _SEARCHES]
    given = json.dumps([shared, rows]).encode()
    try:
        run = subprocess.run(
            command, input=given, capture_output=True, timeout=seconds, check=False
        )
        answers, fact = run.stdout, "may search without end, and trying that failed"
    except subprocess.TimeoutExpired as stopped:
        answers = stopped.stdout or b""
        fact = f"its search did not end within {seconds:g} s: it backtracks without end"
    except OSError as error:
        answers, fact = b"", f"may search without end, and trying that failed: {error}"
    found = [
        json.loads(line) for line in answers.decode().splitlines(keepends=True) if line[-1:] == "\n"
    ]
    if len(found) < len(orders):
        raise Stopped(len(found), fact)
    return found
