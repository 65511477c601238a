"""PTK105, PTK106 and PTK203 of a spec by name: its names against the parameters."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

from ..faults import Fault
from ..show import values
from . import arguments, by_name
from .called import Called, NewSpec
from .finding import Finding


def unknown_names(
    fun: Callable[..., Any], spec: dict[Any, Any], spec_name: str
) -> Iterator[tuple[Fault, list[Any]]]:
    """PTK105: each name that is no parameter, with other specs to try."""
    names, anything = by_name.free_names(fun)
    unknown = [key for key in spec if key is not ... and key not in names]
    if anything:
        unknown = [key for key in unknown if not isinstance(key, str)]
    for key in unknown:
        free = [name for name in names if name not in spec]
        close = difflib.get_close_matches(key, free, n=1) if isinstance(key, str) else []
        known = f"its parameters are {values.listing(names)}" if names else "it has no parameters"
        fault = Fault(
            "PTK105",
            argument="",
            path="",
            spec_path=f"{spec_name}[{key!r}]",
            found="",
            wanted=values.spec(spec[key]),
            fact=f"{values.function(fun)} has no parameter {key!r}",
            note=f"did you mean {close[0]!r}?" if close else known,
        )
        repairs: list[Any] = [by_name.renamed(spec, key, name) for name in close]
        if len(names) == 1 and names[0] not in spec:
            repairs.append({names[0]: spec})
        yield fault, repairs


def check_names(call: Called) -> list[Finding]:
    """PTK106: each argument without an entry, and PTK203: a tuple for `*args` of another length."""
    if not call.is_by_name:
        return []
    return [*_missing(call), *_other_lengths(call)]


def _missing(call: Called) -> Iterator[Finding]:
    names = values.listing([repr(name) for name in call.spec])
    rows = [
        (argument, binding)
        for argument, binding, its in zip(call.passed, call.bindings, call.entries, strict=True)
        if not its.found and argument.parameter not in call.spec
    ]
    parameters = [argument.parameter for argument, _ in rows]
    named = all(isinstance(key, str) or key is ... for key in call.spec)  # else they do not sort
    tried = [{**call.spec, **dict.fromkeys(parameters, its)} for its in call.fills if named]
    repairs = tuple(NewSpec(its) for its in tried)  # one for all: the spec is written anew
    for argument, binding in rows:
        fault = Fault(
            "PTK106",
            argument=argument.name,
            path="",
            spec_path=call.spec_name,
            found=values.leaf_or_tree(binding.tree),
            wanted="",
            fact=f"has no entry in {call.spec_name}",
            note=f"its names are {names}" if names else "it names no parameter",
        )
        yield Finding(fault, repairs)


def _other_lengths(call: Called) -> Iterator[Finding]:
    extras = [its for its in call.passed if its.extra is not None]
    name = extras[0].parameter if extras else arguments.rest_name(call.fun)
    if not call.has_other_extras:
        return
    spec = call.spec[name]
    entries = values.count(len(spec), "entry", "entries")
    fault = Fault(
        "PTK203",
        argument="",
        path="",
        spec_path=f"{call.spec_name}[{name!r}]",
        found="",
        wanted=values.spec(spec),
        fact=f"has {entries}, the call passes {len(extras)} for *{name}",
    )
    filled = [(*spec[: len(extras)], *[fill] * (len(extras) - len(spec))) for fill in call.fills]
    tried = [{**call.spec, name: its} for its in filled]
    yield Finding(fault, tuple(NewSpec(type(call.spec)(its)) for its in tried))
