"""What is done at the uses of parameters to learn what goes in there, and what comes back.

A zero is added to what comes out. The gradient with regard to that zero is what comes back there,
so that one backward pass gives all traces. Or the norm is taken on the spot, in the backward pass,
and handed on as the gradient of a number that nothing depends on: then nothing is kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .program import Step
from .trace import square_of
from .verdicts import Part


class Probe(NamedTuple):
    """Adds a zero, and keeps what goes in.

    Attributes:
        operands: Which operands are kept.
    """

    operands: tuple[int, ...]

    @property
    def stacks(self) -> bool:
        """Each turn of a scan has a zero of its own."""
        return True

    def __call__(self, step: Step, values: list[Any], data: Any) -> tuple[Any, dict[int, Any]]:
        """What comes out, and what is kept."""
        [out] = step.done(values)
        return out + data, {step.inputs[at]: values[at] for at in self.operands}


class Norm(NamedTuple):
    """Takes the square of the norm of a gradient where that comes back.

    Attributes:
        part: What the parameter is made up of: one site.
        operand: Which operand it is there.
    """

    part: Part
    operand: int

    @property
    def stacks(self) -> bool:
        """All turns of a scan add to the same number."""
        return False

    def __call__(self, step: Step, values: list[Any], data: Any) -> tuple[Any, dict[int, Any]]:
        """What comes out; nothing is kept."""
        [site], operand = self.part.sites, self.operand

        def done(parameter: Any, others: list[Any]) -> Any:
            [out] = step.done([*others[:operand], parameter, *others[operand:]])
            return out

        @jax.custom_vjp
        def tapped(number: Any, parameter: Any, others: list[Any]) -> Any:
            return done(parameter, others)

        def forward(number: Any, parameter: Any, others: list[Any]) -> tuple[Any, Any]:
            return done(parameter, others), (parameter, others)

        def backward(kept: Any, back: Any) -> tuple[Any, Any, Any]:
            parameter, others = kept
            found = square_of(self.part, [site.of_one_turn(others, back)]).astype(data.dtype)
            return found, jnp.zeros_like(parameter), _cotangents(done, parameter, others, back)

        tapped.defvjp(forward, backward)
        others = [value for at, value in enumerate(values) if at != operand]
        return tapped(data, values[operand], others), {}


def _cotangents(done: Any, parameter: Any, others: list[Any], back: Any) -> list[Any]:
    """What goes on to the other operands; nothing to those that are no floats."""
    others = [jnp.asarray(its) for its in others]
    floats = [at for at, its in enumerate(others) if jnp.issubdtype(its.dtype, np.inexact)]

    def of_floats(its: list[Any]) -> Any:
        values = list(others)
        for at, value in zip(floats, its, strict=True):
            values[at] = value
        return done(parameter, values)

    _, pull = jax.vjp(of_floats, [others[at] for at in floats])
    found: list[Any] = [None] * len(others)
    for at, value in zip(floats, pull(back)[0], strict=True):
        found[at] = value
    return found
