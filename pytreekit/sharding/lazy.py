"""What is read like an array, and only when it is needed: the shape and dtype that it will have."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..show import values as shown

_SAFETENSORS = {
    "BOOL": "bool", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    **{f"{letter}{bits}": f"{kind}{bits}"
       for letter, kind in (("F", "float"), ("I", "int"), ("U", "uint"))
       for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""What safetensors calls dtypes."""


class Typed(NamedTuple):
    """A shape, and a dtype as JAX has it."""

    shape: tuple[int, ...]
    dtype: Any


def typed(leaf: Any) -> Typed | None:
    """The shape and dtype of an array, or of what is read like one; None for all else."""
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return Typed(leaf.shape, leaf.dtype)
    if leaf is None or isinstance(leaf, str | bytes | type | bool | int | float | complex):
        return None
    aval = shown.typeof(leaf)
    if aval is not None:
        return Typed(aval.shape, aval.dtype)
    return _lazily_typed(leaf) if hasattr(type(leaf), "__getitem__") else None


def _lazily_typed(leaf: Any) -> Typed | None:
    """That of what has values once it is indexed, such as a variable of HDF5 or safetensors."""
    try:
        if hasattr(leaf, "get_shape") and hasattr(leaf, "get_dtype"):
            name = leaf.get_dtype()
            return Typed(tuple(leaf.get_shape()), _dtype(_SAFETENSORS.get(name, name)))
        return Typed(tuple(map(int, leaf.shape)), _dtype(leaf.dtype))
    except Exception:  # noqa: BLE001  a user's object may raise anything when asked
        return None


def is_of_numbers(dtype: Any) -> bool:
    """Whether a dtype is one of numbers, or of bools."""
    return jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_)


def _dtype(dtype: Any) -> Any:
    """A dtype of NumPy, TensorStore or another library as JAX has it: of 32 bits, by default."""
    its = getattr(dtype, "numpy_dtype", dtype)
    if not is_of_numbers(its):
        raise TypeError("JAX has no such dtype")
    return jax.dtypes.canonicalize_dtype(jnp.dtype(its))
