"""One call of a function over shards: its arguments, and the spec of each of their leaves."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
from jax.sharding import PartitionSpec

from ..faults import Fault
from ..sharding.entries import BadSpec
from ..sharding.options import Options
from ..sharding.reading import template
from ..sharding.remarks import Problem
from ..sharding.resolve import resolve
from ..sharding.shapes import is_single
from ..show import values
from ..specs.bind import Binding, Bound
from ..specs.called import Called
from ..specs.finding import Finding
from ..specs.repair import change
from ..trees import paths
from ..trees.paths import KeyPath
from ..trees.replace import replaced
from .grid import Grid

INFER: Any = inspect.signature(jax.shard_map).parameters["in_specs"].default
"""What stands for in_specs that JAX takes from the arguments."""


class WriteOut(NamedTuple):
    """Write `spec` at `path` of out_specs."""

    path: KeyPath
    spec: Any


class ShardLeaf(NamedTuple):
    """A leaf of a call.

    Attributes:
        position: Which argument it is in, counted through the call's bindings.
        binding: The binding of that argument.
        bound: The leaf with its path, and what its spec says as it is written.
        spec: The PartitionSpec that this comes to; None for a leaf that goes as it is.
        aval: What JAX takes the leaf for, None where it is no JAX type.
        problems: What kept a rule from giving it a spec.
    """

    position: int
    binding: Binding
    bound: Bound
    spec: PartitionSpec | None
    aval: Any
    problems: Sequence[Problem] = ()

    def fault(self, code: str, **more: Any) -> Fault:
        """A fault at this leaf."""
        found, wanted = values.leaf(self.bound.leaf), values.spec(self.bound.value)
        return self.binding.fault(code, self.bound, found, wanted, **more)


@dataclasses.dataclass(frozen=True)
class ShardCall(Called):
    """Arguments, and how each is split.

    Attributes:
        in_specs: One PartitionSpec or None for all, a tuple with a spec for each argument, a dict
            with one for each parameter, rules over the paths of all arguments, or `INFER`.
        out_specs: A prefix of what the function returns.
        grid: The mesh, None where it is at fault.
        faults: What is wrong with the mesh.
        moves: Whether arguments are laid out for the call, wherever they are.
    """

    moves: ClassVar[bool] = False

    spec_name: ClassVar[str] = "in_specs"
    fill: ClassVar[Any] = PartitionSpec()
    fills: ClassVar[tuple[Any, ...]] = (PartitionSpec(),)
    of_keywords: ClassVar[tuple[Any, str]] = (PartitionSpec(), "in_specs")

    in_specs: Any
    out_specs: Any
    grid: Grid | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def infers(self) -> bool:
        """Whether JAX takes the specs from the arguments."""
        return self.in_specs is INFER

    @functools.cached_property
    def leaves(self) -> tuple[ShardLeaf, ...]:
        """Every leaf that has a spec, in argument order, then flattening order."""
        return tuple(self._leaves())

    def _leaves(self) -> Iterator[ShardLeaf]:
        for position, binding in enumerate(self.bindings):
            for bound in bound_leaves(binding, is_whole):
                yield self._leaf(position, binding, bound)

    def _leaf(self, position: int, binding: Binding, bound: Bound) -> ShardLeaf:
        aval, problems = values.typeof(bound.leaf), ()
        spec = bound.value
        if spec is INFER:
            spec = _inferred(aval, self.grid)
        elif binding.text(bound.path) is not None:
            spec, problems = by_rule(spec, aval, self.grid)
        return ShardLeaf(position, binding, bound, spec, aval, problems)

    def repaired(self, repairs: Sequence[Any]) -> Any:
        """A copy with repairs written into it."""
        out = {its.path: its.spec for its in repairs if isinstance(its, WriteOut)}
        call = super().repaired([its for its in repairs if not isinstance(its, WriteOut)])
        if out:
            call = dataclasses.replace(call, out_specs=replaced(self.out_specs, out))
        return call

    def change(self, new: Any, repairs: Sequence[Any]) -> str:
        """What to write to get from this call to `new`."""
        said = super().change(new, repairs)
        if new.out_specs is not self.out_specs:
            out = change("out_specs", self.out_specs, new.out_specs)
            said = "; ".join(filter(None, [said, out]))
        return said


def bound_leaves(binding: Binding, needs_none: Callable[[Any], bool]) -> Iterator[Bound]:
    """The leaves that have a spec, or need none where rules give none."""
    if not any(fault.code == "PTK305" for fault, _ in binding.findings):
        yield from binding
        return
    known = {bound.path: bound for bound in binding}
    for path, leaf in paths.leaves_with_paths(binding.tree):
        if path in known:
            yield known[path]
        elif needs_none(leaf):
            yield Bound(path, path, leaf, PartitionSpec())


def needed(binding: Binding, needs_none: Callable[[Any], bool]) -> Iterator[Finding]:
    """The findings of a binding, but for the rules that leaves lack which need none."""
    if not any(finding.fault.code == "PTK305" for finding in binding.findings):
        yield from binding.findings
        return
    leaves = paths.leaves_with_paths(binding.tree)
    spared = {paths.text(path) for path, leaf in leaves if needs_none(leaf)}
    for finding in binding.findings:
        if finding.fault.code != "PTK305" or finding.fault.path not in spared:
            yield finding


def is_whole(leaf: Any) -> bool:
    """Whether a leaf needs no rule: what is no array, or has one element, is not split."""
    aval = values.typeof(leaf)
    return aval is None or is_single(aval.shape)


def by_rule(
    value: Any, aval: Any, grid: Grid | None
) -> tuple[PartitionSpec | None, Sequence[Problem]]:
    """The spec that a rule's value comes to for a leaf, and what is wrong with it.

    Args:
        value: Spec text, a PartitionSpec, a tuple of entries, or None for replicated.
        aval: What JAX takes the leaf for.
        grid: The mesh, None where it is not known: then only what is written is looked at.
    """
    if aval is None:
        return None, ()
    if is_single(aval.shape):
        return PartitionSpec(), ()
    try:
        asked = template(value)
    except BadSpec as bad:
        return PartitionSpec(), [Problem("PTK306", bad.fact, bad.note)]
    if grid is None:
        return PartitionSpec(), ()
    found = resolve(asked, aval.shape, Options(grid.axes))
    return found.spec, found.problems


def _inferred(aval: Any, grid: Grid | None) -> PartitionSpec | None:
    """The spec that JAX takes from the type of an argument: without the axes not mapped over."""
    if aval is None or grid is None:
        return PartitionSpec()
    spec = getattr(getattr(aval, "sharding", None), "spec", PartitionSpec())
    entries: list[Any] = []
    for part in spec.partitions:
        axes = part if isinstance(part, tuple) else (part,)
        kept = tuple(name for name in axes if name in grid.names)
        entries.append(kept or None)
    return PartitionSpec(*entries)
