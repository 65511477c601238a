"""What flax's metadata say of each leaf: read by flax's own functions, whatever its fields are."""

from __future__ import annotations

import sys
from typing import Any

import jax
from jax.sharding import PartitionSpec


def metadata_of(tree: Any) -> list[PartitionSpec | None] | None:
    """The spec in the metadata of each leaf, None where it has none; None where no leaf has any.

    In flattening order. The spec may have logical names. An empty one counts as none: flax gives it
    to what has no metadata as well.
    """
    boxes = _boxes()
    if not boxes:
        return None
    try:
        nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, boxes))
    except ValueError:  # keys that do not sort: told by whoever flattens the tree itself
        return None
    if not any(isinstance(node, boxes) for node in nodes):
        return None
    found: list[PartitionSpec | None] = []
    for node in nodes:
        spec = _read(node) if isinstance(node, boxes) else None
        found += [spec] * len(jax.tree.leaves(node))
    return found if any(spec is not None for spec in found) else None


def _boxes() -> tuple[type, ...]:
    """The boxes of flax that have metadata, as far as it is loaded: else no tree has any."""
    linen, nnx = sys.modules.get("flax.linen"), sys.modules.get("flax.nnx")
    kinds = (
        getattr(getattr(linen, "meta", None), "AxisMetadata", None),
        getattr(nnx, "Variable", None),
    )
    return tuple(kind for kind in kinds if isinstance(kind, type))


def _read(box: Any) -> PartitionSpec | None:
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(box, nnx.Variable):
        told = jax.tree.leaves(nnx.get_partition_spec(box))
    else:
        told = jax.tree.leaves(sys.modules["flax.linen"].get_partition_spec(box))
    spec = told[0] if len(told) == 1 else None
    return spec if isinstance(spec, PartitionSpec) and len(spec) else None
