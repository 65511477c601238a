"""What a function calls the arguments of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except Exception:  # noqa: BLE001  builtins have none, and a user's __signature__ may raise
        return None


def has_signature(fun: Callable[..., Any]) -> bool:
    """Whether a function has a signature that can be read."""
    return _signature(fun) is not None


def parameters(fun: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, none where it has no signature that can be read."""
    signature = _signature(fun)
    return [] if signature is None else list(signature.parameters.values())


def positional_names(fun: Callable[..., Any], count: int) -> list[str]:
    """The names of `count` arguments passed by position: `x`, `xs[0]` for `*xs`, else `args[0]`."""
    known = parameters(fun)
    names = [parameter.name for parameter in known if parameter.kind in _POSITIONAL]
    rest = [p.name for p in known if p.kind is inspect.Parameter.VAR_POSITIONAL]
    if rest:
        names += [f"{rest[0]}[{index}]" for index in range(count - len(names))]
    return [*names[:count], *(f"args[{index}]" for index in range(len(names), count))]


def takes_keyword(fun: Callable[..., Any], name: str, count: int) -> bool:
    """Whether a keyword is for a parameter of that name, when `count` arguments are positional."""
    kinds = {parameter.name: parameter.kind for parameter in parameters(fun)}
    return kinds.get(name) in _BY_KEYWORD and name not in positional_names(fun, count)


def parameter_name(fun: Callable[..., Any], index: int) -> str:
    """The name of a positional parameter, `""` where there is no such parameter."""
    names = [parameter.name for parameter in parameters(fun) if parameter.kind in _POSITIONAL]
    return names[index] if index < len(names) else ""


def rest_name(fun: Callable[..., Any]) -> str:
    """The name of `*args`, `""` where there is none."""
    kinds = {parameter.kind: parameter.name for parameter in parameters(fun)}
    return kinds.get(inspect.Parameter.VAR_POSITIONAL, "")
