"""Tests that compile in half the time, and programs of several devices that end in any case."""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import sys
import threading
from collections.abc import Iterator

import jax

# What runs once compiles so in half the time.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
STUCK = 3
"""The code with which a run of tests ends where a program of several devices does not."""


@contextlib.contextmanager
def ending(seconds: float = 120) -> Iterator[None]:
    """End the whole run if what is within takes longer: nothing else stops devices that wait."""
    timer = threading.Timer(seconds, _stop, (seconds,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _stop(seconds: float) -> None:
    where = sys.__stderr__ or sys.stderr
    print(f"stuck for {seconds} seconds", file=where, flush=True)
    faulthandler.dump_traceback(where)
    os._exit(STUCK)
