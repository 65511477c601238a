"""What stands in the place of a gradient that is never formed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..norms import square_sum, total
from .factors import Factors, formed, joined, square, weighted_sum
from .verdicts import Part


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """The gradient of one parameter, by what makes it up: of one example, or of many.

    Attributes:
        parts: What the parameter is made up of. Static.
        shape: The shape of the parameter. Static.
        kept: For each site of each part, the other operands and what comes back.
    """

    parts: tuple[Part, ...] = dataclasses.field(metadata={"static": True})
    shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    kept: list[list[tuple[Any, Any]]]

    def square(self) -> Array:
        """The square of the norm of the gradient of one example."""
        return total([_square(*its) for its in zip(self.parts, self.kept, strict=True)])

    def formed(self) -> Array:
        """The gradient of one example after all."""
        found = [
            part.layout.view.undone(_formed(part, kept), self.shape)
            for part, kept in zip(self.parts, self.kept, strict=True)
        ]
        return sum(found[1:], found[0])

    def weighted_sum(self, weights: Array, keep: Array | None) -> Array:
        """The sum of the gradients of many examples, each times its weight.

        Args:
            weights: The weights, `float[batch]`.
            keep: Which examples to take; the others may be NaN, which a weight of 0 would not undo.
        """
        found = []
        for part, kept in zip(self.parts, self.kept, strict=True):
            good = jax.tree.map(lambda leaf: _selected(leaf, keep), kept)
            terms = jax.vmap(functools.partial(_terms, part))(good)
            its = weighted_sum(terms, part.sizes, weights)
            found.append(part.layout.view.undone(_shaped(part, its), self.shape))
        return sum(found[1:], found[0])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Square:
    """The square of the norm of the gradient of one parameter, where no more is known of it."""

    value: Array

    def square(self) -> Array:
        """The square of the norm of the gradient of one example."""
        return self.value


def _terms(part: Part, kept: Sequence[tuple[Any, Any]]) -> list[Factors]:
    return [site.factors(*its) for site, its in zip(part.sites, kept, strict=True)]


def _square(part: Part, kept: Sequence[tuple[Any, Any]]) -> Array:
    return square_of(part, _terms(part, kept))


def square_of(part: Part, terms: Sequence[Factors]) -> Array:
    """The square of the norm of what terms make up, in the way that is less work."""
    if part.pays:
        return square(joined(terms))
    groups = terms[0].right.shape[0]
    return square_sum(formed(terms, (groups, *part.sizes[1:])))


def _formed(part: Part, kept: Sequence[tuple[Any, Any]]) -> Array:
    return _shaped(part, formed(_terms(part, kept), part.sizes))


def _shaped(part: Part, its: Array) -> Array:
    return its.reshape(part.layout.view.shape)


def _selected(leaf: Any, keep: Array | None) -> Array:
    leaf = jnp.asarray(leaf)
    if keep is None:
        return leaf
    return jnp.where(jnp.expand_dims(keep, range(1, leaf.ndim)), leaf, jnp.zeros_like(leaf))


def is_trace(leaf: Any) -> bool:
    """Whether this stands in the place of a gradient."""
    return isinstance(leaf, Trace | Square)
