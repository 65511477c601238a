"""PTK601 to PTK604: what one example has, against what the annotations declare of it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ..compat import is_batched_sparse
from ..faults import Fault
from ..show import values
from ..specs.called import InArgument
from ..specs.finding import Finding, Revalue
from ..trees import paths
from ..trees.paths import KeyPath
from . import annotations
from .call import Call
from .dimensions import Names
from .fitting import UNKNOWN, Fitting, Misfit
from .leaves import Leaf, leaves

MOST_AXES = 4
"""How many other axes of a leaf are tried, to repair its fault."""


def check_types(call: Call) -> list[Finding]:
    """Every part of an example that does not fit the annotation of its parameter."""
    if call.declared is None or call.mismatched:
        return []
    with annotations.context():
        return _arguments(call, Names())


def check_returned(call: Call, out: Any) -> list[Fault]:
    """Every part of what was returned for one example that does not fit its annotation."""
    if call.declared is None or call.declared.returns is ...:
        return []
    names = Names()
    hint = call.declared.returns
    with annotations.context():
        _arguments(call, names)  # they give the names their sizes
        fitting = Fitting("out", lambda leaf, path: _whole(leaf), names)
        return [
            Fault(
                misfit.why.code, "out", paths.text(misfit.path), "", misfit.found, "",
                fact=misfit.why.fact, beside=misfit.why.beside,
                note=f"declared {annotations.text(misfit.hint)}",
            )
            for misfit in fitting.misfits(out, hint)
        ]  # fmt: skip


def _arguments(call: Call, names: Names) -> list[Finding]:
    """What does not fit in the arguments; the names of dimensions get their sizes."""
    by_position: dict[int, list[Leaf]] = {}
    for leaf in leaves(call):
        by_position.setdefault(leaf.position, []).append(leaf)
    found = []
    for position, hint in declared_arguments(call).items():
        its = {leaf.bound.path: leaf for leaf in by_position.get(position, ())}
        if any(leaf.axis is not None and not leaf.has_axis for leaf in its.values()):
            continue  # no example can be taken of it: that is another fault
        if any(is_batched_sparse(leaf.bound.leaf) for leaf in its.values()):
            continue  # jaxtyping does not speak of it
        binding = call.bindings[position]
        fitting = Fitting(binding.name, functools.partial(_example, its), names)
        misfits = fitting.misfits(binding.tree, hint)
        found += [_finding(call, position, misfit, its.get(misfit.path)) for misfit in misfits]
    return found


def declared_arguments(call: Call) -> dict[int, Any]:
    """The annotation of each argument that has one, by position, in the order of parameters."""
    declared = call.declared
    if declared is None:
        return {}
    order = {name: number for number, name in enumerate(declared.parameters)}
    rest = declared.keywords
    named = [
        (position, its.parameter if its.parameter in declared.names else rest)
        for position, its in enumerate(call.passed)
    ]
    hinted = [(position, name) for position, name in named if name in order]
    hinted.sort(key=lambda pair: order[pair[1]])
    return {position: declared.parameters[name] for position, name in hinted}


def _example(its: Mapping[KeyPath, Leaf], value: Any, path: KeyPath) -> Any:
    """What one example has of a leaf: dtype and shape, None where it is no array."""
    leaf = its.get(path)
    if leaf is None:
        above = (its.get(path[:depth]) for depth in range(len(path)))
        # A part of an object that is no node goes as it is; static data of a node may be anything.
        return _whole(value) if any(above) else UNKNOWN
    aval = values.typeof(value)
    if aval is None:
        return _whole(value)
    return jax.ShapeDtypeStruct(example_shape(aval.shape, leaf.axis), aval.dtype)


def _whole(leaf: Any) -> Any:
    """A leaf by dtype and shape, None where it is no array."""
    aval = values.typeof(leaf)
    if aval is None:  # JAX has no arrays of text, but it hands them on
        return leaf if isinstance(leaf, np.ndarray) else None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def example_shape(shape: Sequence[Any], axis: Any) -> tuple[Any, ...]:
    """A shape without the mapped axis."""
    if type(axis) is not int:
        return tuple(shape)
    axis %= len(shape)
    return (*shape[:axis], *shape[axis + 1 :])


def _finding(call: Call, position: int, misfit: Misfit, leaf: Leaf | None) -> Finding:
    declared = f"declared {annotations.text(misfit.hint)}"
    if leaf is None:
        binding = call.bindings[position]
        place = binding.name, paths.text(misfit.path), binding.spec_name
        fault = Fault(
            misfit.why.code, *place, misfit.found, "",
            fact=misfit.why.fact, note=declared, beside=misfit.why.beside,
        )  # fmt: skip
        return Finding(fault)
    note = declared
    if type(leaf.axis) is int:
        note = f"one example is {misfit.found}, {declared}"
    fault = leaf.fault(misfit.why.code, fact=misfit.why.fact, note=note, beside=misfit.why.beside)
    if not call.governs(position) or leaf.shape is None or leaf.is_split:
        return Finding(fault)
    axes = [None, *range(min(len(leaf.shape), MOST_AXES))]
    now = leaf.axis if leaf.axis is None else leaf.axis % len(leaf.shape)
    others = [axis for axis in axes if axis != now]
    return Finding(
        fault, tuple(InArgument(position, Revalue(misfit.path, axis)) for axis in others)
    )
