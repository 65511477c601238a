"""Leaves, specs and functions in a few characters: dtype and shape, never values."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

_ADDRESS = re.compile(r"<(?:[\w.<>]*\.)?(\w+) object at 0x\w+>")
_FUNCTION = re.compile(r"<function (?:[\w.<>]*\.)?(\w+|<lambda>) at 0x\w+>")
_SHORT_DTYPE = (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c"))


def leaf(value: Any) -> str:
    """A leaf as `f32[32,8]`; what is no JAX type by its own type.

    >>> import numpy as np
    >>> leaf(np.zeros((32, 8), np.float32)), leaf("relu")
    ('f32[32,8]', 'str')
    """
    aval = typeof(value)
    if aval is not None and not isinstance(value, np.ndarray):
        return array(aval.dtype, aval.shape)
    if isinstance(value, np.ndarray):  # by its own dtype, of which JAX may make a shorter one
        kind = "masked " if isinstance(value, np.ma.MaskedArray) else ""
        return kind + array(value.dtype, value.shape)
    shape = getattr(value, "shape", None)
    sizes = shape_text(shape) if isinstance(shape, tuple) else ""
    return type(value).__name__ + sizes


def typeof(value: Any) -> Any:
    """The abstract value that JAX gives `value`, or None where it refuses it."""
    try:
        aval = jax.typeof(value)
        known = hasattr(aval, "shape") and hasattr(aval, "dtype")  # tokens have neither
    except Exception:  # noqa: BLE001  a user's object may raise anything when asked for its type
        if isinstance(value, jax.ShapeDtypeStruct) and value.sharding is not None:
            return typeof(value.update(sharding=None))  # the sharding is refused, not the shape
        return None
    return aval if known else None


def array(dtype: Any, shape: Sequence[Any]) -> str:
    """A dtype and a shape as `f32[32,8]`."""
    return short_dtype(str(dtype)) + shape_text(shape)


def shape_text(shape: Sequence[Any]) -> str:
    """A shape as `[32,8]`."""
    return f"[{','.join(map(str, shape))}]"


@functools.cache
def short_dtype(name: str) -> str:
    """A dtype's name in JAX's own short form: `f32`, `i32`, `bf16`, `key<fry>`."""
    if name == "bfloat16":
        return "bf16"
    for long, short in _SHORT_DTYPE:
        if re.fullmatch(rf"{long}\d.*", name):
            return name.replace(long, short, 1)
    return name


def tree(node: Any, size: int | None = None) -> str:
    """A container by its type and number of entries: `dict of 3`; None as such."""
    if node is None:
        return "None"
    return type(node).__name__ if size is None else f"{type(node).__name__} of {size}"


def spec(value: Any, width: int = 52) -> str:
    """A spec on one line, cut at `width` characters."""
    try:
        line = re.sub(r"\s+", " ", _ADDRESS.sub(r"<\1>", _FUNCTION.sub(r"\1", repr(value))))
    except Exception:  # noqa: BLE001  a user's __repr__ must not hide the fault it appears in
        line = type(value).__name__
    return _cut(line, width)


def error(raised: Exception, width: int = 52) -> str:
    """An error by its type and the first line of what it says, cut at `width` characters."""
    said = str(raised).strip().partition("\n")[0]
    return _cut(re.sub(r"\s+", " ", f"{type(raised).__name__}: {said}"), width)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 4] + " ..."


def function(fun: Any) -> str:
    """The name of a callable: a function, a `functools.partial` of one, or an object's type."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else type(fun).__name__


def kind(value: Any) -> str:
    """What a value is, in words: `a str`, `an int`, `None`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def listing(names: Sequence[str], most: int = 6) -> str:
    """Names with commas, the rest counted: `'a', 'b' and 9 more`."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def count(number: int, one: str, many: str = "") -> str:
    """A number of things: `1 entry`, `2 entries`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def leaf_or_tree(node: Any) -> str:
    """A leaf by dtype and shape, a container by its type and number of leaves."""
    if node is None:
        return "None"
    leaves, structure = jax.tree.flatten(node)
    if jax.tree_util.treedef_is_leaf(structure):
        return leaf(node)
    return f"{type(node).__name__} with {count(len(leaves), 'leaf', 'leaves')}"


def without_axis(value: Any, axis: int) -> str:
    """An array as it is without one of its axes: what one example sees of it."""
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    aval = typeof(value)
    return type(value).__name__ + shape_text(shape) if aval is None else array(aval.dtype, shape)


def of_one(value: Any, axis: int) -> str:
    """An array with size one on one of its axes: one example as a batch of one."""
    return array(value.dtype, (*value.shape[:axis], 1, *value.shape[axis + 1 :]))


def with_axis(value: Any, axis: int, size: Any) -> str:
    """An array as it is with one more axis: what all examples make of it together."""
    aval = jax.typeof(value)
    return array(aval.dtype, (*aval.shape[:axis], size, *aval.shape[axis:]))
