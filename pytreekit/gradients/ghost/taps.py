"""What is done at the uses of parameters to learn what goes in there, and what comes back.

A zero is added to what comes out. The gradient with regard to that zero is what comes back there,
so that one backward pass gives all traces. Or the norm is taken on the spot, in the backward pass,
and handed on as the gradient of a number that nothing depends on. If factors are wanted as well,
they are handed on in the same way: they are then those that the norm is made of, and in a scan are
at hand when it is taken.
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


class Back(NamedTuple):
    """Takes the square of the norm of a gradient where that comes back, and maybe its factors.

    Attributes:
        part: What the parameter is made up of: one site.
        operand: Which operand it is there.
        keeps: Whether factors are handed on, guarded.
    """

    part: Part
    operand: int
    keeps: bool

    @property
    def stacks(self) -> bool:
        """Each turn of a scan has factors of its own; norms add to the same number."""
        return self.keeps

    def __call__(self, step: Step, values: list[Any], data: Any) -> tuple[Any, dict[int, Any]]:
        """What comes out; nothing is kept."""
        operand = self.operand

        def done(parameter: Any, others: list[Any]) -> Any:
            [out] = step.done([*others[:operand], parameter, *others[operand:]])
            return out

        @jax.custom_vjp
        def tapped(data: Any, parameter: Any, others: list[Any]) -> Any:
            return done(parameter, others)

        def forward(data: Any, parameter: Any, others: list[Any]) -> tuple[Any, Any]:
            return done(parameter, others), (parameter, others)

        def backward(kept: Any, back: Any) -> tuple[Any, Any, Any]:
            parameter, others = kept
            return self.taken(others, back), None, _cotangents(done, parameter, others, back)

        tapped.defvjp(forward, backward)
        others = [value for at, value in enumerate(values) if at != operand]
        return tapped(data, values[operand], others), {}

    def taken(self, others: list[Any], back: Any) -> tuple[Any, Any]:
        """The square and the factors, None for these if they are not handed on."""
        [site] = self.part.sites
        factors = site.of_one_turn(others, back)
        return square_of(self.part, [factors]), factors.guarded() if self.keeps else None


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
