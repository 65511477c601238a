"""PTK108, and PTK201 to PTK204 in out_axes: checked on what the function returns."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from ..compat import is_batched_sparse
from ..faults import Fault
from ..show import values
from ..specs.bind import Binding, Bound
from ..specs.finding import Finding, Replace, Revalue
from ..specs.hints import with_hints
from ..specs.repair import change, respecified
from ..trees.structures import StructureCache


class Refusal(NamedTuple):
    """Why an output does not fit, in text alone: it outlives the tracers of the output."""

    faults: tuple[Fault, ...]
    repaired: Any


class PlannedOutput(NamedTuple):
    """A leaf of what a mapped function returns, and what becomes of it.

    Attributes:
        path: Its path in the output, as `jax.tree_util.keystr` prints it.
        example: Its dtype and shape for one example, `"f32[8]"`.
        varies: Whether it depends on what is mapped; if not, an axis holds copies of it.
        axis: Where the batch axis goes, None where there is none.
        found: Its dtype and shape with that axis, `"f32[32,8]"`.
        spec_path: The place in out_axes that says so.
    """

    path: str
    example: str
    varies: bool
    axis: int | None
    found: str
    spec_path: str


@dataclasses.dataclass(frozen=True)
class Output:
    """What a mapped function returned for one example, and the out_axes that it is to get.

    Attributes:
        out_axes: A prefix of the output.
        tree: The output.
        varies: Whether each leaf varies over the mapped axis, in flattening order; empty where
            that is not known.
    """

    out_axes: Any
    tree: Any
    varies: tuple[bool, ...] = ()

    @functools.cached_property
    def binding(self) -> Binding:
        """The out_axes bound to the output."""
        return Binding(self.out_axes, self.tree, "out", "out_axes", is_batched_sparse, fill=0)

    def repaired(self, repairs: Sequence[Replace | Revalue]) -> Output:
        """A copy with repairs written into out_axes."""
        return dataclasses.replace(self, out_axes=respecified(self.binding, repairs))

    def change(self, new: Output, repairs: Sequence[Any]) -> str:
        """What to write to get from here to `new`."""
        return change("out_axes", self.out_axes, new.out_axes)


def check_output(output: Output) -> list[Finding]:
    """What is wrong with an output: structure, leaves that are no arrays, missing axes."""
    binding = output.binding
    varies = () if binding.findings else output.varies
    findings = [
        Finding(binding.fault("PTK108", bound, *_found(bound), fact=fact), repairs)
        for bound, varying in itertools.zip_longest(binding, varies)
        for fact, repairs in _leaf_faults(bound, varying=varying)
    ]
    return [*binding.findings, *findings]


def _found(bound: Bound) -> tuple[str, str]:
    return values.leaf(bound.leaf), values.spec(bound.value)


def _leaf_faults(
    bound: Bound, *, varying: bool | None
) -> Iterator[tuple[str, tuple[Revalue, ...]]]:
    """The fact of each fault of a leaf, and how to repair it."""
    if is_batched_sparse(bound.leaf):
        return
    aval = values.typeof(bound.leaf)
    in_front = (Revalue(bound.path, 0),)
    if aval is None:
        yield f"a {type(bound.leaf).__name__} is no JAX type, it cannot be returned", ()
    elif bound.value is None and varying:
        yield "varies over the mapped axis: it needs an axis", in_front
    elif bound.value is not None and not _in_range(bound.value, len(aval.shape)):
        rank = values.count(len(aval.shape) + 1, "axis", "axes")
        yield f"with the mapped axis it has {rank}, there is no axis {bound.value}", in_front


def _in_range(axis: int, rank: int) -> bool:
    return -rank - 1 <= axis <= rank


class OutputCheck:
    """Finds out fast whether an output has no fault; one for each wrapped function.

    Attributes:
        out_axes: Where the mapped axis is to go.
        keeps_unmapped: Whether some output must not vary over the mapped axis.
        broadcasts: Whether some output gets the mapped axis whether it varies or not.
    """

    def __init__(self, out_axes: Any) -> None:
        self.out_axes = out_axes
        axes = jax.tree.leaves(out_axes, is_leaf=lambda node: node is None)
        self.keeps_unmapped = any(axis is None for axis in axes)
        self.broadcasts = any(axis is not None for axis in axes)
        self._anywhere = type(out_axes) is int and out_axes in (0, -1)
        self._axes = StructureCache()

    def passes(self, tree: Any) -> bool:
        """Whether nothing is wrong with an output, as far as can be told without what varies."""
        if self._anywhere and _has_type(type(tree)):
            return True
        try:
            leaves, structure = jax.tree_util.tree_flatten(tree)
        except ValueError:  # a dict whose keys do not sort
            return False
        if not all(_has_type(type(leaf)) for leaf in leaves):
            return not check_output(Output(self.out_axes, tree))
        if self._anywhere:
            return True
        axes = self._known(structure, tree)
        return axes is not None and all(
            axis is None or _in_range(axis, np.ndim(leaf))
            for leaf, axis in zip(leaves, axes, strict=True)
        )

    def axes(self, tree: Any) -> list[Any]:
        """The axis of each leaf of an output that has passed."""
        return self._known(jax.tree.structure(tree), tree) or []

    def _known(self, structure: Any, tree: Any) -> list[Any] | None:
        return self._axes.get(structure) or self._bound(structure, tree)

    def _bound(self, structure: Any, tree: Any) -> list[Any] | None:
        """The axis of each leaf of a structure that is new, None where out_axes do not fit it."""
        binding = Output(self.out_axes, tree).binding
        if binding.findings:
            return None
        axes = binding.values()
        self._axes.put(structure, axes)
        return axes

    def planned(self, tree: Any, varies: Sequence[bool], size: Any) -> tuple[PlannedOutput, ...]:
        """What becomes of each leaf of an output that has no fault."""
        binding = Output(self.out_axes, tree).binding
        planned = []
        for bound, varying in zip(binding, varies, strict=True):
            fault = binding.fault("", bound, *_found(bound))
            axis, found = bound.value, fault.found
            if axis is not None:
                axis %= np.ndim(bound.leaf) + 1
                found = values.with_axis(bound.leaf, axis, size)
            planned.append(
                PlannedOutput(fault.path, fault.found, varying, axis, found, fault.entry)
            )
        return tuple(planned)

    def refusal(self, tree: Any, varies: tuple[bool, ...]) -> Refusal | None:
        """What is wrong with an output, None for nothing."""
        faults, repaired = with_hints(Output(self.out_axes, tree, varies), check_output)
        return Refusal(faults, repaired and repaired.out_axes) if faults else None

    def refusal_of_chunk(self, tree: Any) -> Refusal | None:
        """What cannot be put together from the outputs of chunks, None for nothing."""
        if not any(map(is_batched_sparse, jax.tree.leaves(tree, is_leaf=is_batched_sparse))):
            return None
        binding = Output(self.out_axes, tree).binding
        fact = "is a sparse matrix, which cannot be put together from chunks"
        faults = tuple(
            binding.fault("PTK108", bound, *_found(bound), fact=fact)
            for bound in binding
            if is_batched_sparse(bound.leaf)
        )
        return Refusal(faults, None)


@functools.lru_cache(maxsize=256)
def _has_type(kind: type) -> bool:
    """Whether all instances of a type are JAX types."""
    return issubclass(kind, jax.Array | Tracer | bool | int | float | complex)
