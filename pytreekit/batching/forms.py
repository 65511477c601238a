"""What an axis may be besides an int: a function of the leaf, or `SPLIT` for a key."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from ..compat import is_batched_sparse
from ..show import values

RAW_KEYS = ((2,), (4,))
"""The shapes of a raw key, of threefry and of rbg."""


class Split:
    """The type of `SPLIT`.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> noisy = ptk.vmap(lambda x, key: x + jax.random.normal(key), in_axes=(0, ptk.SPLIT))
        >>> len(set(noisy(jnp.zeros(4), jax.random.key(0)).tolist()))
        4
    """

    def __repr__(self) -> str:
        return "SPLIT"

    def __reduce__(self) -> str:
        return "SPLIT"  # one object, however it is copied


SPLIT: Final = Split()
"""The axis of a PRNG key that each example gets one of its own from: it is split.

Stands in `in_axes` where an axis stands, over one key or a tree of keys, typed or raw:
`ptk.vmap(init, in_axes=ptk.SPLIT, axis_size=8)(key)`. Example i gets key i of
`jax.random.split(key, axis_size)`.
"""


@dataclasses.dataclass(frozen=True)
class IfArray:
    """What `if_array` returns: a function of a leaf."""

    axis: int | None

    def __call__(self, *of: Any) -> int | None:
        """The axis for an array, None for anything else; of a leaf, or of its path and a leaf."""
        return self.axis if is_array(of[-1]) else None

    def __repr__(self) -> str:
        return f"if_array({self.axis})"


def if_array(axis: int | None) -> IfArray:
    """Map the arrays of a tree over an axis, and share all that is no array.

    Stands in `in_axes` where an axis stands, for trees that hold functions, strings or numbers
    beside their arrays, such as an Equinox module.

    Args:
        axis: The axis to map arrays over.

    Returns:
        A function `leaf -> int | None`, which in_axes may hold in the place of an axis.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> layers = {"w": jnp.ones((8, 3, 3)), "activation": jax.nn.relu}
        >>> apply = ptk.vmap(lambda layer, x: layer["activation"](layer["w"] @ x),
        ...                  in_axes=(ptk.if_array(0), None))
        >>> apply(layers, jnp.ones(3)).shape
        (8, 3)

    After `eqx.if_array` of Equinox.
    """
    return IfArray(axis)


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array that JAX can map, or stands for one."""
    kinds = jax.Array | np.ndarray | jax.ShapeDtypeStruct
    return isinstance(leaf, kinds) and values.typeof(leaf) is not None


def is_function(axis: Any) -> bool:
    """Whether an axis is a function of the leaf."""
    return callable(axis) and not isinstance(axis, type)


def is_axis(axis: Any) -> bool:
    """Whether `axis` is what JAX takes for one: exactly an int, or None."""
    return axis is None or type(axis) is int


def is_form(axis: Any) -> bool:
    """Whether `axis` is what in_axes may hold in the place of an axis."""
    return axis is SPLIT or is_function(axis)


def resolved(axis: Any, leaf: Any) -> Any:
    """The axis of a leaf: what a function says, else the axis itself."""
    return axis(leaf) if is_function(axis) else axis


def is_key(leaf: Any) -> bool:
    """Whether a leaf is one PRNG key, typed or raw."""
    aval = values.typeof(leaf)
    if aval is None:
        return False
    if jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return aval.shape == ()
    if aval.dtype != np.uint32 or aval.shape not in RAW_KEYS:
        return False
    return aval.shape == jax.eval_shape(jax.random.PRNGKey, 0).shape  # of the default generator


def can_be_sliced(leaf: Any) -> bool:
    """Whether chunks can be taken of a leaf: not of a Ref, nor of a sparse matrix."""
    return not (isinstance(leaf, jax.Ref) or is_batched_sparse(leaf))
