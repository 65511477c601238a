"""A computation after another one that it has nothing to share with, held apart from that."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import jaxpr_as_fun

from .ghost.equations import equations


def if_any(keep: Array, fun: Callable[[], list[Array]]) -> list[Array]:
    """What a function gives, or zeros if there is nothing to keep.

    Loops start from zeros, and XLA makes these once for all loops: those of a second pass would
    hold as much memory in the first one as it takes itself. In a branch of its own it does not.
    Convolutions in a branch are slow on a CPU.

    Args:
        keep: What there is to keep.
        fun: The function.
    """
    closed = jax.make_jaxpr(fun)()
    run = jaxpr_as_fun(closed)
    names = {equation.primitive.name for equation in equations(closed.jaxpr)}
    if "scan" not in names or "conv_general_dilated" in names:
        return run()

    def none() -> list[Array]:
        return [jnp.zeros(its.shape, its.dtype) for its in closed.out_avals]

    return lax.cond(jnp.any(keep), run, none)
