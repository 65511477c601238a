"""One call of a mean gradient over devices: which examples each device has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
from jax.sharding import PartitionSpec

from ..faults import Fault
from ..gradients.check import check_differentiated
from ..gradients.floats import Floats
from ..gradients.mapped_loss import MappedLoss
from ..sharding.options import ERROR
from ..sharding.resolve import axes_by_dimension, names_of
from ..show import values
from ..specs.bind import Binding, Bound
from ..specs.called import Advice, NewSpec
from ..specs.finding import Finding
from ..specs.names import check_names, unknown_names
from ..trees import paths
from .pmap_call import check_around
from .shard_call import ShardCall, ShardLeaf
from .shard_check import check_arguments

WHOLE = PartitionSpec()
PAD = "pad"


@dataclasses.dataclass(frozen=True)
class MeanCall(ShardCall):
    """Parameters and examples, and how these are split.

    Attributes:
        batch: A PartitionSpec for every argument but the first, a tuple with a spec for each of
            these, or a dict by name, with one for the first.
        axis: The mesh axes that examples are split over.
        on_indivisible: Whether examples that do not divide are a fault, or padded.
    """

    spec_name: ClassVar[str] = "batch"
    moves: ClassVar[bool] = True

    batch: Any = WHOLE
    axis: tuple[str, ...] = ()
    on_indivisible: str = ERROR

    def specs(self) -> list[tuple[Any, str]]:
        """The spec of each argument, and where it stands; the first is whole."""
        if self.is_by_name:
            return super().specs()
        first = PartitionSpec(self.axis)
        if isinstance(self.batch, tuple):
            rows = [(spec, f"batch[{index}]") for index, spec in enumerate(self.batch)]
            keywords = [(first, "axis")] * len(self.kwargs)
        else:
            rows = [(self.batch, "batch")] * (len(self.args) - 1)
            keywords = [(self.batch, "batch")] * len(self.kwargs)
        missing = [(WHOLE, "batch")] * (len(self.args) - 1 - len(rows))
        return [(WHOLE, "batch"), *rows[: len(self.args) - 1], *missing, *keywords]

    def _leaf(self, position: int, binding: Binding, bound: Bound) -> ShardLeaf:
        leaf = super()._leaf(position, binding, bound)
        return leaf._replace(spec=WHOLE) if leaf.spec is None else leaf

    def _with(self, new: Any) -> Any:
        if self.is_by_name:
            return super()._with(new)
        specs = [spec for spec, _ in self.specs()][1 : len(self.args)]
        return tuple(new.get(index + 1, spec) for index, spec in enumerate(specs))

    def example_dim(self, leaf: ShardLeaf) -> int | None:
        """The dimension of a leaf that its examples are along; None for one that is shared."""
        axes = axes_by_dimension(leaf.spec or WHOLE)
        return next((dim for dim, its in enumerate(axes) if its), None)

    @property
    def parts(self) -> int:
        """Over how many parts the examples are split."""
        return 1 if self.grid is None else self.grid.axes.parts(self.axis)

    def mapped(self, loss: MappedLoss) -> MappedLoss:
        """The loss, mapped along the examples of each leaf."""
        dims = iter([self.example_dim(leaf) for leaf in self.leaves])
        trees = [
            jax.tree.structure(binding.tree).unflatten(
                [next(dims) for _ in range(paths.count_leaves(binding.tree))]
            )
            for binding in self.bindings
        ]
        if not self.kwargs:
            return dataclasses.replace(loss, in_axes=tuple(trees))
        names = [its.parameter for its in self.passed]
        return dataclasses.replace(loss, in_axes=dict(zip(names, trees, strict=True)))


def check_mean_call(call: MeanCall, loss: MappedLoss) -> list[Finding]:
    """What is wrong with a call: the mesh, the specs, sizes, and what cannot be differentiated."""
    found = [*[Finding(fault) for fault in call.faults], *check_around(), *_check_entries(call)]
    if not call.args:
        fact = (
            f"{values.function(call.fun)} needs its first parameter, by which it is differentiated"
        )
        return [*found, Finding(Fault("PTK203", "", "", "", "", "", fact=fact))]
    if not isinstance(call.batch, PartitionSpec | tuple | dict):
        return found
    pad = Advice(f"on_indivisible = {PAD!r}", _padding)
    for fault, repairs in check_arguments(call):
        ragged = fault.code == "PTK303"
        if ragged and call.on_indivisible == PAD:
            continue
        told = dataclasses.replace(fault, fact=fault.fact.replace("axis_names", "axis"))
        found.append(Finding(told, (*repairs, pad) if ragged else repairs))
    if found:
        return found
    return [*_check_axes(call)] or _check_loss(call, loss)


def _padding(call: MeanCall) -> MeanCall:
    return dataclasses.replace(call, on_indivisible=PAD)


def _check_entries(call: MeanCall) -> Iterator[Finding]:
    """What batch is, and whether it has an entry for each argument."""
    batch = call.batch
    if call.is_by_name:
        for fault, specs in unknown_names(call.fun, batch, "batch"):
            yield Finding(fault, tuple(map(NewSpec, specs)))
        yield from check_names(call)
        return
    if isinstance(batch, tuple):
        passed = len(call.args) - 1
        if len(batch) != passed:
            entries = values.count(len(batch), "entry", "entries")
            fact = f"batch has {entries}, the call has {values.count(passed, 'argument')}"
            note = "besides the first, by position"
            told = "", "", "batch", "", values.spec(batch)
            yield Finding(Fault("PTK203", *told, fact=fact, note=note))
    elif not isinstance(batch, PartitionSpec):
        fact = f"batch must be a PartitionSpec, a tuple or a dict, this is {values.kind(batch)}"
        yield Finding(Fault("PTK001", "", "", "batch", "", values.spec(batch), fact=fact))


def _check_axes(call: MeanCall) -> Iterator[Finding]:
    """PTK509: examples are split over all of `axis`, along one dimension."""
    for leaf in call.leaves:
        names = names_of(leaf.spec or WHOLE)
        one = sum(map(bool, axes_by_dimension(leaf.spec or WHOLE)))
        if names and (set(names) != set(call.axis) or one > 1):
            over = values.listing([repr(name) for name in call.axis])
            fact = f"must be split along one dimension, over {over}"
            yield Finding(leaf.fault("PTK509", fact=fact))


def _check_loss(call: MeanCall, loss: MappedLoss) -> list[Finding]:
    """What the checks of gradients find, told by what batch says."""
    rows = {leaf.fault("").place: leaf for leaf in call.leaves}
    mapped = call.mapped(dataclasses.replace(loss, more=_no_examples))
    found = check_differentiated(mapped.loss, mapped.call(call.args, call.kwargs), mapped.more)
    return [Finding(_told(fault, rows)) for fault, _ in found]


def _no_examples(floats: Floats, names: list[str], size: Any) -> list[Fault]:
    """PTK406: of no examples there is no mean."""
    return [Fault("PTK406", "", "", "", "", "")] if size == 0 else []


def _told(fault: Fault, rows: dict[str, ShardLeaf]) -> Fault:
    """A fault of axes, with what stands in batch in their place."""
    if fault.code == "PTK103":
        fact = "no argument is split, so there are no examples"
        return dataclasses.replace(fault, fact=fact, spec_path="batch", wanted="", note="")
    beside = tuple(
        place._replace(entry=_entry(rows[place.place])) if place.place in rows else place
        for place in fault.beside
    )
    leaf = rows.get(fault.place)
    if leaf is None or not fault.spec_path.startswith("in_axes"):
        return dataclasses.replace(fault, beside=beside)
    here = leaf.fault("")
    told = {"spec_path": here.spec_path, "wanted": here.wanted}
    return dataclasses.replace(fault, beside=beside, **told)


def _entry(leaf: ShardLeaf) -> str:
    fault = leaf.fault("")
    return f"{fault.spec_path} = {fault.wanted}"
