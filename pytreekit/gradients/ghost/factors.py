"""Sums of outer products: their norms, themselves, and their weighted sums over a batch.

The gradient with regard to a parameter that is multiplied with something is a sum over positions of
outer products, of what went in there and of what comes back. Its norm is that of the products of
all pairs of positions. Where rows are looked up, what goes in is the number of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..norms import accumulator
from .views import Dim, View, merged


class Layout(NamedTuple):
    """How the entries of a parameter are numbered by the indices of outer products.

    Attributes:
        groups: The dimensions over which products of their own are taken.
        into: Those of what goes in.
        out: Those of what comes out.
        offset: Where the first entry is.
    """

    groups: tuple[Dim, ...]
    into: tuple[Dim, ...]
    out: tuple[Dim, ...]
    offset: int

    @property
    def view(self) -> View:
        """All of the entries."""
        return View((*self.groups, *self.into, *self.out), self.offset)

    @property
    def plain(self) -> Layout:
        """The same for all that number the same entries alike."""
        return Layout(merged(self.groups), merged(self.into), merged(self.out), self.offset)

    @property
    def turned(self) -> Layout:
        """What goes in and what comes out in each other's place."""
        return self._replace(into=self.out, out=self.into)


class Factors(NamedTuple):
    """Outer products.

    Attributes:
        left: What went in, `[groups,positions,into]`, or rows, `int[groups,positions]`.
        right: What comes back, `[groups,positions,out]`.
    """

    left: Array
    right: Array

    @property
    def is_rows(self) -> bool:
        """Whether rows are looked up."""
        return jnp.issubdtype(self.left.dtype, np.integer)

    @property
    def turned(self) -> Factors:
        """The factors in each other's place."""
        return Factors(self.right, self.left)

    def balanced(self) -> Factors:
        """The same products of factors that square within range, as far as the products do.

        What goes in has entries of about 1 at most.
        """
        if self.is_rows:
            return self
        scale = self._scale()
        # The range of float16 is small.
        wide = jnp.promote_types(self.right.dtype, jnp.bfloat16)
        return Factors(self.left / scale, self.right.astype(wide) * scale.astype(wide))

    def guarded(self) -> Factors:
        """Factors with zeros for what goes in if not all of that is finite."""
        if self.is_rows:
            return self
        left = jnp.where(jnp.isfinite(self._scale()), self.left, jnp.zeros_like(self.left))
        return Factors(left, self.right)

    def weighted(self, weights: Array, *, on_left: bool) -> Factors:
        """The same of many examples, one factor times the weight of each; rows are left alone."""
        dtype = accumulator(self.right.dtype)
        right, each = self.right.astype(dtype), weights.astype(dtype)[:, None, None, None]
        if on_left and not self.is_rows:
            return Factors(self.left.astype(dtype) * each, right)
        return Factors(self.left, right * each)

    def _scale(self) -> Array:
        """About the largest entry of what goes in: a power of 2, so that nothing is rounded."""
        its = jnp.finfo(self.left.dtype)
        largest = jnp.max(jnp.abs(self.left), axis=None, initial=its.tiny)  # never 0
        return lax.stop_gradient(lax.reduce_precision(largest, its.nexp, 0))


def joined(terms: Sequence[Factors]) -> list[Factors]:
    """The positions of all terms in a row: of products, and of rows."""
    found = []
    for its in ([its for its in terms if not its.is_rows], [its for its in terms if its.is_rows]):
        if len(its) > 1:
            found.append(Factors(*(jnp.concatenate(both, 1) for both in zip(*its, strict=True))))
        found += its if len(its) == 1 else []
    return found


