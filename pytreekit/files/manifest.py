"""Shape manifests: a tree of shapes and dtypes as JSON, read into `jax.ShapeDtypeStruct`s."""

from __future__ import annotations

from typing import Any

import jax

from ..faults import Fault
from .arrays import dtype_of, wrong_shape
from .opening import MOST_FAULTS, brief, fault, refuse, refuse_all, wrong_path

DEEPEST = 100
"""How deep a tree may be nested."""

LONGEST_DTYPE = 40
"""Characters of the name of a dtype."""


def read(data: Any, name: str) -> Any:
    """The tree that a manifest describes.

    Args:
        data: What is in it: `{path: [shape, dtype]}`, flat or nested.
        name: What it is called.

    Raises:
        SpecError: PTK804, if it is nested too deep; PTK805, for each entry that is no array, and if
            there is none at all.
    """
    faults: list[Fault] = []
    tree = _node(data, "", faults, name)
    refuse_all(faults, name)
    if not jax.tree.leaves(tree):
        refuse(fault("PTK805", name, "has no arrays in it"), name)
    return tree


def _node(data: Any, place: str, faults: list[Fault], name: str, depth: int = 0) -> Any:
    """A subtree, or a leaf; what is wrong is added to the faults."""
    if len(faults) >= MOST_FAULTS:
        return None
    if depth > DEEPEST:
        faults.append(fault("PTK804", name, f"is nested more than {DEEPEST} deep", place))
        return None

    def below(key: Any, value: Any) -> Any:
        return _node(value, f"{place}/{key}" if place else str(key), faults, name, depth + 1)

    if isinstance(data, dict):
        return {key: below(key, value) for key, value in data.items()}
    if isinstance(data, list) and data and all(isinstance(value, dict) for value in data):
        return [below(number, value) for number, value in enumerate(data)]
    fact = wrong_path(place) or _wrong(data)
    if fact:
        faults.append(fault("PTK805", name, fact, place))
        return None
    return jax.ShapeDtypeStruct(tuple(data[0]), dtype_of(data[1]))


def _wrong(data: Any) -> str:
    """What is wrong with a leaf, `""` for nothing."""
    is_leaf = isinstance(data, list) and len(data) == len(("shape", "dtype"))
    if not is_leaf or not isinstance(data[0], list) or not isinstance(data[1], str):
        return f"is {brief(data)}, it must be [shape, dtype], as in [[4, 8], 'float32']"
    shape, dtype = data
    known = len(dtype) <= LONGEST_DTYPE and dtype_of(dtype) is not None
    return wrong_shape(shape) or ("" if known else f"has no dtype {brief(dtype)}")
