"""Inside `jax.shard_map`: the mesh axes over which a value differs from device to device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def in_shard_map() -> bool:
    """Whether this is being traced inside `jax.shard_map`."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def varying_axes(value: Any) -> frozenset[Any]:
    """The mesh axes over which an array, or a shape that `jax.eval_shape` gives, differs."""
    its = _manual_type(value)
    return frozenset() if its is None else its.varying


def unequal_axes(value: Any) -> frozenset[Any]:
    """The mesh axes over which a value is not known to be whole and the same on every device."""
    its = _manual_type(value)
    return frozenset() if its is None else its.varying | its.unreduced | its.reduced


def _manual_type(value: Any) -> Any:
    aval = value if hasattr(value, "manual_axis_type") else jax.typeof(value)
    return getattr(aval, "manual_axis_type", None)


def varying_over(value: Any, axes: frozenset[Any]) -> Any:
    """A value that to JAX differs over these mesh axes, besides those over which it does.

    A gradient with regard to what does not differ is summed over all devices by JAX.
    """
    new = axes - varying_axes(value)
    return jax.lax.pcast(value, tuple(sorted(new)), to="varying") if new else value


def summed_over(value: Any, axes: frozenset[Any]) -> Any:
    """The sum of a value over the devices of these mesh axes."""
    return jax.lax.psum(value, tuple(sorted(axes))) if axes else value


def zeros_like(tree: Any) -> Any:
    """Zeros for what `jax.eval_shape` gives, differing over the same mesh axes."""

    def zeros(aval: jax.ShapeDtypeStruct) -> Any:
        return varying_over(jnp.zeros(aval.shape, aval.dtype), varying_axes(aval))

    return jax.tree.map(zeros, tree)
