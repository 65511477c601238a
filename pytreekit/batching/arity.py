"""PTK203 at the top: in_axes has another number of entries than the call has arguments."""

from __future__ import annotations

import dataclasses
import inspect

from ..faults import Fault
from ..show import values
from ..specs import arguments
from ..specs.finding import Finding
from .call import Advice, Call, NewAxes


def check_arity(call: Call) -> list[Finding]:
    """A tuple of in_axes needs one entry for each argument that is passed by position."""
    if not isinstance(call.in_axes, tuple) or len(call.in_axes) == len(call.args):
        return []
    names = arguments.positional_names(call.fun, len(call.args))
    passed = values.count(len(names), "positional argument")
    entries = values.count(len(call.in_axes), "entry", "entries")
    fault = Fault(
        "PTK203",
        argument="",
        path="",
        spec_path="in_axes",
        found="",
        wanted=values.spec(call.in_axes),
        fact=f"in_axes has {entries}, the call has {passed} ({values.listing(names)})",
        note=_why(call),
    )
    return [Finding(fault, (*_by_position(call), *_other_axes(call)))]


def _extra(call: Call) -> list[tuple[int, str]]:
    """The entries that no positional argument meets, each with the parameter it was meant for."""
    beyond = range(len(call.args), len(call.in_axes))
    return [(index, arguments.parameter_name(call.fun, index)) for index in beyond]


def _why(call: Call) -> str:
    """Why in_axes may have more entries than there are positional arguments."""
    by_keyword = [name for _, name in _extra(call) if name in call.kwargs]
    if by_keyword:
        return f"{values.listing(by_keyword)} passed by keyword: keywords are not counted"
    if inspect.ismethod(call.fun) and len(call.in_axes) == len(call.args) + 1:
        return "self of a bound method is not counted"
    absent = [
        f"in_axes[{i}] is for {name}, which is not passed" for i, name in _extra(call) if name
    ]
    return absent[0] if absent else ""


def _by_position(call: Call) -> list[Advice]:
    """Pass by position what in_axes counts and the call passes by keyword."""
    names = [name for _, name in _extra(call)]
    if not names or not all(name in call.kwargs for name in names):
        return []

    def moved(call: Call) -> Call:
        rest = {name: value for name, value in call.kwargs.items() if name not in names}
        args = (*call.args, *(call.kwargs[name] for name in names))
        return dataclasses.replace(call, args=args, kwargs=rest)

    return [Advice(f"pass {values.listing(names)} by position", moved)]


def _other_axes(call: Call) -> list[NewAxes]:
    """One entry around a single container, the extra ones dropped, or the missing ones added."""
    axes, count = call.in_axes, len(call.args)
    if len(axes) > count:
        return [*[NewAxes((axes,))] * (count == 1), NewAxes(axes[:count])]
    one_for_all = [NewAxes(axes[0])] if axes and all(axis == axes[0] for axis in axes) else []
    filled = [NewAxes((*axes, *[fill] * (count - len(axes)))) for fill in (0, None)]
    return one_for_all + filled
