"""`ptk.stack`: a list of trees of one structure as one tree of stacked leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..faults import Fault
from ..show.errors import raise_faults
from . import leaves, paths
from .axis import check_axis, check_has_axis
from .diff import differences
from .difference import Difference, as_fault
from .sorts import check_sorts


def stack(trees: Any, axis: Any = 0) -> Any:
    """Stack a list of trees into one tree, whose leaves have one more axis: a batch.

    A list of examples is no batch to JAX: `stack` makes one of it, to map over with `ptk.vmap`.
    All trees must have the same structure, and their leaves the same shapes and dtypes. NumPy
    arrays are stacked by NumPy and stay on the host, with their dtype; Python numbers become JAX
    arrays; of `jax.ShapeDtypeStruct`s comes another. What is no array, such as a function or a
    string, must be equal in all trees, and is kept once.

    Args:
        trees: A list, or another iterable, of at least one pytree.
        axis: Where the new axis goes in each leaf; a negative one counts from the end.

    Returns:
        A tree of the structure that each of `trees` has.

    Raises:
        SpecError: PTK205, if the trees differ: with everything in which each differs from what most
            of them have; PTK101, if a leaf cannot have such an axis; PTK001, if `trees` is empty or
            no iterable of trees, or `axis` no int; PTK104, if JAX cannot flatten a tree.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> examples = [{"image": jnp.ones((28, 28)), "label": i} for i in range(32)]
        >>> batch = ptk.stack(examples)
        >>> batch["image"].shape, batch["label"].shape
        ((32, 28, 28), (32,))
        >>> ptk.unstack(batch)[3]["label"]
        Array(3, dtype=int32)
    """
    given = _listed(trees)
    faults = check_axis(axis)
    for number, tree in enumerate(given):
        faults += check_sorts(tree, f"trees[{number}]")
    raise_faults(faults, doing="stack")
    raise_faults(check_alike(given), doing="stack", where="trees", when="before stacking")
    first = paths.leaves_with_paths(given[0])
    sized = [(path, leaf) for path, leaf in first if _stacks(leaf)]
    raise_faults(check_has_axis(sized, axis, "trees[0]", new=True), doing="stack")
    columns = zip(*(jax.tree.leaves(tree) for tree in given), strict=True)
    stacked = [_stacked(column, axis) for column in columns]
    return jax.tree.structure(given[0]).unflatten(stacked)


def _listed(trees: Any) -> list[Any]:
    """The trees as a list; what holds something else than trees is a fault."""
    kind = type(trees).__name__
    fact = ""
    if not isinstance(trees, Iterable) or isinstance(trees, Mapping | str | bytes):
        fact = f"must be a list of trees, this is a {kind}"
    elif leaves.is_array(trees):
        fact = f"must be a list of trees, this is one array, {leaves.told(trees)}"
    given = [] if fact else list(trees)
    if not fact and not given:
        fact = "has no trees, so there is nothing to stack"
    if fact:
        raise_faults([Fault("PTK001", "trees", "", "", "", "", fact=fact)], doing="stack")
    return given


def check_alike(trees: Sequence[Any]) -> list[Fault]:
    """Everything in which some of the trees differ from what most have, one cause after another."""
    reference, differing = 0, _differing(trees, 0)
    if 2 * len(differing) > len(trees):
        other = next(iter(differing))
        from_other = _differing(trees, other)
        if len(from_other) < len(differing):
            reference, differing = other, from_other
    causes: dict[tuple[str, str, str], list[Fault]] = {}
    for number, found in differing.items():
        for one in found:
            fault = as_fault(one, f"trees[{reference}]", f"trees[{number}]")
            causes.setdefault((one.kind, one.a, one.b), []).append(fault)
    return [fault for faults in causes.values() for fault in faults]


def _differing(trees: Sequence[Any], reference: int) -> dict[int, list[Difference]]:
    """The differences of each tree that differs from one of them."""
    found = ((number, differences(trees[reference], tree)) for number, tree in enumerate(trees))
    return {number: its for number, its in found if its}


def _stacks(leaf: Any) -> bool:
    return leaves.is_array(leaf) or leaves.is_number(leaf)


def _stacked(column: Sequence[Any], axis: int) -> Any:
    """The leaves of one place, one of each tree, as one leaf. They are known to be alike."""
    first = column[0]
    if leaves.is_number(first):
        return jnp.asarray(column)
    if not leaves.is_array(first):
        return first
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in column):
        place = axis % (len(first.shape) + 1)
        shape = (*first.shape[:place], len(column), *first.shape[place:])
        return jax.ShapeDtypeStruct(shape, first.dtype)
    if isinstance(first, np.ma.MaskedArray):
        return np.ma.stack(column, axis)
    if all(isinstance(leaf, np.ndarray | np.generic) for leaf in column):
        return np.stack(column, axis)
    return jnp.stack(column, axis)
