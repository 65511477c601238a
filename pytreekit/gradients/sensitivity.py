"""How much one example can move a clipped sum, in norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp


def sensitivity(
    bounds: Sequence[Any],
    *,
    rescale: bool,
    nan_safe: bool,
    normalize_by: Any = None,
    mean_over: int | None = None,
) -> Any:
    """The most that adding or removing one example can move the result.

    Derived in the guide to differential privacy, for each combination of options.

    Args:
        bounds: The clip norm of each group of leaves.
        rescale: Whether each group is rescaled to a norm of at most 1.
        nan_safe: Whether gradients that are not finite count for nothing. If not, nothing is bound.
        normalize_by: What the sum is divided by, None for nothing.
        mean_over: The number of examples that a mean is taken over; None where that is not known,
            or no mean is taken. The mean of any number of examples moves no more than the sum.
    """
    if not nan_safe:
        return math.inf
    whole = _root_of_squares([1.0] * len(bounds) if rescale else bounds)
    if normalize_by is not None:
        return whole / normalize_by
    # One of n differs from the mean of the others by twice the bound at most, times 1/n.
    return whole * min(1.0, 2 / mean_over) if mean_over else whole


def _root_of_squares(bounds: Sequence[Any]) -> Any:
    if all(isinstance(bound, int | float) for bound in bounds):
        return math.hypot(*bounds)
    return jnp.sqrt(sum(jnp.square(jnp.asarray(bound)) for bound in bounds))
