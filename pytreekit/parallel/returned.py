"""What a function returned on one shard, against out_specs: PTK2xx, PTK104, PTK302 and PTK505."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec

from ..batching.manual import unequal_axes
from ..faults import Fault
from ..sharding.remarks import too_long
from ..sharding.resolve import axes_by_dimension, names_of
from ..show import values
from ..specs.bind import Binding, Bound
from ..specs.finding import Finding, Revalue
from ..specs.hints import with_hints
from ..specs.repair import change, respecified
from ..trees import paths
from .grid import Grid
from .shard_call import bound_leaves, by_rule, needed
from .shard_check import shorter


class ReturnRefused(Exception):  # noqa: N818  it never leaves this package
    """What a function returned does not fit out_specs: text alone, it outlives the tracers."""

    def __init__(self, faults: tuple[Fault, ...], repaired: Any) -> None:
        super().__init__()
        self.faults, self.repaired = faults, repaired


class ShardOutput(NamedTuple):
    """A leaf of what a function over shards returns.

    Attributes:
        path: Its path in the output, as `jax.tree_util.keystr` prints it.
        shard: Its dtype and shape on one shard, `"f32[2,8]"`.
        varies: The mesh axes that it may differ over; None where check_vma is off, and JAX does not
            know.
        spec: How the shards are put together.
        found: Its dtype and shape then, `"f32[8,8]"`.
        spec_path: The place in out_specs that says so.
    """

    path: str
    shard: str
    varies: tuple[str, ...] | None
    spec: PartitionSpec
    found: str
    spec_path: str


@dataclasses.dataclass(frozen=True)
class Returned:
    """What a function returned on one shard, and the out_specs that it is to get.

    Attributes:
        out_specs: A prefix of the output, or what has rules in it.
        tree: The output.
        grid: The mesh.
        check_vma: Whether what a spec does not split must be the same on every shard.
    """

    out_specs: Any
    tree: Any
    grid: Grid
    check_vma: bool

    @functools.cached_property
    def binding(self) -> Binding:
        """The out_specs bound to the output."""
        return Binding(self.out_specs, self.tree, "out", "out_specs", fill=PartitionSpec())

    @property
    def leaves(self) -> Iterator[Bound]:
        """The leaves that have a spec, or need none."""
        return bound_leaves(self.binding, _is_scalar)

    def repaired(self, repairs: Sequence[Any]) -> Returned:
        """A copy with repairs written into out_specs."""
        return dataclasses.replace(self, out_specs=respecified(self.binding, repairs))

    def change(self, new: Returned, repairs: Sequence[Any]) -> str:
        """What to write to get from here to `new`."""
        return change("out_specs", self.out_specs, new.out_specs)

    def spec(self, bound: Bound) -> PartitionSpec:
        """The spec of a leaf: what a rule says is read."""
        if self.binding.text(bound.path) is None:
            return bound.value
        aval = values.typeof(bound.leaf)
        if aval is None:
            return PartitionSpec()
        divided = jax.ShapeDtypeStruct((0,) * len(aval.shape), aval.dtype)  # whatever its sizes
        spec, problems = by_rule(bound.value, divided, self.grid)
        return PartitionSpec(UNREADABLE) if problems or spec is None else spec

    def specs(self) -> Any:
        """The spec of each leaf, in a tree of the structure of the output."""
        specs = [self.spec(bound) for bound in self.leaves]
        return jax.tree.structure(self.tree).unflatten(specs)

    def outputs(self) -> tuple[ShardOutput, ...]:
        """What becomes of each leaf of an output that has no fault."""
        return tuple(self._planned(bound) for bound in self.leaves)

    def _planned(self, bound: Bound) -> ShardOutput:
        aval, spec = values.typeof(bound.leaf), self.spec(bound)
        parts = [self.grid.axes.parts(its) for its in axes_by_dimension(spec)]
        parts += [1] * (len(aval.shape) - len(parts))
        whole = [size * count for size, count in zip(aval.shape, parts, strict=True)]
        varies = sorted(unequal_axes(aval), key=list(self.grid.axes.sizes).index)
        fault = self.binding.fault("", bound, "", "")
        shard, found = (values.array(aval.dtype, shape) for shape in (aval.shape, whole))
        told = tuple(varies) if self.check_vma else None
        return ShardOutput(fault.path, shard, told, spec, found, fault.spec_path)


UNREADABLE = "\0"
"""The mesh axis of a rule's value that is no spec."""


