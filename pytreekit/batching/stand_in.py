"""One good example in the place of each that must not be computed with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from .shardings import mesh_axes


def with_stand_in(leaves: list[Any], axes: Iterable[tuple[int, int]], good: Array) -> list[Any]:
    """The leaves with the first good example in the place of each that is not good.

    A weight of 0 takes no bad example out of a sum: 0 times NaN is NaN. It must not be there.

    Args:
        leaves: The leaves.
        axes: The index of each mapped leaf, and the axis that it is mapped over.
        good: Which examples are good, `bool[batch]`; if none is, the first stands for all.
    """
    if not good.shape[0]:
        return leaves
    leaves, first = leaves.copy(), jnp.argmax(good)
    for index, at in axes:
        leaf = jnp.asarray(leaves[index])
        axis = at % leaf.ndim
        others = [place for place in range(leaf.ndim) if place != axis]
        its = _taken(leaf, axis, first, others)
        leaves[index] = jnp.where(jnp.expand_dims(good, others), leaf, its)
    return leaves


def _taken(leaf: Array, axis: int, index: Array, others: list[int]) -> Array:
    """An example of a batch, as a batch of one."""
    if mesh_axes(leaf, axis) is None:
        return lax.dynamic_index_in_dim(leaf, index, axis)
    # Of a batch that is split over an Explicit mesh axis JAX takes no slice of one.
    there = jnp.arange(leaf.shape[axis]) == index
    alone = jnp.where(jnp.expand_dims(there, others), leaf, jnp.zeros_like(leaf))
    return jnp.sum(alone, axis=axis, keepdims=True, dtype=leaf.dtype)
