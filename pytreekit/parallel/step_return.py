"""What a training step returned: the state as it was passed, and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ..faults import Fault
from ..sharding.check import spec_problems
from ..sharding.meshes import Axes
from ..show import values
from ..trees import paths
from ..trees.diff import differences
from ..trees.difference import as_fault
from ..trees.sorts import check_sorts
from .shard_call import ShardLeaf

NEW_STATE, METRICS = "out[0]", "out[1]"


def check_step_return(out: Any, state: Any, name: str) -> list[Fault]:
    """PTK508, PTK205 and PTK104: a pair, the state's own structure, and metrics that are arrays.

    Args:
        out: What the step returned.
        state: The state that it was called with.
        name: What the step calls that.
    """
    if not isinstance(out, tuple) or len(out) != 2:  # noqa: PLR2004  state and metrics
        fact = "a training step must return a pair: the new state, and metrics"
        return [Fault("PTK508", "out", "", "", values.leaf_or_tree(out), "", fact=fact)]
    unsorted = [*check_sorts(out[0], NEW_STATE), *check_sorts(out[1], METRICS)]
    if unsorted:
        return unsorted
    before, after = (jax.tree.map(_shape, tree) for tree in (state, out[0]))
    found = differences(before, after)
    faults = [as_fault(one, name, NEW_STATE) for one in found if one.kind not in {"shape", "dtype"}]
    for path, leaf in paths.leaves_with_paths(out[1]):
        if values.typeof(leaf) is None:
            told = METRICS, paths.text(path), "", values.leaf(leaf), ""
            fact = f"a {type(leaf).__name__} is no JAX type, it cannot be returned"
            faults.append(Fault("PTK104", *told, fact=fact))
    return faults


def _shape(leaf: Any) -> Any:
    aval = values.typeof(leaf)
    return leaf if aval is None else jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def check_new_state(state: Any, before: Sequence[ShardLeaf], axes: Axes) -> list[Fault]:
    """PTK302 and PTK303 for each leaf whose new shape does not fit the spec of the old one.

    Args:
        state: The new state.
        before: The leaves of the old one, which has the same structure.
        axes: The axes of the mesh.
    """
    faults = []
    for old, (path, leaf) in zip(before, paths.leaves_with_paths(state), strict=True):
        aval = values.typeof(leaf)
        for its in spec_problems(spec_of(old), aval.shape, axes):
            there = old.binding.place(old.bound.spec_path)
            told = NEW_STATE, paths.text(path), there, values.leaf(leaf), values.spec(old.spec)
            faults.append(Fault(its.code, *told, fact=its.fact, note=its.note))
    return faults


def spec_of(leaf: ShardLeaf) -> PartitionSpec:
    """The spec of a leaf of a call without faults."""
    return PartitionSpec() if leaf.spec is None else leaf.spec
