"""Another tree beside a plan: structure, shapes and dtypes, all that differs at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ...faults import Fault
from ...show import values as shown
from ...trees.diff import differences
from ...trees.difference import as_fault
from ...trees.leaves import is_number
from ...trees.sorts import check_sorts
from ..lazy import is_of_numbers, typed
from .planned import Planned

PLAN = "plan"
"""What messages call the plan."""


Fits: TypeAlias = Callable[[Any, Any], bool]
"""Whether a dtype that is there may stand for the one that is wanted."""


class Beside(NamedTuple):
    """The leaves of a tree beside those of a plan, and what is wrong with them.

    Attributes:
        leaves: The leaves, none where the tree is of another structure.
        faults: PTK205 for each difference.
    """

    leaves: list[Any]
    faults: list[Fault]


def always(have: Any, want: Any) -> bool:
    """Whatever the dtypes are."""
    return have is not None and want is not None


def never(have: Any, want: Any) -> bool:
    """Whether dtypes are the same."""
    return have == want


def castable(have: Any, want: Any) -> bool:
    """Whether values of one dtype can be cast to another: numbers, whose imaginary part is kept."""
    if have == want:
        return True
    are_complex = [jnp.issubdtype(its, jnp.complexfloating) for its in (have, want)]
    return is_of_numbers(have) and is_of_numbers(want) and are_complex != [True, False]


def beside(its: Planned, tree: Any, name: str, *, fits: Fits = never) -> Beside:
    """Hold a tree against a plan.

    Args:
        its: The plan.
        tree: The tree: of arrays, of shapes, or of what is read like an array when it is needed.
        name: What messages call it.
        fits: Whether the dtype of a leaf may stand for that of the plan.
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
            for fault in leaf_faults(its, number, leaf, name, fits=fits)
        ]
        return Beside(leaves, faults)
    parts = dict(jax.tree.leaves_with_path(its.tree(its.parts)))
    rows = jax.tree.leaves_with_path(tree)
    seen = structure.unflatten(seen_as(number_as(parts.get(path), leaf)) for path, leaf in rows)
    found = differences(its.tree(its.parts), seen)
    told = [as_fault(one, PLAN, name) for one in found if fits is never or one.kind != "dtype"]
    return Beside([], told or [Fault("PTK205", name, "", PLAN, "", "")])


def leaf_faults(
    its: Planned, number: int, leaf: Any, name: str, *, fits: Fits = never
) -> list[Fault]:
    """PTK205 for each difference between a leaf of a plan and what is to be in its place."""
    part, seen = its.parts[number], seen_as(leaf)
    if _alike(part, seen, fits):
        return []
    place = its.places[number].path
    return [
        as_fault(dataclasses.replace(one, path=place + one.path), PLAN, name)
        for one in differences(part, seen)
        if one.kind != "dtype" or not fits(seen.dtype, part.dtype)
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


def _alike(part: Any, seen: Any, fits: Fits) -> bool:
    if part is seen:
        return True
    if not isinstance(part, jax.ShapeDtypeStruct) or not isinstance(seen, jax.ShapeDtypeStruct):
        return False
    return part.shape == seen.shape and fits(seen.dtype, part.dtype)
