"""Rows of a parameter looked up by an example, as of an embedding: what comes back to each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import JaxprEqn

from .factors import Factors, Layout
from .program import aval
from .views import View


class Rows(NamedTuple):
    """A `gather` of whole slices along one dimension.

    Attributes:
        shape: The shape of the parameter there.
        axis: The dimension that is indexed.
        within: The dimensions of what comes out that are those of a slice.
        indices: The shape of the indices.
        clips: Whether an index beyond means the first or last slice, rather than none.
    """

    shape: tuple[int, ...]
    axis: int
    within: tuple[int, ...]
    indices: tuple[int, ...]
    clips: bool

    @property
    def positions(self) -> int:
        """The number of slices."""
        return math.prod(self.indices)

    def layout(self, view: View) -> Layout:
        """How rows and their entries number the entries of a parameter that is taken so."""
        return _layout(view, self.axis)

    def factors(self, given: Sequence[Any], back: Array) -> Factors:
        """The row of each position, and what comes back to it: nothing to rows beyond."""
        count = self.shape[self.axis]
        at = given[0].reshape(1, -1)
        positions = [its for its in range(back.ndim) if its not in self.within]
        back = back.transpose((*positions, *self.within)).reshape(1, at.shape[1], -1)
        if self.clips:
            return Factors(jnp.clip(at, 0, count - 1), back)
        inside = (at >= 0) & (at < count)
        return Factors(jnp.where(inside, at, count), jnp.where(inside[..., None], back, 0))


class Window(NamedTuple):
    """A `dynamic_slice` of so many whole slices along one dimension.

    Attributes:
        shape: The shape of the parameter there.
        axis: The dimension that is indexed.
        positions: The number of slices.
    """

    shape: tuple[int, ...]
    axis: int
    positions: int

    def layout(self, view: View) -> Layout:
        """How rows and their entries number the entries of a parameter that is taken so."""
        return _layout(view, self.axis)

    def factors(self, given: Sequence[Any], back: Array) -> Factors:
        """The row of each position, and what comes back to it."""
        start = jnp.clip(given[self.axis], 0, self.shape[self.axis] - self.positions)
        at = start + jnp.arange(self.positions)
        return Factors(at[None], jnp.moveaxis(back, self.axis, 0).reshape(1, self.positions, -1))


def recognised(equation: JaxprEqn, operand: int) -> Rows | Window | None:
    """The look-up that an equation is, for one of its operands."""
    name = equation.primitive.name
    if operand != 0 or not jnp.issubdtype(aval(equation.invars[0]).dtype, np.floating):
        return None
    if name == "dynamic_slice":
        return _window(equation)
    return _rows(equation) if name == "gather" else None


def _rows(equation: JaxprEqn) -> Rows | None:
    params, (table, indices) = equation.params, (aval(its) for its in equation.invars)
    numbers, shape = params["dimension_numbers"], tuple(table.shape)
    axes, sizes = tuple(numbers.start_index_map), tuple(params["slice_sizes"])
    if (
        len(axes) != 1
        or numbers.operand_batching_dims
        or not jnp.issubdtype(indices.dtype, np.integer)
    ):
        return None
    [axis] = axes
    whole = (*shape[:axis], 1, *shape[axis + 1 :])
    if tuple(numbers.collapsed_slice_dims) != axes or sizes != whole:
        return None
    clips = params["mode"] == lax.GatherScatterMode.CLIP
    return Rows(shape, axis, tuple(numbers.offset_dims), tuple(indices.shape[:-1]), clips)


def _window(equation: JaxprEqn) -> Window | None:
    shape, sizes = tuple(aval(equation.invars[0]).shape), tuple(equation.params["slice_sizes"])
    partial = [at for at, size in enumerate(sizes) if size != shape[at]]
    return Window(shape, partial[0], sizes[partial[0]]) if len(partial) == 1 else None


def _layout(view: View, axis: int) -> Layout:
    rest = (*view.dims[:axis], *view.dims[axis + 1 :])
    return Layout((), (view.dims[axis],), rest, view.offset)
