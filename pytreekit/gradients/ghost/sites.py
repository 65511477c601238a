"""Uses of a parameter that are recognised: what each gives of an example's gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from . import conv, dense, rows
from .classify import Level, Use
from .factors import Factors, Layout


class Site(NamedTuple):
    """A use of a parameter as a sum of outer products.

    Attributes:
        kind: What it is used in.
        levels: The scans around it.
        layout: How outer products number the entries of the parameter.
        turned: Whether the factors are to change places, to be like those of other uses.
    """

    kind: Any
    levels: tuple[Level, ...]
    layout: Layout
    turned: bool = False

    @property
    def positions(self) -> int:
        """The number of outer products in each group."""
        return self.kind.positions * math.prod(its.turns for its in self.levels if its.dim is None)

    def factors(self, given: Sequence[Any], back: Array) -> Factors:
        """The outer products of one example.

        Args:
            given: The other operands, of all turns of the scans around.
            back: What comes back, likewise.
        """
        found = self.of_one_turn
        for _ in self.levels:
            found = jax.vmap(found)
        left, right = found(given, back)
        its = Factors(self._in_order(left), self._in_order(right))
        return its.turned if self.turned else its

    def of_one_turn(self, given: Sequence[Any], back: Array) -> Factors:
        """The outer products of one turn of the scans around, as they are."""
        return self.kind.factors(given, back)

    def _in_order(self, factor: Array) -> Array:
        """Turns with parts of their own are groups, those with the same are positions."""
        depth = len(self.levels)
        groups = [at for at, its in enumerate(self.levels) if its.dim is not None]
        turns = [at for at, its in enumerate(self.levels) if its.dim is None]
        rest = range(depth + 2, factor.ndim)
        factor = jnp.transpose(factor, (*groups, depth, *turns, depth + 1, *rest))
        count = math.prod(factor.shape[: len(groups) + 1])
        positions = math.prod(factor.shape[len(groups) + 1 : depth + 2])
        return factor.reshape(count, positions, *factor.shape[depth + 2 :])


def recognised(use: Use) -> Site | None:
    """The site that a use is, if it is of a kind that is known."""
    if use.step is None:
        return None
    equation, operand = use.step.equation, use.operand
    kind = (
        dense.recognised(equation, operand)
        or rows.recognised(equation, operand)
        or conv.recognised(equation, operand)
    )
    if kind is None:
        return None
    levels = use.held.levels
    layout = kind.layout(use.held.view)
    outer = tuple(its.dim for its in levels if its.dim is not None)
    return Site(kind, levels, layout._replace(groups=(*outer, *layout.groups)))


def is_rows(site: Site) -> bool:
    """Whether a site looks up rows."""
    return isinstance(site.kind, rows.Rows | rows.Window)
