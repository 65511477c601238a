"""What files say of arrays: shapes and dtypes, checked before anything is made of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .opening import brief

MOST_DIMENSIONS = 64
MOST_ELEMENTS = 2**63 - 1

_KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


def wrong_shape(shape: Any) -> str:
    """What is wrong with a shape, `""` for nothing."""
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        return f"has the shape {brief(shape)}, sizes are ints of 0 or more"
    if len(shape) > MOST_DIMENSIONS:
        return f"has {len(shape):,} dimensions, {MOST_DIMENSIONS} are the most"
    if math.prod(size for size in shape if size) > MOST_ELEMENTS:
        return f"has the shape {brief(shape)}: no machine counts as many elements"
    return ""


@functools.lru_cache(256)
def dtype_of(name: str) -> Any:
    """A dtype by its name, None where JAX has none of that name."""
    if name in _KEYS:
        make: Callable[[], Any] = functools.partial(jax.random.key, 0, impl=_KEYS[name])
        return jax.eval_shape(make).dtype
    try:
        dtype = np.dtype(name)
        if str(dtype) != name or not (jnp.issubdtype(dtype, np.number) or dtype == np.bool_):
            return None
        with jax.enable_x64(True):
            return jax.eval_shape(lambda: jnp.zeros((), dtype)).dtype  # JAX refuses float128, >f4
    except (TypeError, ValueError, SyntaxError):
        return None
