"""Which values of a loss are a parameter, as it is or in another form, and where one is used."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn, Literal

from .program import Program, Slot, Step, aval

CALLS = frozenset({"jit", "pjit", "closed_call"})
"""Calls that mean no more than their body. `remat` and rules of one's own mean more."""

RESHAPES = frozenset({"reshape", "squeeze", "expand_dims", "broadcast_in_dim", "copy", "name"})
"""What keeps the entries of an array and their order, if it keeps their number."""


class Form(NamedTuple):
    """What gives the same numbers in another order or shape.

    Attributes:
        shape: The shape before.
        permutation: The order of the dimensions after it, None where that of the entries stays.
    """

    shape: tuple[int, ...]
    permutation: tuple[int, ...] | None


class Use(NamedTuple):
    """An operation that takes a parameter.

    Attributes:
        number: That of the step, None where the loss returns the parameter.
        operand: Which operand it is there.
        name: What the operation is called.
        forms: What brought the parameter into the form in which it is taken.
    """

    number: int | None
    operand: int
    name: str
    forms: tuple[Form, ...] = ()


class Parameter(NamedTuple):
    """A value that is a parameter, whose gradient has the norm that the parameter's has.

    Attributes:
        leaf: The number of the parameter.
        forms: What brought it into this form.
    """

    leaf: int
    forms: tuple[Form, ...] = ()


@dataclasses.dataclass
class Classified:
    """A loss as a program.

    Attributes:
        program: Its steps.
        uses: Where each parameter is used.
        parameters: What parameter each slot holds, of those that hold one.
    """

    program: Program
    uses: list[list[Use]]
    parameters: dict[int, Parameter]

    def taken(self, step: Step) -> list[tuple[int, Parameter]]:
        """The operands of a step that are parameters."""
        return [
            (at, self.parameters[its])
            for at, its in enumerate(step.inputs)
            if isinstance(its, int) and its in self.parameters
        ]


def classified(jaxpr: Any, constants: Sequence[Any]) -> Classified:
    """The program of a jaxpr, all inputs of which are parameters."""
    return _Reader(len(jaxpr.invars)).read(jaxpr, constants)


class _Reader:
    """Reads equations into one list of steps, with the bodies of calls that take a parameter."""

    def __init__(self, count: int) -> None:
        self._slots = count
        program = Program([*range(count)], [], {}, [])
        parameters = {leaf: Parameter(leaf) for leaf in range(count)}
        self._found = Classified(program, [[] for _ in range(count)], parameters)

    def read(self, jaxpr: Any, constants: Sequence[Any]) -> Classified:
        program = self._found.program
        program.outputs.extend(self._body(jaxpr, constants, program.inputs))
        for slot in program.outputs:
            held = self._found.parameters.get(slot) if isinstance(slot, int) else None
            if held is not None:
                self._found.uses[held.leaf].append(Use(None, 0, "return"))
        return self._found

    def _body(self, jaxpr: Any, constants: Sequence[Any], given: Sequence[Slot]) -> list[Slot]:
        slots: dict[Any, Slot] = dict(zip(jaxpr.invars, given, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            slots[variable] = self._new()
            self._found.program.constants[self._slots - 1] = value

        def read(atom: Any) -> Slot:
            return atom if isinstance(atom, Literal) else slots[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            step = Step(equation, inputs, [])
            body = _body_of(equation) if self._found.taken(step) else None
            outputs = self._step(step) if body is None else self._body(*body, inputs)
            slots.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _new(self) -> int:
        self._slots += 1
        return self._slots - 1

    def _step(self, step: Step) -> list[Slot]:
        found, number = self._found, len(self._found.program.steps)
        step = step._replace(outputs=[self._new() for _ in step.equation.outvars])
        found.program.steps.append(step)
        taken = found.taken(step)
        if not taken or _has_no_derivative(step.equation):
            return [*step.outputs]
        form = form_of(step.equation) if len(taken) == 1 else None
        if form is not None:
            [(_, held)] = taken
            found.parameters[step.outputs[0]] = held._replace(forms=(*held.forms, form))
            return [*step.outputs]
        for operand, held in taken:
            found.uses[held.leaf].append(Use(number, operand, step.name, held.forms))
        return [*step.outputs]


def _body_of(equation: JaxprEqn) -> tuple[Any, Sequence[Any]] | None:
    """The jaxpr and the constants of a call, None for what is none or has them elsewhere."""
    if equation.primitive.name not in CALLS:
        return None
    body = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    jaxpr, constants = getattr(body, "jaxpr", body), getattr(body, "consts", ())
    fits = jaxpr is not None and len(jaxpr.constvars) == len(constants)
    return (jaxpr, constants) if fits else None


def _has_no_derivative(equation: JaxprEqn) -> bool:
    dtypes = [
        aval(variable).dtype for variable in equation.outvars if hasattr(aval(variable), "dtype")
    ]
    is_float = any(jnp.issubdtype(dtype, np.inexact) for dtype in dtypes)
    return equation.primitive.name == "stop_gradient" or not is_float


def form_of(equation: JaxprEqn) -> Form | None:
    """What an operation is that only gives another order, shape or wider dtype, else None."""
    name, params = equation.primitive.name, equation.params
    before, after = aval(equation.invars[0]), aval(equation.outvars[0])
    if name == "transpose":
        return Form(tuple(before.shape), tuple(params["permutation"]))
    keeps = name in RESHAPES and params.get("dimensions") is None
    if name == "convert_element_type":
        keeps = jnp.promote_types(before.dtype, after.dtype) == after.dtype
    same_size = keeps and math.prod(before.shape) == math.prod(after.shape)
    return Form(tuple(before.shape), None) if same_size else None


def undone(forms: Sequence[Form], gradient: Any) -> Any:
    """The gradient of a parameter, from that of the form in which it is taken."""
    for form in reversed(forms):
        if form.permutation is not None:
            gradient = gradient.transpose(np.argsort(form.permutation))
        gradient = gradient.reshape(form.shape)
    return gradient
