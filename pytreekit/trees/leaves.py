"""What a leaf is to the tree tools: an array, a number, or else; and how two leaves differ."""

from __future__ import annotations

import functools
import math
import re
from typing import Any, TypeAlias

import jax
import numpy as np

from ..show import values
from . import paths
from .difference import Difference
from .paths import KeyPath

_PACKED = re.compile(r"(?:u?int|float)([124])(?!\d)")
"""Dtypes of which XLA puts several elements into a byte."""

Number: TypeAlias = bool | int | float | complex
"""Python's numbers, of which an array of rank 0 can be made."""


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array: of JAX, keys included, or of NumPy, or an abstract one."""
    if isinstance(leaf, np.generic):
        return not isinstance(leaf, str | bytes)
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def size_in_bytes(leaf: Any) -> int:
    """What an array takes; nothing, for what is none."""
    return bytes_of(math.prod(leaf.shape), leaf.dtype) if is_array(leaf) else 0


def bytes_of(elements: int, dtype: Any) -> int:
    """The bytes of so many elements, as XLA counts them."""
    return -(-elements * _bits(dtype) // 8)


@functools.lru_cache(256)
def _bits(dtype: Any) -> int:
    packed = _PACKED.match(str(dtype))
    return int(packed[1]) if packed else 8 * dtype.itemsize


def is_number(leaf: Any) -> bool:
    """Whether a leaf is a Python number."""
    return isinstance(leaf, Number) and not is_array(leaf)


def told(leaf: Any) -> str:
    """A leaf in short: `f32[3]`, `float`, `'relu'`. Values of arrays and numbers are not shown."""
    return type_told(leaf) if holds_values(leaf) else values.spec(leaf, 40)


def holds_values(leaf: Any) -> bool:
    """Whether a leaf is a number, or like an array: then `diff` looks at its type alone."""
    return is_number(leaf) or _typed(leaf) is not None


def type_told(leaf: Any) -> str:
    """A leaf by its own dtype and shape, or by its type: `f32[3]`, `float`, `str`.

    To JAX a number is an array, and a NumPy array has the dtype that it would get there.
    """
    if is_number(leaf):
        return type(leaf).__name__
    if is_array(leaf) and not isinstance(leaf, np.ma.MaskedArray):
        return values.array(leaf.dtype, leaf.shape)
    return values.leaf(leaf)


def leaf_differences(path: KeyPath, one: Any, other: Any) -> list[Difference]:
    """What differs between two leaves: their kind, else shape and dtype, else what they equal."""
    if one is other:
        return []
    kinds = _differing(one, other)
    if not kinds:
        return []
    here, there = told(one), told(other)
    if kinds == ["leaf"] and here == there:
        here, there = full_name(type(one)), full_name(type(other))
    return [Difference(kind, paths.text(path), here, there) for kind in kinds]


def _differing(one: Any, other: Any) -> list[str]:
    """In what two leaves differ, without any text: most do not."""
    kind = _kind(one)
    if kind is not _kind(other):
        return ["leaf"]
    if kind is not jax.Array:
        if issubclass(kind, Number):
            return []
        if _typed(one) is None or _typed(other) is None:
            return [] if paths.same(one, other) else ["value"]
    shapes = [] if one.shape == other.shape else ["shape"]
    return shapes if paths.same(one.dtype, other.dtype) else [*shapes, "dtype"]


def full_name(kind: type) -> str:
    """A type with its module, where its name alone does not tell it from another."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _kind(leaf: Any) -> type:
    """What a leaf must be alike in: arrays are all of one kind, but for masked ones."""
    if isinstance(leaf, np.ma.MaskedArray):
        return np.ma.MaskedArray
    return jax.Array if is_array(leaf) else type(leaf)


def _typed(leaf: Any) -> tuple[tuple[Any, ...], Any] | None:
    """The shape and dtype of an array, or of what has both as arrays have; None for all else."""
    if isinstance(leaf, str | bytes | type):
        return None
    try:
        shape, dtype = leaf.shape, leaf.dtype
    except Exception:  # noqa: BLE001  a user's object may raise anything when asked
        return None
    return (tuple(shape), dtype) if isinstance(shape, tuple) else None
