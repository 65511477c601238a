"""Options with parts, such as `data=4,model=2`, read without JAX."""

from __future__ import annotations

import argparse
import math
import re

MOST_DIGITS = 9
"""Digits of the size of a mesh axis: there are no such machines."""


def mesh(text: str) -> dict[str, int]:
    """The axes of a mesh and their sizes: `data=4,model=2`.

    Raises:
        ArgumentTypeError: If it is no such text.
    """
    sizes: dict[str, int] = {}
    for part in _parts(text, "data=4,model=2"):
        name, _, size = (word.strip() for word in part.partition("="))
        if not name or not size:
            raise argparse.ArgumentTypeError(f"{part!a} is no axis and its size, as in data=4")
        if name in sizes:
            raise argparse.ArgumentTypeError(f"the axis {name!a} is there twice")
        if not _is_number(size) or len(size) > MOST_DIGITS or int(size) < 1:
            fact = f"the size of {name!a} must be a number from 1, this is {size!a}"
            raise argparse.ArgumentTypeError(fact)
        sizes[name] = int(size)
    return sizes


def logical(text: str) -> list[tuple[str, str | tuple[str, ...] | None]]:
    """Logical names and the mesh axes that they may have: `embed=fsdp,batch=data+fsdp,norm=`.

    Raises:
        ArgumentTypeError: If it is no such text.
    """
    rows: list[tuple[str, str | tuple[str, ...] | None]] = []
    for part in _parts(text, "embed=fsdp,batch=data+fsdp,norm="):
        name, equals, axes = (word.strip() for word in part.partition("="))
        listed = [axis.strip() for axis in axes.split("+")]
        if not name or not equals or (axes and not all(listed)):
            fact = f"{part!a} is no logical name and its mesh axes, as in batch=data+fsdp"
            raise argparse.ArgumentTypeError(fact)
        rows.append((name, tuple(listed) if axes else None))
    return rows


def stacked(text: str) -> tuple[str, int]:
    """A glob and the dimension in which its leaves have their layers: `layers/**=0`.

    Raises:
        ArgumentTypeError: If it is no such text.
    """
    glob, equals, dimension = (word.strip() for word in text.rpartition("="))
    digits = dimension.removeprefix("-")
    if not glob or not equals or not _is_number(digits) or len(digits) > MOST_DIGITS:
        fact = f"{text!a} is no glob and a dimension, as in 'layers/**=0'"
        raise argparse.ArgumentTypeError(fact)
    return glob, int(dimension)


def _parts(text: str, example: str) -> list[str]:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"it is empty, write it as {example}")
    return text.split(",")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def number(text: str) -> int:
    """A number from 0.

    Raises:
        ArgumentTypeError: If it is no such text.
    """
    if not _is_number(text) or len(text) > MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!a} is no number from 0")
    return int(text)


def size(text: str) -> float:
    """A number of bytes above 0, with or without a unit: `80e9`, `80GB`, `80GiB`.

    Raises:
        ArgumentTypeError: If it is no such text.
    """
    found = _SIZE.fullmatch(text.strip())
    number = float(found[1]) if found else 0.0
    if found and found[2]:
        number *= (1024 if found[3] else 1000) ** (1 + _UNITS.index(found[2].upper()))
    if not 0 < number < math.inf:
        fact = f"{text!a} is no number of bytes above 0, as in 80e9, 80GB or 80GiB"
        raise argparse.ArgumentTypeError(fact)
    return number


def seconds(text: str) -> float:
    """A number of seconds from 0.

    Raises:
        ArgumentTypeError: If it is no such text.
    """
    found = _NUMBER.fullmatch(text.strip())
    number = float(found[0]) if found else math.inf
    if number == math.inf:
        raise argparse.ArgumentTypeError(f"{text!a} is no number of seconds from 0, as in 1e-6")
    return number


_UNITS = "KMGTP"
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SIZE = re.compile(rf"({_NUMBER.pattern}) ?(?:([{_UNITS}])(i)?)?B?", re.IGNORECASE)
