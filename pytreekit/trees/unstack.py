"""`ptk.unstack`: one tree of stacked leaves as a list of trees."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..faults import Fault, Place
from ..show.errors import raise_faults
from . import leaves, paths
from .axis import check_axis, check_has_axis
from .paths import KeyPath
from .sorts import check_sorts

MOST_BESIDE = 3
"""How many of the leaves that agree are told beside those that do not."""


def unstack(tree: Any, axis: Any = 0) -> list[Any]:
    """Take a tree of stacked leaves apart into a list of trees, one for each entry of an axis.

    The way back from `ptk.stack`. What is no array is in each of the trees, as it is.

    Args:
        tree: A pytree with at least one array; all arrays must have the axis, in one size.
        axis: The axis to take apart in each leaf; a negative one counts from the end.

    Returns:
        A list of trees of the structure of `tree`, whose arrays lack the axis.

    Raises:
        SpecError: PTK101, if a leaf has no such axis; PTK102, if the sizes differ; PTK103, if there
            is no array; PTK001, if `axis` is no int; PTK104, if JAX cannot flatten the tree.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> ensemble = {"w": jnp.ones((4, 3, 2)), "b": jnp.zeros((4, 3)), "act": "relu"}
        >>> members = ptk.unstack(ensemble)
        >>> len(members), members[0]["w"].shape, members[0]["act"]
        (4, (3, 2), 'relu')
    """
    raise_faults([*check_axis(axis), *check_sorts(tree, "tree")], doing="unstack")
    everything = paths.leaves_with_paths(tree)
    arrays = [(path, leaf) for path, leaf in everything if leaves.is_array(leaf)]
    faults = check_has_axis(arrays, axis, "tree") or _check_sizes(arrays, axis)
    raise_faults(faults, doing="unstack", where="tree", when="before unstacking")
    size = arrays[0][1].shape[axis]
    columns = [_apart(leaf, axis, size) for _, leaf in everything]
    structure = jax.tree.structure(tree)
    return [structure.unflatten([column[number] for column in columns]) for number in range(size)]


def _check_sizes(arrays: Sequence[tuple[KeyPath, Any]], axis: int) -> list[Fault]:
    """The leaves whose axis is not of the size that most have; at a tie, that the first has."""
    sizes = [leaf.shape[axis] for _, leaf in arrays]
    if not sizes:
        fact = "no leaf is an array, so nothing says how many trees there are"
        return [Fault("PTK103", "tree", "", "", "", "", fact=fact)]
    (most, count), *others = collections.Counter(sizes).most_common()
    if not others:
        return []
    told = [
        Place("tree" + paths.text(path), leaves.told(leaf), f"axis {axis} has {size}", "")
        for (path, leaf), size in zip(arrays, sizes, strict=True)
    ]
    beside = [place for place, size in zip(told, sizes, strict=True) if size == most][:MOST_BESIDE]
    if count > MOST_BESIDE:
        beside.append(Place(f"... {count - MOST_BESIDE} more", "", f"have {most}", ""))
    return [
        Fault(
            "PTK102", "tree", paths.text(path), "", place.found, "", "", "", place.note, (*beside,)
        )
        for (path, _), place, size in zip(arrays, told, sizes, strict=True)
        if size != most
    ]


def _apart(leaf: Any, axis: int, size: int) -> Sequence[Any]:
    """What each of the trees gets of one leaf."""
    if not leaves.is_array(leaf):
        return [leaf] * size
    if isinstance(leaf, jax.ShapeDtypeStruct):
        shape = list(leaf.shape)
        del shape[axis]
        return [jax.ShapeDtypeStruct(tuple(shape), leaf.dtype)] * size
    if isinstance(leaf, np.ndarray):
        first = np.moveaxis(leaf, axis, 0)
        return [first[number, ...] for number in range(size)]  # `...`: an array even of rank 0
    return jnp.unstack(leaf, axis=axis)