def square(terms: Sequence[Factors]) -> Array:
    """The square of the norm of a sum of outer products, of one example.

    Args:
        terms: Balanced factors, of products, of rows, or of both in that order.
    """
    if len(terms) == 1:
        [its] = terms
        found = _square_of_rows(its) if its.is_rows else _square_of_products(its)
    else:
        products, rows = terms
        between = _pairs(products.right, rows.right) * _looked_up(products.left, rows.left)
        found = _square_of_products(products) + _square_of_rows(rows) + 2 * jnp.sum(between)
    return jnp.maximum(found, 0)  # rounding may leave less than 0


def _square_of_products(its: Factors) -> Array:
    if its.left.shape[1] == 1:
        return jnp.sum(_squares(its.left) * _squares(its.right))
    return jnp.sum(_pairs(its.left, its.left) * _pairs(its.right, its.right))


def _squares(factor: Array) -> Array:
    return jnp.sum(jnp.square(factor.astype(accumulator(factor.dtype))), (1, 2))


def _square_of_rows(its: Factors) -> Array:
    """What comes back to a row that is looked up twice adds up at its first position."""
    same = its.left[:, :, None] == its.left[:, None, :]
    first = jnp.argmax(same, axis=2)
    groups = jnp.arange(first.shape[0])[:, None]
    right = its.right.astype(accumulator(its.right.dtype))
    return jnp.sum(jnp.zeros_like(right).at[groups, first].add(right) ** 2)


def _looked_up(left: Array, rows: Array) -> Array:
    """What went in at each position to each of the rows, nothing to rows beyond.

    `[groups,positions,rows]`.
    """
    return jnp.take_along_axis(left, rows[:, None, :], axis=2, mode="fill", fill_value=0)


def formed(terms: Sequence[Factors], sizes: tuple[int, int, int]) -> Array:
    """A sum of outer products, of one example: `[groups,into,out]`."""
    parts = []
    for left, right in terms:
        dtype = accumulator(jnp.result_type(right))
        parts.append(_summed(left, right.astype(dtype), sizes))
    return sum(parts[1:], parts[0])


def weighted_sum(
    terms: Sequence[Factors], sizes: tuple[int, int, int], weights: Array, *, on_left: bool
) -> Array:
    """The sum over a batch of sums of outer products, each times its weight.

    Args:
        terms: With the batch in front.
        sizes: The numbers of groups, of what goes in and of what comes out.
        weights: The weight of each example.
        on_left: Whether what went in is weighted, rather than what comes back. Rows cannot be.
    """
    parts = []
    for its in terms:
        left, right = its.weighted(weights, on_left=on_left)
        # All positions of all examples in a row: one large product is fast.
        parts.append(_summed(_in_a_row(left), _in_a_row(right), sizes))
    return sum(parts[1:], parts[0])


def _summed(left: Array, right: Array, sizes: tuple[int, int, int]) -> Array:
    if jnp.issubdtype(left.dtype, np.integer):
        groups = jnp.arange(left.shape[0])[:, None]
        return jnp.zeros(sizes, right.dtype).at[groups, left].add(right, mode="drop")
    left = left.astype(right.dtype)
    if sizes[0] == 1:
        over_positions = (((0,), (0,)), ((), ()))
        found = lax.dot_general(left[0], right[0], over_positions, precision=lax.Precision.HIGHEST)
        return found[None]
    over_positions = (((1,), (1,)), ((0,), (0,)))
    return lax.dot_general(left, right, over_positions, precision=lax.Precision.HIGHEST)


def _in_a_row(factor: Array) -> Array:
    groups, *entries = factor.shape[1], *factor.shape[3:]
    rows = jnp.moveaxis(factor, 0, 1) if groups > 1 else factor
    return rows.reshape(groups, -1, *entries)


def _pairs(one: Array, other: Array) -> Array:
    """The products of all pairs of positions."""
    over_entries = (((2,), (2,)), ((0,), (0,)))
    wide = accumulator(jnp.result_type(one, other))
    how = {"precision": lax.Precision.HIGHEST, "preferred_element_type": wide}
    return lax.dot_general(one, other, over_entries, **how)
