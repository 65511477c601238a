"""The leaves that are differentiated: of float or complex dtype, unless they are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..show import values


def is_float(leaf: Any) -> bool:
    """Whether `jax.grad` takes a leaf: an array or a number that is float or complex."""
    aval = values.typeof(leaf)
    return aval is not None and jnp.issubdtype(aval.dtype, np.inexact)


class Floats:
    """The differentiated leaves of trees, and how these are put together from other ones.

    Attributes:
        leaves: The differentiated leaves.
        indices: Their places among all leaves.
        trees: The trees of all that is differentiated.
        structure: The structure of these together.

    Args:
        trees: The trees.
        chosen: Whether each leaf may be differentiated; None for all.
    """

    def __init__(self, trees: tuple[Any, ...], chosen: Sequence[bool] | None = None) -> None:
        self.trees = trees
        self._all, self.structure = jax.tree.flatten(trees)
        may = [True] * len(self._all) if chosen is None else chosen
        pairs = enumerate(zip(self._all, may, strict=True))
        self.indices = [index for index, (leaf, its) in pairs if its and is_float(leaf)]
        self.leaves = [self._all[index] for index in self.indices]

    def with_leaves(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The trees with others in the place of the differentiated leaves."""
        return self.structure.unflatten(self._filled(self._all.copy(), leaves))

    def gradient(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Trees of gradients, with None for what is not differentiated."""
        return self.structure.unflatten(self._filled([None] * len(self._all), gradients))

    def _filled(self, whole: list[Any], leaves: Sequence[Any]) -> list[Any]:
        for index, leaf in zip(self.indices, leaves, strict=True):
            whole[index] = leaf
        return whole
