"""Repairs of the call itself, where its specs are not to blame: in words, and as a change."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..show import values
from ..specs.called import Advice
from ..trees import paths
from ..trees.paths import KeyPath
from .call import Call
from .leaves import Leaf, is_size


def without_keyword(call: Call, name: str) -> Advice:
    """Bind a static keyword before the function is mapped."""

    def bound(call: Call) -> Call:
        rest = {other: value for other, value in call.kwargs.items() if other != name}
        return dataclasses.replace(call, kwargs=rest)

    fun = values.function(call.fun)
    return Advice(f"vmap functools.partial({fun}, {name}=...) instead", bound)


def split_key(leaf: Leaf, size: Any) -> list[Advice]:
    """Split a PRNG key, typed or raw, into one for each example, where it is known how many."""
    aval = values.typeof(leaf.bound.leaf)
    if not is_size(size) or aval is None:
        return []
    if jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        keys = jax.ShapeDtypeStruct((size,), aval.dtype)
    elif aval.dtype == np.uint32 and aval.shape in {(2,), (4,)}:
        keys = jax.ShapeDtypeStruct((size, *aval.shape), aval.dtype)
    else:
        return []
    place = leaf.fault("").place
    key = place if not aval.shape or aval.dtype == np.uint32 else "key"
    change = _new_argument(leaf.position, leaf.bound.path, keys)
    return [Advice(f"pass jax.random.split({key}, {size}) for {place}", change)]


def stack_list(position: int, name: str, argument: Any) -> list[Advice]:
    """Stack a list of trees that was meant as a batch: each of its leaves gets a leading axis."""
    if not isinstance(argument, list | tuple) or not argument:
        return []
    structures = {jax.tree.structure(element) for element in argument}
    if len(structures) != 1:
        return []
    columns = zip(*map(jax.tree.leaves, argument), strict=True)
    stacked = [_stacked(column) for column in columns]
    if not stacked or None in stacked:
        return []
    new = structures.pop().unflatten(stacked)
    one_leaf = paths.is_leaf(argument[0])
    how = f"jnp.stack({name})" if one_leaf else f"jax.tree.map(lambda *a: jnp.stack(a), *{name})"
    if one_leaf and isinstance(argument[0], bool | int | float | complex):
        how = f"jnp.asarray({name})"
    change = _new_argument(position, (), new)
    return [Advice(f"pass {how} for {name}, a {type(argument).__name__} is no batch", change)]


def _stacked(column: tuple[Any, ...]) -> jax.ShapeDtypeStruct | None:
    """What stacking leaves gives, None where they cannot be stacked."""
    avals = [values.typeof(leaf) for leaf in column]
    if None in avals or len({aval.shape for aval in avals}) != 1:
        return None
    return jax.ShapeDtypeStruct((len(avals), *avals[0].shape), avals[0].dtype)


def _new_argument(position: int, path: KeyPath, new: Any) -> Callable[[Call], Call]:
    return lambda call: call.with_argument(position, path, new)


def any_size() -> Advice:
    """Give the axis a size; any would do."""
    return Advice(
        "map an argument, or pass axis_size=N for N copies",
        lambda call: dataclasses.replace(call, axis_size=1),
    )


def other_size(size: Any) -> list[Advice]:
    """Another axis_size, as an int, where it is a whole number."""
    try:
        whole = int(size)
    except (TypeError, ValueError, OverflowError):
        return []
    if not paths.same(whole, size):
        return []
    change = functools.partial(dataclasses.replace, axis_size=whole)
    return [Advice(f"axis_size = {whole}", change)]


def unregistered(leaf: Any) -> str:
    """Why something that holds arrays is no pytree, where that is easily said."""
    if isinstance(leaf, np.ma.MaskedArray):
        return "pass .filled(...) and the mask as two arrays"
    if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
        return f"{type(leaf).__name__} is a dataclass, not registered as a pytree"
    return ""
