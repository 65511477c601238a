"""What keeps examples from being taken apart: PTK408 and PTK409, told by operation and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from types import TracebackType
from typing import Any

import jax
from jax.extend.core import JaxprEqn

from ..faults import Fault
from .ghost.equations import equations, place, source

_ONLY_TYPED = frozenset({"axis_index", "pvary", "pcast"})
"""What names an axis, and takes nothing from other devices."""


def check_effects(jaxpr: Any) -> list[Fault]:
    """PTK409: effects whose order is lost where a loss is read, or taken twice."""
    ordered = [its for its in equations(jaxpr) if its.params.get("ordered") is True]
    return _once(Fault("PTK409", "", "", "", "", "", fact=_effect(its), note=_at(source(its)))
                 for its in ordered)  # fmt: skip


def check_collectives(jaxpr: Any, axes: Iterable[Any]) -> list[Fault]:
    """PTK408: what takes something from examples on other devices.

    Args:
        jaxpr: The loss.
        axes: The mesh axes over which examples differ.
    """
    return _once(
        Fault("PTK408", "", "", "", "", "", fact=_mixes(name, axis), note=_at(source(equation)))
        for equation in equations(jaxpr)
        if (name := equation.primitive.name) not in _ONLY_TYPED
        for axis in _axes(equation)
        if axis in axes
    )


def check_unbound(error: NameError) -> list[Fault]:
    """PTK408: a collective over an axis that is none where a loss sees one example.

    Nothing, if the error is one of the loss itself.
    """
    if error.name is not None:  # a name of Python, which no axis has
        return []
    frames = list(_frames(error.__traceback__))
    own = PurePath(jax.__file__).parent
    outside = [
        at for at, its in enumerate(frames)
        if own not in PurePath(its.tb_frame.f_code.co_filename).parents
    ]  # fmt: skip
    code, line = frames[outside[-1]].tb_frame.f_code, frames[outside[-1]].tb_lineno
    at = _at(place(code.co_filename, line, code.co_qualname))
    called = [its.tb_frame for its in frames[outside[-1] + 1 :]]
    name = called[0].f_code.co_name if called else "an operation"
    axis = called[0].f_locals.get("axis_name", "an axis") if called else "an axis"
    note = f"{at}, where one example is seen"
    return [Fault("PTK408", "", "", "", "", "", fact=_mixes(name, axis), note=note)]


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _axes(equation: JaxprEqn) -> tuple[Any, ...]:
    """The names of the axes over which an operation works."""
    found = equation.params.get("axes", equation.params.get("axis_name", ()))
    return tuple(found) if isinstance(found, list | tuple) else (found,)


def _mixes(name: str, axis: Any) -> str:
    return f"{name.removesuffix('_invariant')} over {axis!r} takes in other examples"


def _effect(equation: JaxprEqn) -> str:
    return f"the effects of {equation.primitive.name} cannot be kept in order"


def _at(where: str) -> str:
    return f"at {where}" if where else ""


def _once(faults: Iterable[Fault]) -> list[Fault]:
    return list(dict.fromkeys(faults))
