"""Which leaves vary over the axis of the `jax.vmap` that is being traced."""

from __future__ import annotations

from typing import Any

import jax

from ..show import values


def varying(tree: Any) -> tuple[bool, ...]:
    """Whether each leaf of `tree` is batched, asked from within the function that is mapped.

    No tracer says so publicly, but the batching rule of a `custom_vmap` is told.
    """
    try:
        leaves = jax.tree.leaves(tree)
    except ValueError:  # a dict whose keys do not sort: that is told as such
        return ()
    seen = [False] * len(leaves)
    arrays = [index for index, leaf in enumerate(leaves) if values.typeof(leaf) is not None]

    @jax.custom_batching.custom_vmap
    def look(*arrays: Any) -> tuple[Any, ...]:
        return arrays

    @look.def_vmap
    def told(axis_size: Any, in_batched: list[bool], *its: Any) -> tuple[Any, Any]:
        for index, batched in zip(arrays, in_batched, strict=True):
            seen[index] = batched
        return its, tuple(in_batched)

    if arrays:
        look(*(leaves[index] for index in arrays))
    return tuple(seen)
