"""Values where they are to be: placed before a call, laid out within one, whatever the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from ..sharding.resolve import axes_by_dimension, normal


def placed(
    leaves: Sequence[Any], specs: Sequence[PartitionSpec], mesh: Any, copied: int = 0
) -> list[Any]:
    """The leaves where their specs say; those that are being traced are laid out there.

    Args:
        leaves: Arrays, or what JAX takes for them.
        specs: The spec of each.
        mesh: The mesh.
        copied: How many of the first are copied for sure, unless they are there: their buffers are
            to be donated, and may be those of something that lives on.
    """
    shardings = {spec: NamedSharding(mesh, spec) for spec in set(specs)}
    rows = enumerate(zip(leaves, specs, strict=True))
    return [
        constrained(leaf, spec, mesh)
        if isinstance(leaf, Tracer)
        else _put(leaf, shardings[spec], copy=number < copied)
        for number, (leaf, spec) in rows
    ]


def _put(leaf: Any, sharding: NamedSharding, *, copy: bool) -> Any:
    if isinstance(leaf, jax.Array):
        its = leaf.sharding
        if its == sharding or (
            isinstance(its, NamedSharding)
            and its.mesh == sharding.mesh
            and its.is_equivalent_to(sharding, leaf.ndim)
        ):
            return leaf
        # Even by may_alias=False, a device that has the whole already keeps its own buffer.
        leaf = jnp.copy(leaf) if copy else leaf
    return jax.device_put(leaf, sharding, may_alias=False if copy else None)


def constrained(value: Any, spec: PartitionSpec, mesh: Any) -> Any:
    """A value that is being traced, laid out by a spec over Auto and Explicit axes."""
    explicit, auto = (_of_type(mesh, kind) for kind in (AxisType.Explicit, AxisType.Auto))
    if explicit:
        value = jax.sharding.reshard(value, NamedSharding(mesh, _only(spec, explicit)))
    if auto:
        there = NamedSharding(mesh, _only(spec, auto))
        value = jax.lax.with_sharding_constraint(value, there)
    return value


def _of_type(mesh: Mesh | AbstractMesh, kind: AxisType) -> frozenset[str]:
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return frozenset(name for name, its in pairs if its == kind)


def _only(spec: PartitionSpec, names: frozenset[str]) -> PartitionSpec:
    """A spec without the axes that are not named."""
    return normal([tuple(a for a in axes if a in names) for axes in axes_by_dimension(spec)])
