"""A product of a parameter and something else, as a sum of outer products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import JaxprEqn

from .factors import Factors, Layout
from .program import aval
from .views import Dim, View


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
    def positions(self) -> int:
        """The number of outer products in each group."""
        return math.prod(
            self.other[at] for at in _free(self.other, self.batched[1], self.summed[1])
        )

    def layout(self, view: View) -> Layout:
        """How outer products number the entries of a parameter that is taken so."""
        groups, into = self.batched[0], self.summed[0]
        out = _free(self.shape, groups, into)

        def of(its: Sequence[int]) -> tuple[Dim, ...]:
            return tuple(view.dims[at] for at in its)

        return Layout(of(groups), of(into), of(out), view.offset)

    def factors(self, given: Sequence[Any], back: Array) -> Factors:
        """The outer products of one example, from the other operand and what comes back."""
        [other] = given
        (_, batched), (_, summed) = self.batched, self.summed
        rows, groups = self.positions, math.prod(self.other[at] for at in batched)
        into = math.prod(self.other[at] for at in summed)
        order = (*batched, *_free(self.other, batched, summed), *summed)
        left = other.transpose(order).reshape(groups, rows, into)
        if self.first:
            return Factors(left, back.reshape(groups, -1, rows).transpose(0, 2, 1))
        return Factors(left, back.reshape(groups, rows, -1))


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
