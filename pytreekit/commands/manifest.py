"""Shape manifests: a tree of shapes and dtypes as JSON, read into `jax.ShapeDtypeStruct`s."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..show import values
from ..specs.rule_files import Unreadable, from_json

MOST_BYTES = 100_000_000
"""Bytes of a file: what is longer holds more than shapes."""

DEEPEST = 100
"""How deep a tree may be nested."""

MOST_DIMENSIONS = 64
MOST_ELEMENTS = 2**63 - 1

MOST_TOLD = 8
"""Faults of a manifest that are told; the rest is counted."""

BUNDLED = "gpt2"
"""The manifest, and the rules, that come with the package."""

STANDARD_INPUT = "-"

_KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


class BadInput(ValueError):  # noqa: N818  it is told in one line, as a word to who called
    """Something that a command was given and cannot use: why."""


def bundled(suffix: str) -> Path:
    """The path of one of the bundled files."""
    return Path(__file__).with_name(f"{BUNDLED}{suffix}")


def read_manifest(file: str | None) -> Any:
    """The tree of a manifest, of `jax.ShapeDtypeStruct`s.

    Args:
        file: Its path, `"-"` for the standard input, None for that of GPT-2.

    Raises:
        BadInput: If there is none, or it is no manifest.
    """
    told = "the standard input" if file == STANDARD_INPUT else repr(file)
    data = _data(_text(file, told), told)
    faults: list[str] = []
    tree = _node(data, "", faults, 0)
    if faults:
        more = len(faults) - MOST_TOLD
        lines = faults[:MOST_TOLD] + [f"... and {more} more"] * (more > 0)
        raise BadInput("\n  ".join([f"{told} is no shape manifest:", *lines]))
    if not jax.tree.leaves(tree):
        raise BadInput(f"{told} has no arrays in it")
    return tree


def _text(file: str | None, told: str) -> str:
    try:
        if file == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with (bundled(".json") if file is None else Path(file)).open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BadInput(f"{told} has more than {MOST_BYTES:,} bytes, it is no shape manifest")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"cannot read {told}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{told} is no UTF-8: {error.reason} at byte {error.start}") from None
    except ValueError as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"cannot read {told}: {error}") from None  # such as a zero byte in its name


def _data(text: str, told: str) -> Any:
    try:
        return from_json(text, told)
    except Unreadable as error:
        raise BadInput(error.fact) from None
    except RecursionError:
        raise BadInput(f"{told} is nested too deep") from None


def _node(data: Any, place: str, faults: list[str], depth: int) -> Any:
    """A subtree, or a leaf; what is wrong is added to the faults."""
    if depth > DEEPEST:
        faults.append(f"{place[:40]} ... is nested more than {DEEPEST} deep")
        return None

    def below(key: Any, value: Any) -> Any:
        return _node(value, f"{place}/{key}" if place else str(key), faults, depth + 1)

    if isinstance(data, dict):
        return {key: below(key, value) for key, value in data.items()}
    if isinstance(data, list) and data and all(isinstance(value, dict) for value in data):
        return [below(number, value) for number, value in enumerate(data)]
    fact = _wrong(data)
    if fact:
        faults.append(f"{place or 'the root'} {fact}")
        return None
    return jax.ShapeDtypeStruct(tuple(data[0]), _dtype(data[1]))


def _wrong(data: Any) -> str:
    """What is wrong with a leaf, "" for nothing."""
    is_leaf = isinstance(data, list) and len(data) == len(("shape", "dtype"))
    if not is_leaf or not isinstance(data[0], list) or not isinstance(data[1], str):
        return f"is {values.spec(data, 40)}, it must be [shape, dtype], as in [[4, 8], 'float32']"
    shape, dtype = data
    if not all(type(size) is int and size >= 0 for size in shape):
        return f"has the shape {values.spec(shape, 40)}, sizes are ints of 0 or more"
    if len(shape) > MOST_DIMENSIONS:
        return f"has {len(shape)} dimensions, {MOST_DIMENSIONS} are the most"
    if math.prod(size for size in shape if size) > MOST_ELEMENTS:
        return f"has the shape {values.spec(shape, 40)}: no machine counts as many elements"
    return "" if _dtype(dtype) is not None else f"has no dtype {values.spec(dtype, 24)}"


@functools.cache
def _dtype(name: str) -> Any:
    """A dtype by its name, None where JAX has none of that name."""
    if name in _KEYS:
        make: Callable[[], Any] = functools.partial(jax.random.key, 0, impl=_KEYS[name])
        return jax.eval_shape(make).dtype
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        return None
    is_number = jax.numpy.issubdtype(dtype, np.number) or dtype == np.bool_
    return dtype if is_number and str(dtype) == name else None