def check_returned(its: Returned) -> list[Finding]:
    """What is wrong with an output: structure, leaves that are no arrays, ranks, replication."""
    binding = its.binding
    found = [*needed(binding, _is_scalar), *_nothing_there(binding)]
    for bound in its.leaves:
        if bound.value is not None:
            found += _check_leaf(its, bound)
    return found


def _is_scalar(leaf: Any) -> bool:
    """Whether a leaf needs no rule: of one shard, an array of one element may be split."""
    return getattr(values.typeof(leaf), "shape", None) == ()


def _nothing_there(binding: Binding) -> Iterator[Finding]:
    """PTK202: to JAX, None in out_specs is an output that is None."""
    for path, value, subtree in binding.entries:
        if value is None and binding.text(path) is None and paths.count_leaves(subtree):
            found, place = values.leaf_or_tree(subtree), paths.text(path)
            fault = Fault(
                "PTK202", "out", place, binding.place(path), found, "None",
                fact="has no spec", note="None in out_specs stands for an output that is None",
            )  # fmt: skip
            leaves = paths.leaves_with_paths(subtree)
            if len(leaves) == 1:
                yield Finding(fault, (Revalue(path + leaves[0][0], PartitionSpec()),))
            else:
                yield Finding(fault)


def _check_leaf(its: Returned, bound: Bound) -> Iterator[Finding]:
    leaf, spec = bound.leaf, its.spec(bound)
    aval, told = values.typeof(leaf), (values.leaf(leaf), values.spec(bound.value))
    binding = its.binding
    if aval is None:
        fact = f"a {type(leaf).__name__} is no JAX type, it cannot be returned"
        yield Finding(binding.fault("PTK104", bound, *told, fact=fact))
        return
    rank, axes = len(aval.shape), names_of(spec)
    if UNREADABLE in axes:
        yield Finding(binding.fault("PTK306", bound, *told, fact="the rule's value is no spec"))
        return
    if len(spec) > rank:
        problem = too_long(len(spec), rank, stacked=False)
        note = "add a dimension to it: out[None]" if not rank else ""
        yield Finding(
            binding.fault("PTK302", bound, *told, fact=problem.fact, note=note),
            tuple(Revalue(bound.path, new) for new in shorter(spec, rank)),
        )
        return
    split = {*axes, *spec.unreduced, *spec.reduced}
    differs = [name for name in its.grid.axes.sizes if name in unequal_axes(aval) - split]
    differs = [name for name in differs if name not in its.grid.outer]
    if its.check_vma and differs:
        yield _not_replicated(its, bound, spec, differs)


def _not_replicated(its: Returned, bound: Bound, spec: Any, differs: list[str]) -> Finding:
    aval = values.typeof(bound.leaf)
    names = values.listing([repr(name) for name in differs])
    over = repr(differs[0]) if len(differs) == 1 else f"({names})"
    fault = its.binding.fault(
        "PTK505",
        bound,
        values.leaf(bound.leaf),
        values.spec(bound.value),
        fact=f"may differ over {names}, which its spec leaves out",
        note=f"reduce it first, as by jax.lax.psum(..., {over}), or split it",
    )
    new = []
    if aval.shape:
        first, *rest = [*axes_by_dimension(spec), *[()] * (len(spec) == 0)]
        entries = [*(first or ()), *differs], *rest
        new = [PartitionSpec(*(tuple(its) if len(its) > 1 else (*its, None)[0] for its in entries))]
    return Finding(fault, tuple(Revalue(bound.path, spec) for spec in new))


def refuse(its: Returned) -> None:
    """Nothing, if an output fits.

    Raises:
        ReturnRefused: If it does not.
    """
    if check_returned(its):
        faults, repaired = with_hints(its, check_returned)
        raise ReturnRefused(faults, repaired and repaired.out_specs)
