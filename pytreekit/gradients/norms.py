"""Norms of gradients: accumulated in at least 32 bits, and differentiable where they are 0."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax


def accumulator(dtype: Any) -> Any:
    """The dtype to add up numbers of some dtype in: at least `float32`, complex stays complex."""
    return jnp.promote_types(dtype, jnp.float32)


def square_sum(leaf: Any) -> Array:
    """The sum of the squares of all entries of an array, as a real number."""
    leaf = jnp.asarray(leaf)
    wide = leaf.astype(accumulator(leaf.dtype))
    if jnp.iscomplexobj(wide):
        return jnp.sum(jnp.square(wide.real)) + jnp.sum(jnp.square(wide.imag))
    return jnp.sum(jnp.square(wide))


def norm(leaves: Sequence[Any]) -> Array:
    """The norm of several arrays together, 0 for none of them."""
    return root(total([square_sum(leaf) for leaf in leaves]))


def total(parts: Sequence[Array]) -> Array:
    """The sum of numbers, in the widest of their dtypes."""
    if not parts:
        return jnp.float32(0)
    wide = jnp.result_type(*parts)
    return functools.reduce(operator.add, [part.astype(wide) for part in parts])


def total_at_hand(parts: Sequence[Array]) -> Array:
    """The same, for a sum that much is computed of.

    XLA keeps what a product gives. A sum it would compute again in each operation that uses it, and
    for each entry that this makes.
    """
    if len(parts) < 2:  # noqa: PLR2004  the sum is the number
        return total(parts)
    row = jnp.stack(parts)
    return jnp.dot(row, jnp.ones_like(row), precision=lax.Precision.HIGHEST)


def root(square: Array) -> Array:
    """The square root, with the derivative 0 at 0, where there is none."""
    positive = square > 0
    some = jnp.sqrt(jnp.where(positive, square, 1))
    # NaN is not greater than 0, and must stay NaN.
    return jnp.where(positive, some, jnp.where(square == 0, jnp.zeros_like(square), square))
