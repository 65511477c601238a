"""A computation after another one that it has nothing to share with, held apart from that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import jaxpr_as_fun, jaxprs_in_params


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
    run, names = jaxpr_as_fun(closed), set(_operations(closed.jaxpr))
    if "scan" not in names or "conv_general_dilated" in names:
        return run()

    def none() -> list[Array]:
        return [jnp.zeros(its.shape, its.dtype) for its in closed.out_avals]

    return lax.cond(jnp.any(keep), run, none)


def _operations(jaxpr: Any) -> Iterator[str]:
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in jaxprs_in_params(equation.params):
            yield from _operations(inner)
