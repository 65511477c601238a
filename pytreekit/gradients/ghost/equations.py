"""The operations of a jaxpr, also those inside of others, and the lines of source they are from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from jax.extend.core import JaxprEqn, jaxprs_in_params
from jax.extend.source_info_util import summarize

_OWN = PurePath(__file__).parents[2]
"""Where this package is."""


def equations(jaxpr: Any) -> Iterator[JaxprEqn]:
    """All operations, each before those inside of it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def source(equation: JaxprEqn) -> str:
    """Where an operation is from, `"model.py:12 (loss)"`, `""` if that is not known."""
    return read(summarize(equation.source_info))


def read(summary: str) -> str:
    """A place as JAX gives it, `"/a/model.py:12:8 (make.<locals>.loss)"`, in short."""
    found = re.fullmatch(r"(.+?):(\d+)(?::\d+)? \((.+)\)", summary)
    if found is None:
        return ""
    path, line, function = found.groups()
    if _OWN in PurePath(path).parents:  # what is made of operations of the user
        return ""
    return place(path, int(line), function)


def place(path: str, line: int, function: str) -> str:
    """A line of source, in short."""
    return f"{PurePath(path).name}:{line} ({function.rpartition('<locals>.')[2]})"
