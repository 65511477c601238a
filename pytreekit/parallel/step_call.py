"""One call of a training step over devices: how its state and its batch are split."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..faults import Fault
from ..sharding.entries import BadSpec
from ..sharding.options import ERROR, REPLICATE, Options
from ..sharding.reading import literal
from ..sharding.resolve import resolve
from ..show import values
from ..specs.bind import Binding, Bound
from ..specs.called import Advice
from ..specs.finding import Finding
from ..specs.repair import change
from .pmap_call import check_around
from .shard_call import ShardCall, ShardLeaf
from .shard_check import check_arguments

STATE, BATCH = "state", "batch"
WHOLE = PartitionSpec()


@dataclasses.dataclass(frozen=True)
class StepCall(ShardCall):
    """Arguments of a training step; its in_specs are a tuple of what state and batch say.

    Attributes:
        on_indivisible: Whether what does not divide is a fault, or stays whole.
    """

    moves: ClassVar[bool] = True

    on_indivisible: str = ERROR

    def specs(self) -> list[tuple[Any, str]]:
        """The spec of each argument, and where it stands; further ones are whole."""
        named = list(zip(self.in_specs, (STATE, BATCH), strict=True))[: len(self.args)]
        further = len(self.args) + len(self.kwargs) - len(named)
        return [*named, *[(WHOLE, "further arguments")] * further]

    def _leaf(self, position: int, binding: Binding, bound: Bound) -> ShardLeaf:
        leaf = super()._leaf(position, binding, bound)
        if leaf.spec is None:  # what is no array does not pass by: JAX compiles the whole step
            return leaf._replace(spec=WHOLE)
        if position != 1 or self.on_indivisible == ERROR or self.grid is None:
            return leaf
        if leaf.aval is None or not isinstance(leaf.spec, PartitionSpec):
            return leaf
        if leaf.problems and all(its.code == "PTK303" for its in leaf.problems):
            return leaf._replace(problems=())  # the spec of a rule, without what does not divide
        options = Options(self.grid.axes, may_go=frozenset(self.grid.axes.sizes))
        try:
            found = resolve(literal(leaf.spec), leaf.aval.shape, options)
        except BadSpec:  # told as what it is
            return leaf
        return leaf if found.problems else leaf._replace(spec=found.spec)

    def _with(self, new: Any) -> Any:
        return tuple(new.get(position, spec) for position, spec in enumerate(self.in_specs))

    def change(self, new: Any, repairs: Sequence[Any]) -> str:
        """What to write to get from this call to `new`."""
        said = list(dict.fromkeys(its.text for its in repairs if isinstance(its, Advice)))
        for name, old, its in zip((STATE, BATCH), self.in_specs, new.in_specs, strict=True):
            if its is not old:
                said.append(change(name, old, its))
        return "; ".join(said)


def check_step_call(call: StepCall) -> list[Finding]:
    """What is wrong with a call: the mesh, the structures, the specs, and sizes that do not fit."""
    found = [*[Finding(fault) for fault in call.faults], *check_around()]
    if len(call.args) < 2:  # noqa: PLR2004  state and batch
        fact = f"a training step has a state and a batch, the call has {_passed(call)}"
        return [*found, Finding(Fault("PTK203", "", "", "", "", "", fact=fact))]
    for finding in check_arguments(call):
        fault, repairs = finding
        if fault.code == "PTK303" and fault.argument == call.bindings[1].name:
            repairs = (*repairs, Advice(f"on_indivisible = {REPLICATE!r}", _keeping_whole))
        found.append(Finding(fault, repairs))
    return found


def _passed(call: StepCall) -> str:
    return values.count(len(call.args), "positional argument")


def _keeping_whole(call: StepCall) -> StepCall:
    return dataclasses.replace(call, on_indivisible=REPLICATE)


def split_first(batch: Any, names: Sequence[str]) -> Any:
    """The specs of a batch of which nothing is said: dimension 0 is split, scalars stay whole."""
    first = PartitionSpec(tuple(names) if len(names) > 1 else names[0]) if names else WHOLE

    def spec(leaf: Any) -> PartitionSpec:
        aval = values.typeof(leaf)
        return first if aval is not None and aval.shape else WHOLE

    try:
        return jax.tree.map(spec, batch)
    except ValueError:  # a dict whose keys do not sort, which the binding tells
        return (WHOLE,)


def specs_of(state: Any) -> Any:
    """The specs of a plan, or of a tree of shardings; what else it is stays."""
    if state is None:
        return WHOLE
    tree = getattr(state, "shardings", state)
    return jax.tree.map(
        lambda its: its.spec if isinstance(its, NamedSharding) else its,
        tree,
        is_leaf=lambda its: its is None or isinstance(its, Sharding),
    )
