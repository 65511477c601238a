"""PTK105, PTK106 and PTK203 of in_axes by name: its names against the parameters."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

from ..faults import Fault
from ..show import values
from ..specs import arguments, by_name
from ..specs.finding import Finding
from .call import Call, NewAxes


def unknown_names(
    fun: Callable[..., Any], in_axes: dict[Any, Any]
) -> Iterator[tuple[Fault, list[Any]]]:
    """PTK105: each name that is no parameter, with other in_axes to try."""
    names, anything = by_name.free_names(fun)
    unknown = [key for key in in_axes if key is not ... and key not in names]
    if anything:
        unknown = [key for key in unknown if not isinstance(key, str)]
    for key in unknown:
        free = [name for name in names if name not in in_axes]
        close = difflib.get_close_matches(key, free, n=1) if isinstance(key, str) else []
        known = f"its parameters are {values.listing(names)}" if names else "it has no parameters"
        fault = Fault(
            "PTK105",
            argument="",
            path="",
            spec_path=f"in_axes[{key!r}]",
            found="",
            wanted=values.spec(in_axes[key]),
            fact=f"{values.function(fun)} has no parameter {key!r}",
            note=f"did you mean {close[0]!r}?" if close else known,
        )
        repairs: list[Any] = [by_name.renamed(in_axes, key, name) for name in close]
        if len(names) == 1 and names[0] not in in_axes:
            repairs.append({names[0]: in_axes})
        yield fault, repairs


def check_names(call: Call) -> list[Finding]:
    """PTK106: each argument without an entry, and PTK203: a tuple for `*args` of another length."""
    if not call.is_by_name:
        return []
    return [*_missing(call), *_other_lengths(call)]


def _missing(call: Call) -> Iterator[Finding]:
    names = values.listing([repr(name) for name in call.in_axes])
    rows = [
        (argument, binding)
        for argument, binding, its in zip(call.passed, call.bindings, call.entries, strict=True)
        if not its.found and argument.parameter not in call.in_axes
    ]
    parameters = [argument.parameter for argument, _ in rows]
    tried = [{**call.in_axes, **dict.fromkeys(parameters, axis)} for axis in (0, None)]
    repairs = tuple(NewAxes(axes) for axes in tried)  # one for all: in_axes is written anew
    for argument, binding in rows:
        fault = Fault(
            "PTK106",
            argument=argument.name,
            path="",
            spec_path="in_axes",
            found=values.leaf_or_tree(binding.tree),
            wanted="",
            fact="has no entry in in_axes",
            note=f"its names are {names}" if names else "it names no parameter",
        )
        yield Finding(fault, repairs)


def _other_lengths(call: Call) -> Iterator[Finding]:
    extras = [its for its in call.passed if its.extra is not None]
    name = extras[0].parameter if extras else arguments.rest_name(call.fun)
    if not call.has_other_extras:
        return
    spec = call.in_axes[name]
    entries = values.count(len(spec), "entry", "entries")
    fault = Fault(
        "PTK203",
        argument="",
        path="",
        spec_path=f"in_axes[{name!r}]",
        found="",
        wanted=values.spec(spec),
        fact=f"has {entries}, the call passes {len(extras)} for *{name}",
    )
    filled = [(*spec[: len(extras)], *[fill] * (len(extras) - len(spec))) for fill in (0, None)]
    tried = [{**call.in_axes, name: axes} for axes in filled]
    yield Finding(fault, tuple(NewAxes(type(call.in_axes)(axes)) for axes in tried))
