"""Rows of a parameter looked up by an example, as of an embedding: norms, and the weighted sum.

What comes back to a row that is looked up twice adds up there, so that its norm is that of the
products of all pairs of positions with the same row.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import JaxprEqn

from ..norms import accumulator
from .dense import pairs, scaled
from .program import aval


class Rows(NamedTuple):
    """A `gather` of whole rows.

    Attributes:
        shape: The shape of the parameter there.
        clips: Whether an index beyond it means its first or last row, rather than none.
    """

    shape: tuple[int, ...]
    clips: bool

    def factors(self, indices: Array, back: Array) -> tuple[Array, Array]:
        """The row of each position, and what comes back to it: nothing to rows beyond."""
        count = self.shape[0]
        at = indices.reshape(-1)
        back = back.reshape(at.shape[0], -1)
        if self.clips:
            return jnp.clip(at, 0, count - 1), back
        inside = (at >= 0) & (at < count)
        return jnp.where(inside, at, count), jnp.where(inside[:, None], back, 0)

    def square(self, indices: Array, back: Array) -> Array:
        """The square of the norm of the gradient of one example."""
        at, back = self.factors(indices, back)
        back, scale = scaled(back)
        same = at[:, None] == at[None, :]
        found = jnp.sum(jnp.where(same, pairs(back[None])[0], 0))
        return jnp.maximum(found, 0) * jnp.square(scale)

    def weighted_sum(self, weights: Array, indices: Array, back: Array) -> Array:
        """The sum over examples of the gradient times the weight.

        Args:
            weights: The weight of each example.
            indices: The rows that were looked up, with the batch in front.
            back: What comes back.
        """
        dtype = accumulator(back.dtype)
        along = jnp.expand_dims(weights.astype(dtype), range(1, back.ndim))
        at, back = self.factors(indices, back.astype(dtype) * along)
        found = jnp.zeros((self.shape[0], back.shape[-1]), dtype).at[at].add(back, mode="drop")
        return found.reshape(self.shape)


def recognised(equation: JaxprEqn, operand: int) -> Rows | None:
    """The look-up that an equation is, for one of its operands."""
    if equation.primitive.name != "gather" or operand != 0:
        return None
    params, (table, indices) = equation.params, (aval(its) for its in equation.invars)
    numbers, rest = params["dimension_numbers"], tuple(table.shape[1:])
    dimensions = len(indices.shape) - 1
    is_rows = (
        jnp.issubdtype(table.dtype, np.floating)
        and tuple(numbers.collapsed_slice_dims) == (0,) == tuple(numbers.start_index_map)
        and not numbers.operand_batching_dims
        and tuple(params["slice_sizes"]) == (1, *rest)
        and tuple(numbers.offset_dims) == tuple(range(dimensions, dimensions + len(rest)))
    )
    clips = params["mode"] == lax.GatherScatterMode.CLIP
    return Rows(tuple(table.shape), clips) if is_rows else None
