"""Where the values of two trees differ that differ in nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..show import assertions, values
from ..show.assertions import Gap
from ..trees import paths


def gaps(
    one: Any, other: Any, rtol: float, atol: float, names: tuple[str, str], root: str = ""
) -> Iterator[str]:
    """Each leaf whose values differ, of two trees that have no other differences."""
    for (path, leaf), its in zip(paths.leaves_with_paths(one), jax.tree.leaves(other), strict=True):
        gap = _gap(leaf, its, rtol, atol)
        if gap is not None:
            place = root + paths.text(path) or "at the root"
            yield assertions.gap(place, values.leaf(leaf), gap, names)


def _gap(one: Any, other: Any, rtol: float, atol: float) -> Gap | None:
    """Where the values of two leaves differ, None where chex finds them close."""
    import chex

    if any(values.typeof(its) is None or _is_abstract(its) for its in (one, other)):
        return None  # no array: diff has compared it
    here, there = _numbers(one), _numbers(other)
    inexact = np.issubdtype(here.dtype, np.inexact)
    try:
        if inexact:
            chex.assert_trees_all_close(here, there, rtol=rtol, atol=atol)
        else:
            chex.assert_trees_all_equal(here, there)
    except AssertionError:
        near = np.isclose(here, there, rtol, atol, equal_nan=True) if inexact else here == there
        where = np.argwhere(~near)
        first = tuple(where[0].tolist())
        with np.errstate(all="ignore"):
            apart = np.abs(here[~near].astype(object) - there[~near].astype(object))
        return Gap(len(where), near.size, max(apart), first, (here[first], there[first]))
    return None


def _is_abstract(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _numbers(leaf: Any) -> np.ndarray:
    """The values of an array in NumPy's own dtypes: it knows neither keys nor short floats."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    if jnp.issubdtype(array.dtype, np.floating):
        return array.astype(np.float64)
    if jnp.issubdtype(array.dtype, np.integer):
        unsigned = jnp.issubdtype(array.dtype, np.unsignedinteger)
        return array.astype(np.uint64 if unsigned else np.int64)
    return array
