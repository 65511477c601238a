"""A loss as a list of steps, some of which can be tapped: what goes in there, and what comes back.

Steps that hold programs of their own, such as a scan, are run so that taps inside them work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jax.extend.core import JaxprEqn


def aval(atom: Any) -> Any:
    """The shape and the dtype of a variable of a jaxpr."""
    return atom.aval


@runtime_checkable
class Tap(Protocol):
    """Does a step of one output in another way."""

    @property
    def stacks(self) -> bool:
        """Whether it takes other data in each turn of a scan, rather than the same."""
        ...

    def __call__(self, step: Step, values: list[Any], data: Any) -> tuple[Any, dict[int, Any]]:
        """The output, and what is kept of what goes in, by slot.

        Args:
            step: The step.
            values: What goes in.
            data: That of the tap.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Taps:
    """Taps by the slots of the outputs that they make.

    Attributes:
        of: The taps.
        data: What each of them takes.
    """

    of: Mapping[int, Tap]
    data: Mapping[int, Any]

    def within(self, slots: range) -> Taps:
        """Those of some slots only."""
        keys = [key for key in self.of if key in slots]
        return Taps(self.of, {key: self.data[key] for key in keys})

    def with_data(self, data: Mapping[int, Any]) -> Taps:
        """The same with other data for some of them."""
        return Taps(self.of, {**self.data, **data})

    def split(self) -> tuple[dict[int, Any], dict[int, Any]]:
        """The data that differs in each turn of a scan, and that which does not."""
        stacked = {key: its for key, its in self.data.items() if self.of[key].stacks}
        return stacked, {key: its for key, its in self.data.items() if key not in stacked}


Ran = tuple[list[Any], dict[int, Any]]
"""What a program returns, and what its taps keep, by slot."""


@runtime_checkable
class Structure(Protocol):
    """What a step does that holds programs."""

    @property
    def slots(self) -> range:
        """Those of its programs."""
        ...

    def run(self, step: Step, values: list[Any], taps: Taps) -> Ran:
        """Does the step, with taps in its programs."""
        ...


class Step(NamedTuple):
    """An operation.

    Attributes:
        equation: The equation of the jaxpr.
        inputs: The slots from which it reads its operands.
        outputs: Those to which it writes.
        structure: What it does, if it holds programs that take a parameter.
    """

    equation: JaxprEqn
    inputs: list[int]
    outputs: list[int]
    structure: Structure | None = None

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.equation.primitive.name

    def done(self, values: Sequence[Any]) -> list[Any]:
        """The outputs, by the primitive itself: rules of `custom_vjp` stay as they are."""
        primitive, params = self.equation.primitive, self.equation.params
        with self.equation.ctx.manager:
            out = primitive.bind(*values, **primitive.get_bind_params(params))
        return list(out) if primitive.multiple_results else [out]

    def run(self, values: list[Any], taps: Taps) -> Ran:
        """The outputs, and what taps keep."""
        if self.structure is not None:
            inner = taps.within(self.structure.slots)
            if inner.data:
                return self.structure.run(self, values, inner)
        key = self.outputs[0] if self.outputs else -1
        if key not in taps.data:
            return self.done(values), {}
        out, kept = taps.of[key](self, values, taps.data[key])
        return [out], kept


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps, one after the other.

    Attributes:
        inputs: The slots to which inputs are written.
        outputs: Those from which outputs are read.
        constants: Values that stand in their slots from the start.
        steps: The operations.
    """

    inputs: list[int]
    outputs: list[int]
    constants: dict[int, Any]
    steps: list[Step]

    def run(self, values: Sequence[Any], taps: Taps) -> Ran:
        """The outputs, and what taps keep.

        Args:
            values: The inputs.
            taps: What is done in another way.
        """
        slots = {**self.constants, **dict(zip(self.inputs, values, strict=True))}
        kept: dict[int, Any] = {}
        for step in self.steps:
            out, its = step.run([slots[slot] for slot in step.inputs], taps)
            slots.update(zip(step.outputs, out, strict=True))
            kept.update(its)
        return [slots[slot] for slot in self.outputs], kept
