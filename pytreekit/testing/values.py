"""Where the values of two trees differ that differ in nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..faults import Fault
from ..show import values
from ..show.assertions import Gap
from ..trees import leaves, paths
from ..trees.paths import KeyPath

WITHOUT_VALUES = (
    (Tracer, "is traced, so it has no values to compare"),
    (jax.ShapeDtypeStruct, "is abstract, so it has no values to compare"),
)


class Tolerance(NamedTuple):
    """By how much inexact values may differ: `atol + rtol * abs(the second)`, as NumPy has it."""

    rtol: float
    atol: float


class Pair(NamedTuple):
    """Two leaves in the same place of two trees, whose values are to be compared."""

    path: KeyPath
    one: Any
    other: Any


def check_values(rows: Iterable[tuple[str, KeyPath, Any]]) -> list[Fault]:
    """PTK001: leaves without values, given as the names of their trees, their paths, and them."""
    return [
        Fault("PTK001", name, paths.text(path), "", values.leaf(leaf), "", fact=why)
        for name, path, leaf in rows
        for kind, why in WITHOUT_VALUES
        if isinstance(leaf, kind)
    ]


def pairs(one: Any, other: Any) -> list[Pair]:
    """The leaves to compare of two trees that have no other differences."""
    rows = zip(paths.leaves_with_paths(one), jax.tree.leaves(other), strict=True)
    return [Pair(path, leaf, its) for (path, leaf), its in rows if _to_compare(leaf, its)]


def _to_compare(one: Any, other: Any) -> bool:
    abstract = any(isinstance(each, jax.ShapeDtypeStruct) for each in (one, other))
    return leaves.holds_values(one) and not abstract


def gaps(both: Iterable[Pair], tolerance: Tolerance, root: str = "") -> Iterator[Gap]:
    """Where the values of leaves differ, leaf by leaf."""
    for path, one, other in both:
        yield from _gap(root + paths.text(path) or "at the root", one, other, tolerance)


def _gap(place: str, one: Any, other: Any, tolerance: Tolerance) -> Iterator[Gap]:
    here, there = _numbers(one), _numbers(other)
    if _close(here, there, tolerance):
        return
    inexact = np.issubdtype(here.dtype, np.inexact)
    near = np.isclose(here, there, *tolerance, equal_nan=True) if inexact else here == there
    if _is_keys(one):  # a key is one value, of several words
        near = near.all(axis=-1)
    number = near.size - int(near.sum())
    first = tuple(np.argwhere(~near)[0].tolist())
    largest = None if _is_keys(one) else _largest(here[~near], there[~near])
    found = leaves.type_told(one)
    yield Gap(place, found, number, near.size, largest, first, (here[first], there[first]))


def _close(here: np.ndarray, there: np.ndarray, tolerance: Tolerance) -> bool:
    """Whether chex finds two arrays close, or equal if they are exact."""
    import chex

    try:
        if np.issubdtype(here.dtype, np.inexact):
            chex.assert_trees_all_close(here, there, **tolerance._asdict())
        else:
            chex.assert_trees_all_equal(here, there)
    except AssertionError:
        return False
    return True


def _largest(here: np.ndarray, there: np.ndarray) -> Any:
    """The largest difference of numbers that differ; None of what are none, such as NaN."""
    if np.issubdtype(here.dtype, np.integer):
        return max(abs(int(a) - int(b)) for a, b in zip(here, there, strict=True))
    if not np.issubdtype(here.dtype, np.inexact):
        return None
    with np.errstate(all="ignore"):
        apart = np.abs(here - there)
    apart = apart[~np.isnan(apart)]
    return apart.max() if apart.size else None


def _is_keys(leaf: Any) -> bool:
    """Whether a leaf is an array of typed PRNG keys."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Any) -> np.ndarray:
    """The values of an array in NumPy's own dtypes: it knows neither keys nor short floats."""
    if isinstance(leaf, jax.Ref):
        leaf = leaf[...]
    if _is_keys(leaf):
        leaf = jax.random.key_data(leaf)
    if isinstance(leaf, np.ma.MaskedArray):
        return np.ma.filled(leaf.astype(object), None)
    array = np.asarray(leaf)
    if jnp.issubdtype(array.dtype, np.floating):
        return array.astype(np.float64)
    if jnp.issubdtype(array.dtype, np.integer):
        unsigned = jnp.issubdtype(array.dtype, np.unsignedinteger)
        return array.astype(np.uint64 if unsigned else np.int64)
    return array
