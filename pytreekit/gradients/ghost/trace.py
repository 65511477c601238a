"""What stands in the place of a gradient that is never formed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..norms import square_sum
from .factors import Factors, formed, joined, square, weighted_sum
from .verdicts import Part


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """The gradient of one parameter, by what makes it up: of one example, or of many.

    Attributes:
        parts: What the parameter is made up of. Static.
        shape: The shape of the parameter. Static.
        guarded: For each part, whether factors are kept, of which those that went in are finite.
            Static.
        kept: For each part, these factors; or for each of its sites what they are made of.
        squared: The square of the norm.
    """

    parts: tuple[Part, ...] = dataclasses.field(metadata={"static": True})
    shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    guarded: tuple[bool, ...] = dataclasses.field(metadata={"static": True})
    kept: list[Any]
    squared: Array

    def square(self) -> Array:
        """The square of the norm of the gradient of one example."""
        return self.squared

    def weighted_sum(self, weights: Array, keep: Array | None) -> Array:
        """The sum of the gradients of many examples, each times its weight.

        Args:
            weights: The weights, `float[batch]`.
            keep: Which examples to take; the others may be NaN.
        """
        sums = []
        for part, guarded, kept in zip(self.parts, self.guarded, self.kept, strict=True):
            if guarded:
                terms = [Factors(kept.left, _selected(kept.right, keep))]
            else:  # chosen before factors are made, so that none of these is held for long
                good = jax.tree.map(lambda leaf: _selected(leaf, keep), kept)
                terms = jax.vmap(functools.partial(terms_of, part))(good)
            # Weights go with the factor that is chosen anew in any case. What came back is needed
            # without them for the sum of a bias.
            sums.append(weighted_sum(terms, part.sizes, weights, on_left=not guarded))
        return _undone(self.parts, sums, self.shape)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Square:
    """The square of the norm of the gradient of one parameter, where no more is known of it."""

    value: Array

    def square(self) -> Array:
        """The square of the norm of the gradient of one example."""
        return self.value


def terms_of(part: Part, kept: Sequence[tuple[Any, Any]]) -> list[Factors]:
    """The factors of one example, from what went in at each site and what came back."""
    return [site.factors(*its) for site, its in zip(part.sites, kept, strict=True)]


def square_of(part: Part, terms: Sequence[Factors]) -> Array:
    """The square of the norm of what terms make up, in the way that is less work."""
    if part.pays:
        return square(joined([its.balanced() for its in terms]))
    groups = terms[0].right.shape[0]
    return square_sum(formed(terms, (groups, *part.sizes[1:])))


def gradient(
    parts: Sequence[Part], terms: Sequence[Sequence[Factors]], shape: tuple[int, ...]
) -> Array:
    """The gradient of one example after all.

    Args:
        parts: What the parameter is made up of.
        terms: For each part, the factors that each of its sites gives.
        shape: The shape of the parameter.
    """
    sums = [formed(its, part.sizes) for part, its in zip(parts, terms, strict=True)]
    return _undone(parts, sums, shape)


def _selected(leaf: Any, keep: Array | None) -> Array:
    """An array with the batch in front, and zeros for the examples that are not taken."""
    leaf = jnp.asarray(leaf)
    if keep is None:
        return leaf
    return jnp.where(jnp.expand_dims(keep, range(1, leaf.ndim)), leaf, jnp.zeros_like(leaf))


def _undone(parts: Sequence[Part], sums: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Gradients with regard to parts of a parameter as one with regard to all of it."""
    found = []
    for part, its in zip(parts, sums, strict=True):
        view = part.layout.view
        found.append(view.undone(its.reshape(view.shape), shape))
    return sum(found[1:], found[0])


def is_trace(leaf: Any) -> bool:
    """Whether this stands in the place of a gradient."""
    return isinstance(leaf, Trace | Square)
