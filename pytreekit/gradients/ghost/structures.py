"""Operations that hold programs: `scan`, `remat` and `cond`, run with taps inside of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn

from .program import Program, Ran, Step, Taps

SAME, ALL, EACH = "same", "all", "each"
"""How an operand enters a program: as it is, the same in all turns, or a part of it in each."""


class Inner(NamedTuple):
    """A program that an operation holds.

    Attributes:
        jaxpr: Its equations.
        constants: The values of its constants.
        enters: For each of its inputs, the operand and how it enters; None for what changes.
    """

    jaxpr: Any
    constants: Sequence[Any]
    enters: list[tuple[int, str] | None]


def inner_of(equation: JaxprEqn) -> list[Inner] | None:
    """The programs of an operation, None for one that is not known here."""
    reader = _READERS.get(equation.primitive.name)
    found = None if reader is None else reader(equation)
    if found is None or any(its.jaxpr is None for its in found):
        return None
    fits = all(
        len(its.jaxpr.invars) == len(its.enters)
        and len(its.jaxpr.constvars) == len(its.constants)
        and len(its.jaxpr.outvars) == len(equation.outvars)
        for its in found
    )
    return found if fits else None


def structure_of(equation: JaxprEqn, programs: list[Program], slots: range) -> Any:
    """What runs an operation.

    Args:
        equation: The operation.
        programs: Its programs.
        slots: All slots of these.
    """
    return _STRUCTURES[equation.primitive.name](programs, slots)


class Scan(NamedTuple):
    """Runs a `scan`."""

    programs: list[Program]
    slots: range

    def run(self, step: Step, values: list[Any], taps: Taps) -> Ran:
        """Does it, with taps that take other data in each turn, or keep something of it."""
        [program], params = self.programs, step.equation.params
        constants, carry = _counts(params) or (0, 0)
        fixed, first, rows = (
            values[:constants],
            values[constants : constants + carry],
            values[constants + carry :],
        )
        stacked, same = taps.split()

        def turn(state: list[Any], its: Any) -> tuple[list[Any], Any]:
            row, data = its
            out, kept = program.run([*fixed, *state, *row], taps.with_data({**same, **data}))
            return out[:carry], (out[carry:], kept)

        options = {name: params[name] for name in ("length", "reverse", "unroll")}
        last, (out, kept) = lax.scan(turn, first, (rows, stacked), **options)
        return [*last, *out], kept


class Remat(NamedTuple):
    """Runs what `jax.checkpoint` makes: what is not kept is computed again."""

    programs: list[Program]
    slots: range

    def run(self, step: Step, values: list[Any], taps: Taps) -> Ran:
        """Does it, with taps inside."""
        [program], params = self.programs, step.equation.params

        def again(values: list[Any], data: dict[int, Any]) -> Ran:
            return program.run(values, taps.with_data(data))

        options = {name: params[name] for name in ("prevent_cse", "policy")}
        return jax.checkpoint(again, **options)(values, dict(taps.data))


class Cond(NamedTuple):
    """Runs a `cond`."""

    programs: list[Program]
    slots: range

    def run(self, step: Step, values: list[Any], taps: Taps) -> Ran:
        """Does it; of branches that are not taken, zeros are kept."""
        index, *operands = values
        data = dict(taps.data)
        runs = [
            lambda operands, data, program=program: program.run(operands, taps.with_data(data))
            for program in self.programs
        ]
        shapes = {}
        for run in runs:
            shapes.update(jax.eval_shape(run, operands, data)[1])

        def branch(run: Any) -> Any:
            def of_it(operands: list[Any], data: dict[int, Any]) -> Ran:
                out, kept = run(operands, data)
                none = {
                    slot: jnp.zeros(its.shape, its.dtype)
                    for slot, its in shapes.items()
                    if slot not in kept
                }
                return out, {**kept, **none}

            return of_it

        return lax.switch(index, [branch(run) for run in runs], operands, data)


def _scan(equation: JaxprEqn) -> list[Inner] | None:
    counts, params = _counts(equation.params), equation.params
    if counts is None or not all(name in params for name in ("length", "reverse", "unroll")):
        return None
    constants, carry = counts
    enters: list[tuple[int, str] | None] = [(at, ALL) for at in range(constants)]
    enters += [None] * carry
    enters += [(at, EACH) for at in range(constants + carry, len(equation.invars))]
    return [_inner(params.get("jaxpr"), enters)]


def _counts(params: Any) -> tuple[int, int] | None:
    """How many operands of a scan are constants, and how many are carried on."""
    if "num_consts" in params and "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    if "ft_in" not in params:
        return None
    constants, carry, _ = params["ft_in"].unpack()  # from jax 0.12 on
    return len(list(constants)), len(list(carry))


def _remat(equation: JaxprEqn) -> list[Inner] | None:
    params = equation.params
    if not all(name in params for name in ("prevent_cse", "policy")):
        return None
    return [_inner(params.get("jaxpr"), [(at, SAME) for at in range(len(equation.invars))])]


def _cond(equation: JaxprEqn) -> list[Inner] | None:
    enters: list[tuple[int, str] | None]
    enters = [(at, SAME) for at in range(1, len(equation.invars))]
    return [_inner(its, [*enters]) for its in equation.params.get("branches", ())] or None


def _inner(body: Any, enters: list[tuple[int, str] | None]) -> Inner:
    """The jaxpr of a body, which older releases of JAX hold with its constants."""
    return Inner(getattr(body, "jaxpr", body), getattr(body, "consts", ()), enters)


_READERS = {"scan": _scan, "remat2": _remat, "checkpoint": _remat, "cond": _cond}
_STRUCTURES = {"scan": Scan, "remat2": Remat, "checkpoint": Remat, "cond": Cond}
