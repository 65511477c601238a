"""What benchmarks share: times that can be compared, their options, their table."""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

SHORTEST_TURN = 1e-3
"""Seconds that one turn of a function lasts at least, many times what reading the clock costs."""


def best_times(functions: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The least time of one call of each function, in microseconds.

    The functions take turns, so that a busy moment of the machine hits all of them, and each
    round starts with another one. What one leaves behind, such as memory given back to the system,
    is made good by a call that does not count.
    """
    turns = [(function, _calls_in_a_turn(function)) for function in functions]
    best = [float("inf")] * len(turns)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for start in range(rounds):
            for number in range(len(turns)):
                index = (start + number) % len(turns)
                best[index] = min(best[index], _turn(*turns[index]))
    finally:
        if collecting:
            gc.enable()
    return [seconds * 1e6 for seconds in best]


def _turn(function: Callable[[], object], calls: int) -> float:
    function()  # also what is done once only: compiling, filling caches
    start = time.perf_counter()
    for _ in itertools.repeat(None, calls):
        function()
    return (time.perf_counter() - start) / calls


def _calls_in_a_turn(function: Callable[[], object]) -> int:
    return max(1, round(SHORTEST_TURN / min(_turn(function, 1) for _ in range(5))))


def mebibytes(compiled: Any) -> float:
    """What XLA says that temporaries and outputs of a compiled function take."""
    its = compiled.memory_analysis()
    return (its.temp_size_in_bytes + its.output_size_in_bytes) / 2**20


def options(description: str) -> argparse.Namespace:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick", action="store_true", help="only see whether it runs; the times mean nothing"
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if a goal is missed (quiet machine only)"
    )
    return parser.parse_args()


def machine(*packages: str) -> str:
    """What the times were taken on."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{system}; Python {platform.python_version()}, {versions}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for row in (head, rule, *rows):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        print(f"| {' | '.join(cells)} |")


def finish(missed: Sequence[str], *, check: bool) -> None:
    """Tell the goals that were missed, and fail over them if that was asked for."""
    print("\n" + ("Missed: " + "; ".join(missed) if missed else "Every goal is met."))
    sys.exit(1 if missed and check else 0)
