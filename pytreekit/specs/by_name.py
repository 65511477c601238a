"""Specs by parameter name: a dict keyed by a function's parameters, `...` for those not named."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import arguments

SELF = "self"
"""The parameter that is shared unless it is named: an instance is no batch."""


class Passed(NamedTuple):
    """An argument of a call.

    Attributes:
        name: What messages call it: `"x"`, or `"xs[0]"` for the first of `*xs`.
        parameter: The parameter that it is passed for: `"x"`, `"xs"`.
        extra: Its place among the extra ones of `*xs`, None for any other argument.
    """

    name: str
    parameter: str
    extra: int | None = None


class Named(NamedTuple):
    """The entry for an argument, and where it stands; `found` is False where there is none."""

    spec: Any
    place: str
    found: bool = True


def passed(fun: Callable[..., Any], count: int, keywords: Mapping[str, Any]) -> list[Passed]:
    """The arguments of a call: by position, then by keyword in the order of flattening."""
    names = arguments.positional_names(fun, count)
    rest = arguments.rest_name(fun)
    first = sum(not (rest and name.startswith(f"{rest}[")) for name in names)
    by_position = [
        Passed(name, name) if index < first else Passed(name, rest, index - first)
        for index, name in enumerate(names)
    ]
    return [*by_position, *(Passed(name, name) for name in sorted(keywords))]


def named(
    fun: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by what messages call them."""
    values = [*args, *(keywords[name] for name in sorted(keywords))]
    names = (its.name for its in passed(fun, len(args), keywords))
    return dict(zip(names, values, strict=True))


def entry(specs: Mapping[Any, Any], argument: Passed, spec_name: str) -> Named:
    """What a mapping by name says of an argument."""
    name, index = argument.parameter, argument.extra
    if name in specs:
        spec, place = specs[name], f"{spec_name}[{name!r}]"
        if index is None or type(spec) is not tuple:
            return Named(spec, place)
        if index < len(spec):
            return Named(spec[index], f"{place}[{index}]")
        return Named(None, place, found=False)
    if name == SELF:
        return Named(None, spec_name)
    if ... in specs:
        return Named(specs[...], f"{spec_name}[...]")
    return Named(None, spec_name, found=False)


def with_entry(specs: dict[Any, Any], argument: Passed, spec: Any, extras: int) -> dict[Any, Any]:
    """A copy of a mapping by name with another entry for one argument, of `extras` in `*args`."""
    name, index = argument.parameter, argument.extra
    if index is not None:
        old = specs.get(name, specs.get(...))
        entries = list(old) if type(old) is tuple else [old] * extras
        entries += [None] * (index + 1 - len(entries))
        entries[index] = spec
        same = all(one is spec for one in entries)
        spec = spec if same else tuple(entries)
    return type(specs)({**specs, name: spec})


def renamed(specs: dict[Any, Any], old: Any, new: str) -> dict[Any, Any]:
    """A copy of a mapping with another name for an entry, in the same place."""
    return type(specs)({new if key == old else key: spec for key, spec in specs.items()})


def free_names(fun: Callable[..., Any]) -> tuple[list[str], bool]:
    """The names that entries can have, and whether any other will do as well, for `**kwargs`."""
    known = arguments.parameters(fun)
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known)
    anything = anything or not arguments.has_signature(fun)
    return [p.name for p in known if p.kind is not inspect.Parameter.VAR_KEYWORD], anything
