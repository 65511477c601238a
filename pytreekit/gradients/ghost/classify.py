"""Which values of a loss are a parameter, as it is or in another form, and where one is used."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn, Literal

from . import views
from .composed import PRODUCT, apart, is_composed
from .program import Program, Step, aval
from .structures import ALL, SAME, Inner, inner_of, structure_of
from .views import Dim, View

CALLS = frozenset({"jit", "pjit", "closed_call"})
"""Calls that mean no more than their body. `remat` and rules of one's own mean more."""

RESHAPES = frozenset({"reshape", "squeeze", "expand_dims", "broadcast_in_dim"})
"""What keeps the entries of an array and their order, if it keeps their number."""


class Level(NamedTuple):
    """A scan around a use of a parameter.

    Attributes:
        turns: The number of turns.
        dim: The dimension of the parameter of which each turn has its own part; None where all
            turns have the same.
    """

    turns: int
    dim: Dim | None


class Held(NamedTuple):
    """A value that is a parameter, whose gradient has the norm that the parameter's has.

    Attributes:
        leaf: The number of the parameter.
        view: Which entries of it, in which order.
        levels: The scans around it, the outermost first.
    """

    leaf: int
    view: View
    levels: tuple[Level, ...] = ()


class Use(NamedTuple):
    """An operation that takes a parameter.

    Attributes:
        step: The operation, None where the parameter is returned.
        operand: Which operand it is there.
        name: What the operation is called.
        held: What is taken of the parameter.
    """

    step: Step | None
    operand: int
    name: str
    held: Held


@dataclasses.dataclass
class Classified:
    """A loss as a program.

    Attributes:
        program: Its steps.
        uses: Where each parameter is used.
        shapes: The shapes of the parameters.
        avals: The shape and dtype of what is in a slot.
    """

    program: Program
    uses: list[list[Use]]
    shapes: list[tuple[int, ...]]
    avals: dict[int, Any]


def classified(jaxpr: Any, constants: Sequence[Any]) -> Classified:
    """The program of a jaxpr, all inputs of which are parameters."""
    return _Reader().read(jaxpr, constants)


