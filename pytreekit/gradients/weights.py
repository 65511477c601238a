"""What each example counts for in a clipped sum, and that sum."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from ..batching.shardings import mesh_axes
from .ghost.trace import is_trace
from .norms import accumulator


def weight(norm: Array, clip_norm: Any, *, rescale: bool) -> Array:
    """What clipping multiplies a gradient of some norm with.

    Args:
        norm: The norm, or many of them.
        clip_norm: What it is clipped to. What is negative or no number clips to 0: one that is
            traced can be anything, and must not let a gradient pass as it is.
        rescale: Whether the result is divided by the clip norm, and so has a norm of at most 1.
    """
    bound = jnp.asarray(clip_norm).astype(norm.dtype)
    bound = jnp.where(bound > 0, bound, jnp.zeros_like(bound))
    if rescale:
        larger = jnp.maximum(norm, bound)
        some = jnp.where(larger > 0, larger, jnp.ones_like(larger))
        return jnp.where(larger > 0, 1 / some, jnp.zeros_like(larger))
    over = (norm > bound) | (bound == 0)  # a norm of 0 may be that of what is too small to square
    return jnp.where(over, bound / jnp.where(norm > bound, norm, 1), jnp.ones_like(norm))


def kept(norms: Array, real: Array | None, *, nan_safe: bool) -> Array | None:
    """Which examples are to count at all: real ones, of a gradient that is finite throughout."""
    if not nan_safe:
        return real
    finite = jnp.isfinite(norms).all(axis=-1)
    return finite if real is None else finite & real


def weighted_sum(weights: Array, leaf: Any, keep: Array | None) -> Array:
    """The sum of an array for each example times the weight of that example.

    Args:
        weights: The weights, `float[batch]`.
        leaf: An array with the batch in front, or a `Trace` of gradients.
        keep: Which examples to take; the others may be NaN, which a weight of 0 would not undo.
    """
    if is_trace(leaf):
        return leaf.weighted_sum(weights, keep)
    leaf = leaf.astype(accumulator(leaf.dtype))
    if keep is not None:
        leaf = jnp.where(_along(keep, leaf), leaf, jnp.zeros_like(leaf))
    # A product would ask how to shard what it gives; and XLA compiles each product with a vector
    # anew, but sums that are alike once.
    if leaf.ndim <= 2 or mesh_axes(leaf, 0) is not None:  # noqa: PLR2004  a bias, a scale
        return jnp.sum(leaf * _along(weights.astype(leaf.dtype), leaf), axis=0)
    # A product of less than full precision could exceed the bound.
    over_the_batch = (((0,), (0,)), ((), ()))
    weights = weights.astype(leaf.dtype)
    return lax.dot_general(weights, leaf, over_the_batch, precision=lax.Precision.HIGHEST)


def _along(of_each: Array, leaf: Array) -> Array:
    """One value for each example, to go with an array of all of them."""
    return jnp.expand_dims(of_each, range(1, leaf.ndim))


def masked(values: Array, real: Array | None) -> Array:
    """Values for each example, 0 for those that are not real."""
    return values if real is None else jnp.where(real, values, jnp.zeros_like(values))
