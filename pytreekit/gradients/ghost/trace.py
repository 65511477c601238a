"""What stands in the place of a gradient that is never formed."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .classify import undone
from .sites import Site


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """The gradient of one parameter, by what makes it up: of one example, or of many.

    Attributes:
        site: Where the parameter is used. Static.
        given: What the example gives there.
        back: The gradient of the loss with regard to what comes out.
    """

    site: Site = dataclasses.field(metadata={"static": True})
    given: Any
    back: Any

    def square(self) -> Array:
        """The square of the norm of the gradient of one example."""
        return self.site.kind.square(self.given, self.back)

    def weighted_sum(self, weights: Array, keep: Array | None) -> Array:
        """The sum of the gradients of many examples, each times its weight.

        Args:
            weights: The weights, `float[batch]`.
            keep: Which examples to take; the others may be NaN, which a weight of 0 would not undo.
        """
        given, back = (_selected(jnp.asarray(its), keep) for its in (self.given, self.back))
        return undone(self.site.forms, self.site.kind.weighted_sum(weights, given, back))


def _selected(leaf: Array, keep: Array | None) -> Array:
    if keep is None:
        return leaf
    return jnp.where(jnp.expand_dims(keep, range(1, leaf.ndim)), leaf, jnp.zeros_like(leaf))


def is_trace(leaf: Any) -> bool:
    """Whether this stands in the place of a gradient."""
    return isinstance(leaf, Trace)