class _Reader:
    """Reads equations into lists of steps, with the bodies of calls that take a parameter."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._made: dict[int, Step] = {}
        self._avals: dict[int, Any] = {}
        self._uses: list[list[Use]] = []

    def read(self, jaxpr: Any, constants: Sequence[Any]) -> Classified:
        shapes = [tuple(aval(variable).shape) for variable in jaxpr.invars]
        self._uses = [[] for _ in shapes]
        held = [Held(leaf, views.whole(shape)) for leaf, shape in enumerate(shapes)]
        program = self._program(jaxpr, constants, held, "return")
        return Classified(program, self._uses, shapes, self._avals)

    def _program(
        self, jaxpr: Any, constants: Sequence[Any], held: Sequence[Held | None], name: str
    ) -> Program:
        inputs = [self._new(variable) for variable in jaxpr.invars]
        for slot, its in zip(inputs, held, strict=True):
            if its is not None and _is_float(self._avals[slot]):
                self._held[slot] = its
        program = Program(inputs, [], {}, [])
        program.outputs.extend(self._body(program, jaxpr, constants, inputs))
        self._used_as_they_are(program.outputs)
        for its in [self._held[slot] for slot in program.outputs if slot in self._held]:
            self._uses[its.leaf].append(Use(None, 0, name, its))
        return program

    def _body(
        self, program: Program, jaxpr: Any, constants: Sequence[Any], given: Sequence[int]
    ) -> list[int]:
        """Adds the steps of a jaxpr to a program, and gives the slots of its outputs."""
        slots: dict[Any, int] = dict(zip(jaxpr.invars, given, strict=True))
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            slots[variable] = self._constant(program, variable, value)

        def read(atom: Any) -> int:
            is_literal = isinstance(atom, Literal)
            return self._constant(program, atom, atom.val) if is_literal else slots[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            body = self._other_words(equation, inputs)
            if body is None:
                outputs = self._step(program, equation, inputs)
            else:
                outputs = self._body(program, *body)
            slots.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _other_words(self, equation: JaxprEqn, inputs: list[int]) -> tuple[Any, ...] | None:
        """A jaxpr, its constants and its inputs that say the same as an operation; None for none.

        That is the body of a call, or products with parameters for one with what is made of these.
        """
        made = [at for at, slot in enumerate(inputs) if slot in self._made]
        takes = bool(made) or any(slot in self._held for slot in inputs)
        body = _body_of(equation) if takes else None
        if body is not None:
            return (*body, inputs)
        if equation.primitive.name != PRODUCT or len(made) != 1:
            return None
        [operand], other = made, inputs[1 - made[0]]
        found = (
            None if other in self._held else apart(equation, operand, self._made, inputs[operand])
        )
        if found is None:
            return None
        jaxpr, constants, slots = found
        return jaxpr, constants, [other, *slots]

    def _new(self, atom: Any) -> int:
        self._avals[len(self._avals)] = aval(atom)
        return len(self._avals) - 1

    def _constant(self, program: Program, atom: Any, value: Any) -> int:
        slot = self._new(atom)
        program.constants[slot] = value
        return slot

    def _step(self, program: Program, equation: JaxprEqn, inputs: list[int]) -> list[int]:
        step = Step(equation, inputs, [self._new(variable) for variable in equation.outvars])
        taken = {at: self._held[slot] for at, slot in enumerate(inputs) if slot in self._held}
        if self._is_made(step):
            self._made[step.outputs[0]] = step
            program.steps.append(step)
            return step.outputs
        if not _has_no_derivative(equation):
            self._used_as_they_are(inputs)
        if taken and not _has_no_derivative(equation):
            inner = inner_of(equation)
            if inner is not None:
                step = self._with_structure(step, inner, taken)
            elif not self._passed_on(step, taken):
                self._used(step, taken)
        program.steps.append(step)
        return step.outputs

    def _is_made(self, step: Step) -> bool:
        """Whether parameters are put together in a way that can be taken apart again."""
        params, made = ([slot in its for slot in step.inputs] for its in (self._held, self._made))
        return any(params + made) and is_composed(step.equation, params, made)

    def _used_as_they_are(self, slots: Iterable[int]) -> None:
        """What is made of parameters goes elsewhere than into products: they are used in that."""
        for slot in slots:
            step = self._made.pop(slot, None)
            if step is not None:
                self._used_as_they_are(step.inputs)
                pairs = enumerate(step.inputs)
                self._used(step, {at: self._held[its] for at, its in pairs if its in self._held})

    def _passed_on(self, step: Step, taken: dict[int, Held]) -> bool:
        """Whether what comes out is the parameter, in another form or in parts."""
        if len(taken) > 1:
            return False
        [held] = taken.values()
        found = views_of(step.equation, held.view)
        if found is None or not all(view.size for view in found):
            return False
        for slot, view in zip(step.outputs, found, strict=True):
            self._held[slot] = held._replace(view=view)
        return True

    def _used(self, step: Step, taken: dict[int, Held]) -> None:
        for operand, held in taken.items():
            self._uses[held.leaf].append(Use(step, operand, step.name, held))

    def _with_structure(self, step: Step, inner: list[Inner], taken: dict[int, Held]) -> Step:
        """A step with its programs, in which parameters are followed."""
        start = len(self._avals)
        turns = step.equation.params.get("length", 0)
        entered = {its[0] for program in inner for its in program.enters if its is not None}
        self._used(step, {at: its for at, its in taken.items() if at not in entered})
        programs = [
            self._program(
                its.jaxpr,
                its.constants,
                [_entering(taken, entry, turns) for entry in its.enters],
                step.name,
            )
            for its in inner
        ]
        slots = range(start, len(self._avals))
        return step._replace(structure=structure_of(step.equation, programs, slots))


def _entering(taken: dict[int, Held], entry: tuple[int, str] | None, turns: int) -> Held | None:
    """What an input of a program is, if it is a parameter."""
    held = None if entry is None else taken.get(entry[0])
    if held is None or entry is None or entry[1] == SAME:
        return held
    if entry[1] == ALL:
        return held._replace(levels=(*held.levels, Level(turns, None)))
    first, *rest = held.view.dims
    view = held.view._replace(dims=tuple(rest))
    return held._replace(view=view, levels=(*held.levels, Level(turns, first)))


def _body_of(equation: JaxprEqn) -> tuple[Any, Sequence[Any]] | None:
    """The jaxpr and the constants of a call, None for what is none or has them elsewhere."""
    if equation.primitive.name not in CALLS:
        return None
    body = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    jaxpr, constants = getattr(body, "jaxpr", body), getattr(body, "consts", ())
    fits = jaxpr is not None and len(jaxpr.constvars) == len(constants)
    return (jaxpr, constants) if fits else None


def _is_float(its: Any) -> bool:
    return hasattr(its, "dtype") and jnp.issubdtype(its.dtype, np.inexact)


def _has_no_derivative(equation: JaxprEqn) -> bool:
    is_float = any(_is_float(aval(variable)) for variable in equation.outvars)
    return equation.primitive.name == "stop_gradient" or not is_float


def views_of(equation: JaxprEqn, view: View) -> list[View] | None:
    """What comes out of an operation as views of what goes in, None if it is more than that."""
    name, params = equation.primitive.name, equation.params
    before, after = aval(equation.invars[0]), aval(equation.outvars[0])
    if name == "squeeze" or (name in RESHAPES and params.get("dimensions") is None):
        same_size = math.prod(before.shape) == math.prod(after.shape)
        found = view.reshaped(after.shape) if same_size else None
        return None if found is None else [found]
    if name == "convert_element_type":
        return [view] if jnp.promote_types(before.dtype, after.dtype) == after.dtype else None
    other = _OTHER_FORMS.get(name)
    return None if other is None else other(view, params)


def _slice(view: View, params: Any) -> list[View]:
    starts, steps = params["start_indices"], params["strides"] or (1,) * len(view.dims)
    limits = zip(starts, params["limit_indices"], steps, strict=True)
    sizes = [-(-(stop - start) // step) for start, stop, step in limits]
    return [view.sliced(starts, sizes, steps)]


def _split(view: View, params: Any) -> list[View]:
    axis, ones = params["axis"], (1,) * len(view.dims)
    found, start = [], 0
    for size in map(int, params["sizes"]):
        starts, sizes = [0] * len(view.dims), list(view.shape)
        starts[axis], sizes[axis] = start, size
        found.append(view.sliced(starts, sizes, ones))
        start += size
    return found


_OTHER_FORMS = {
    "copy": lambda view, _: [view],
    "name": lambda view, _: [view],
    "transpose": lambda view, params: [view.transposed(params["permutation"])],
    "rev": lambda view, params: [view.reversed(params["dimensions"])],
    "slice": _slice,
    "split": _split,
}
