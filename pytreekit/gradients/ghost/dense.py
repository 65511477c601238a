"""A product of a parameter and a value of an example: its norms, and its weighted sum.

The gradient with regard to the parameter is a sum over positions of outer products, of what went in
there and of what comes back. Its norm is that of the products of all pairs of positions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import JaxprEqn

from ..norms import accumulator
from .program import aval


class Dense(NamedTuple):
    """A `dot_general`, and which of its operands is the parameter.

    Attributes:
        shape: The shape of the parameter there.
        other: That of the other operand.
        first: Whether the parameter is the first one.
        batched: The dimensions of the parameter, and of the other, that are batched.
        summed: Those that are summed over.
    """

    shape: tuple[int, ...]
    other: tuple[int, ...]
    first: bool
    batched: tuple[tuple[int, ...], tuple[int, ...]]
    summed: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of positions, of what goes in at each, and of what comes out."""
        rows = math.prod(
            self.other[at] for at in _free(self.other, self.batched[1], self.summed[1])
        )
        into = math.prod(self.shape[at] for at in self.summed[0])
        out = math.prod(self.shape[at] for at in self._free)
        return rows, into, out

    @property
    def _free(self) -> list[int]:
        return _free(self.shape, self.batched[0], self.summed[0])

    @property
    def pays(self) -> bool:
        """Whether norms from pairs of positions take no more work than the gradient itself."""
        rows, into, out = self.sizes
        return rows * (into + out) <= into * out

    def factors(self, given: Array, back: Array) -> tuple[Array, Array]:
        """What went in and what comes back, `[groups,positions,entries]` each."""
        (_, batched), (_, summed) = self.batched, self.summed
        rows, into, out = self.sizes
        order = (*batched, *_free(self.other, batched, summed), *summed)
        left = given.transpose(order).reshape(-1, rows, into)
        if self.first:
            return left, back.reshape(-1, out, rows).transpose(0, 2, 1)
        return left, back.reshape(-1, rows, out)

    def square(self, given: Array, back: Array) -> Array:
        """The square of the norm of the gradient of one example."""
        (left, one), (right, other) = map(scaled, self.factors(given, back))
        if self.sizes[0] == 1:
            found = jnp.sum(jnp.sum(left * left, (1, 2)) * jnp.sum(right * right, (1, 2)))
        else:
            found = jnp.sum(pairs(left) * pairs(right))
        return jnp.maximum(found, 0) * jnp.square(one * other)  # rounding may leave less than 0

    def weighted_sum(self, weights: Array, given: Array, back: Array) -> Array:
        """The sum over examples of the gradient times the weight, as the parameter stands there.

        Args:
            weights: The weight of each example.
            given: What went in, with the batch in front.
            back: What comes back.
        """
        dtype = accumulator(jnp.result_type(given, back))
        left, right = jax.vmap(self.factors)(given.astype(dtype), back.astype(dtype))
        right = right * weights.astype(dtype)[:, None, None, None]
        # All positions of all examples in a row: one large product is fast.
        left, right = _in_a_row(left), _in_a_row(right)
        over_positions = (((1,), (1,)), ((0,), (0,)))
        found = lax.dot_general(left, right, over_positions, precision=lax.Precision.HIGHEST)
        order = [*self.batched[0], *self.summed[0], *self._free]
        return found.reshape([self.shape[at] for at in order]).transpose(np.argsort(order))


def recognised(equation: JaxprEqn, operand: int) -> Dense | None:
    """The product that an equation is, for one of its operands."""
    if equation.primitive.name != "dot_general":
        return None
    avals = [aval(variable) for variable in (*equation.invars, *equation.outvars)]
    if not all(jnp.issubdtype(aval.dtype, np.floating) for aval in avals):
        return None
    summed, batched = equation.params["dimension_numbers"]
    other = 1 - operand
    return Dense(
        tuple(avals[operand].shape),
        tuple(avals[other].shape),
        operand == 0,
        (tuple(batched[operand]), tuple(batched[other])),
        (tuple(summed[operand]), tuple(summed[other])),
    )


def _free(shape: tuple[int, ...], batched: tuple[int, ...], summed: tuple[int, ...]) -> list[int]:
    return [at for at in range(len(shape)) if at not in batched and at not in summed]


def _in_a_row(factor: Array) -> Array:
    count, groups, rows, entries = factor.shape
    return jnp.moveaxis(factor, 1, 0).reshape(groups, count * rows, entries)


def pairs(factor: Array) -> Array:
    """The products of all pairs of positions."""
    over_entries = (((2,), (2,)), ((0,), (0,)))
    return lax.dot_general(factor, factor, over_entries, precision=lax.Precision.HIGHEST)


def scaled(factor: Array) -> tuple[Array, Array]:
    """A factor with no entry above 1, and what it was divided by: squares stay in range."""
    factor = factor.astype(accumulator(factor.dtype))
    largest = lax.stop_gradient(jnp.max(jnp.abs(factor), initial=0))
    scale = jnp.where(largest > 0, largest, jnp.ones_like(largest))
    return factor / scale, scale
