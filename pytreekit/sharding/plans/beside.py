"""Another tree beside a plan: structure, shapes and dtypes, all that differs at once."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from ...faults import Fault
from ...show import values as shown
from ...trees.diff import differences
from ...trees.difference import as_fault
from ...trees.leaves import is_number
from ...trees.sorts import check_sorts
from ..lazy import typed
from .planned import Planned

PLAN = "plan"
"""What messages call the plan."""


class Beside(NamedTuple):
    """The leaves of a tree beside those of a plan, and what is wrong with them.

    Attributes:
        leaves: The leaves, none where the tree is of another structure.
        faults: PTK205 for each difference.
    """

    leaves: list[Any]
    faults: list[Fault]


def beside(its: Planned, tree: Any, name: str, *, any_dtype: bool = False) -> Beside:
    """Hold a tree against a plan.

    Args:
        its: The plan.
        tree: The tree: of arrays, of shapes, or of what is read like an array when it is needed.
        name: What messages call it.
        any_dtype: Whether dtypes may differ.
    """
    sorts = check_sorts(tree, name)
    if sorts:
        return Beside([], list(sorts))
    leaves, structure = jax.tree.flatten(tree)
    if structure == its.structure:
        leaves = [number_as(*pair) for pair in zip(its.parts, leaves, strict=True)]
        faults = [
            fault
            for number, leaf in enumerate(leaves)
            for fault in leaf_faults(its, number, leaf, name, any_dtype=any_dtype)
        ]
        return Beside(leaves, faults)
    parts = dict(jax.tree.leaves_with_path(its.tree(its.parts)))
    rows = jax.tree.leaves_with_path(tree)
    seen = structure.unflatten(seen_as(number_as(parts.get(path), leaf)) for path, leaf in rows)
    found = differences(its.tree(its.parts), seen)
    told = [as_fault(one, PLAN, name) for one in found if not (any_dtype and one.kind == "dtype")]
    return Beside([], told or [Fault("PTK205", name, "", PLAN, "", "")])


def leaf_faults(
    its: Planned, number: int, leaf: Any, name: str, *, any_dtype: bool = False
) -> list[Fault]:
    """PTK205 for each difference between a leaf of a plan and what is to be in its place."""
    part, seen = its.parts[number], seen_as(leaf)
    if _alike(part, seen, any_dtype=any_dtype):
        return []
    place = its.places[number].path
    return [
        as_fault(dataclasses.replace(one, path=place + one.path), PLAN, name)
        for one in differences(part, seen)
        if not (any_dtype and one.kind == "dtype")
    ]


def number_as(part: Any, leaf: Any) -> Any:
    """A Python number as the array that JAX makes of it, where the plan has one; all else as it is.

    `jax.eval_shape` tells of a function that returns 0 what `jax.jit` makes of that: an array.
    """
    if not isinstance(part, jax.ShapeDtypeStruct) or not is_number(leaf):
        return leaf
    aval = shown.typeof(leaf)
    return leaf if aval is None else np.asarray(leaf, aval.dtype)


def seen_as(leaf: Any) -> Any:
    """An array, or what is read like one, by its shape and dtype; all else as it is."""
    its = typed(leaf)
    return leaf if its is None else jax.ShapeDtypeStruct(*its)


def _alike(part: Any, seen: Any, *, any_dtype: bool) -> bool:
    if part is seen:
        return True
    if not isinstance(part, jax.ShapeDtypeStruct) or not isinstance(seen, jax.ShapeDtypeStruct):
        return False
    return part.shape == seen.shape and (any_dtype or part.dtype == seen.dtype)
