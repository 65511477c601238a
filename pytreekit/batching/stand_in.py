"""One good example in the place of each that must not be computed with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax


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
    for index, axis in axes:
        leaf = jnp.asarray(leaves[index])
        its = lax.dynamic_index_in_dim(leaf, first, axis % leaf.ndim)
        there = good.reshape([-1 if place == axis % leaf.ndim else 1 for place in range(leaf.ndim)])
        leaves[index] = jnp.where(there, leaf, its)
    return leaves
