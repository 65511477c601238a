"""PTK203 at the top: a spec has another number of entries than the call has arguments."""

from __future__ import annotations

import dataclasses
import inspect

from ..faults import Fault
from ..show import values
from . import arguments
from .called import Advice, Called, NewSpec
from .finding import Finding


def check_arity(call: Called) -> list[Finding]:
    """A spec by position needs one entry for each argument that is passed by position."""
    if not isinstance(call.spec, tuple) or len(call.spec) == len(call.args):
        return []
    names = arguments.positional_names(call.fun, len(call.args))
    passed = values.count(len(names), "positional argument")
    entries = values.count(len(call.spec), "entry", "entries")
    fault = Fault(
        "PTK203",
        argument="",
        path="",
        spec_path=call.spec_name,
        found="",
        wanted=values.spec(call.spec),
        fact=f"{call.spec_name} has {entries}, the call has {passed} ({values.listing(names)})",
        note=_why(call),
    )
    return [Finding(fault, (*_by_position(call), *_other_specs(call)))]


def _extra(call: Called) -> list[tuple[int, str]]:
    """The entries that no positional argument meets, each with the parameter it was meant for."""
    beyond = range(len(call.args), len(call.spec))
    return [(index, arguments.parameter_name(call.fun, index)) for index in beyond]


def _why(call: Called) -> str:
    """Why a spec may have more entries than there are positional arguments."""
    by_keyword = [name for _, name in _extra(call) if name in call.kwargs]
    if by_keyword:
        return f"{values.listing(by_keyword)} passed by keyword: keywords are not counted"
    if inspect.ismethod(call.fun) and len(call.spec) == len(call.args) + 1:
        return "self of a bound method is not counted"
    absent = [
        f"{call.spec_name}[{index}] is for {name}, which is not passed"
        for index, name in _extra(call)
        if name
    ]
    return absent[0] if absent else ""


def _by_position(call: Called) -> list[Advice]:
    """Pass by position what the spec counts and the call passes by keyword."""
    names = [name for _, name in _extra(call)]
    if not names or not all(name in call.kwargs for name in names):
        return []

    def moved(call: Called) -> Called:
        rest = {name: value for name, value in call.kwargs.items() if name not in names}
        args = (*call.args, *(call.kwargs[name] for name in names))
        return dataclasses.replace(call, args=args, kwargs=rest)

    return [Advice(f"pass {values.listing(names)} by position", moved)]


def _other_specs(call: Called) -> list[NewSpec]:
    """One entry around a single container, the extra ones dropped, or the missing ones added."""
    spec, count = call.spec, len(call.args)
    if len(spec) > count:
        return [*[NewSpec((spec,))] * (count == 1), NewSpec(spec[:count])]
    one_for_all = [NewSpec(spec[0])] if spec and all(its == spec[0] for its in spec) else []
    filled = [NewSpec((*spec, *[fill] * (count - len(spec)))) for fill in call.fills]
    return one_for_all + filled
