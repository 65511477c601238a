"""A loss as a list of steps, in which those that take a parameter can be done in another way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from jax.extend.core import JaxprEqn, Literal

Slot: TypeAlias = int | Literal
"""Where a value stands during a run, or a value that is written in the program."""

Instead: TypeAlias = Callable[["Step", list[Any]], Any]
"""Does a step of one output in another way, from the values that it takes."""


def aval(atom: Any) -> Any:
    """The shape and the dtype of a variable of a jaxpr."""
    return atom.aval


class Step(NamedTuple):
    """An operation.

    Attributes:
        equation: The equation of the jaxpr.
        inputs: Where it reads each operand.
        outputs: Where it writes each output.
    """

    equation: JaxprEqn
    inputs: list[Slot]
    outputs: list[int]

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


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps, one after the other.

    Attributes:
        inputs: Where each input is written.
        outputs: Where each output is read.
        constants: Values that stand in their slots from the start.
        steps: The operations.
    """

    inputs: list[int]
    outputs: list[Slot]
    constants: dict[int, Any]
    steps: list[Step]

    def run(self, values: Sequence[Any], instead: Mapping[int, Instead]) -> list[Any]:
        """The outputs.

        Args:
            values: The inputs.
            instead: What is done in the place of some steps, by their numbers.
        """
        slots = dict(self.constants)
        slots.update(zip(self.inputs, values, strict=True))

        def read(slot: Slot) -> Any:
            return slots[slot] if isinstance(slot, int) else slot.val

        for number, step in enumerate(self.steps):
            given = [read(slot) for slot in step.inputs]
            other = instead.get(number)
            out = step.done(given) if other is None else [other(step, given)]
            slots.update(zip(step.outputs, out, strict=True))
        return [read(slot) for slot in self.outputs]
