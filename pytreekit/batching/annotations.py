"""What a function's annotations say of one example, where they speak of arrays."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, Union


class Annotated_(NamedTuple):
    """The annotated parameters of a function and of what it returns; `...` where there is none."""

    parameters: dict[str, Any]
    returns: Any


def annotations_of(fun: Callable[..., Any]) -> Annotated_ | None:
    """The annotations of a function that speak of arrays, None where none does."""
    if "jaxtyping" not in sys.modules:
        return None  # then no annotation can be one of its
    try:
        signature = inspect.signature(fun)
    except Exception:  # noqa: BLE001  builtins have none, and a user's __signature__ may raise
        return None
    scope = getattr(inspect.unwrap(_function(fun)), "__globals__", {})
    hints = {
        name: hint
        for name, parameter in signature.parameters.items()
        if speaks_of_arrays(hint := _evaluated(parameter.annotation, scope))
    }
    returns = _evaluated(signature.return_annotation, scope)
    if not speaks_of_arrays(returns):
        returns = ...
    return Annotated_(hints, returns) if hints or returns is not ... else None


def _function(fun: Any) -> Any:
    """The plain function behind a partial, a bound method or a callable object."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    fun = getattr(fun, "__func__", fun)
    return fun if hasattr(fun, "__code__") or hasattr(fun, "__wrapped__") else type(fun).__call__


def _evaluated(annotation: Any, scope: Mapping[str, Any]) -> Any:
    """An annotation as an object: `...` where there is none, or none that can be evaluated."""
    if annotation is inspect.Parameter.empty:
        return ...

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(holder, dict(scope), include_extras=True)["it"]
    except Exception:  # noqa: BLE001  a name of an enclosing function, or under TYPE_CHECKING
        return ...


@functools.lru_cache(maxsize=1024)
def _speaks(hint: Any) -> bool:
    return any(is_array(part) for part in _parts(hint, frozenset()))


def speaks_of_arrays(hint: Any) -> bool:
    """Whether jaxtyping has a say in an annotation, at any depth."""
    try:
        return _speaks(hint)
    except TypeError:  # an annotation that does not hash
        return False


def is_array(hint: Any) -> bool:
    """Whether an annotation is one of jaxtyping for arrays, such as `Float[Array, "d"]`."""
    import jaxtyping

    return isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)


def is_pytree(hint: Any) -> bool:
    """Whether an annotation is `PyTree[...]`."""
    import jaxtyping

    return isinstance(hint, type) and issubclass(hint, jaxtyping.PyTree) and hasattr(hint, "leaftype")


def stripped(hint: Any) -> Any:
    """An annotation without what says nothing of the value: aliases, `Annotated`, type variables."""
    while True:
        if typing.get_origin(hint) is Annotated:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, TypeVar):
            bound = hint.__bound__
            hint = bound if bound is not None else Union[hint.__constraints__ or (Any,)]  # noqa: UP007
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif hasattr(hint, "__value__"):  # `type X = ...`
            hint = hint.__value__
        else:
            return hint


def is_union(hint: Any) -> bool:
    """Whether an annotation leaves a choice."""
    return typing.get_origin(hint) in (Union, types.UnionType)


def fields_of(kind: Any) -> dict[str, Any]:
    """The annotated fields of a dataclass, a NamedTuple or a TypedDict, none for other types."""
    if not isinstance(kind, type):
        return {}
    named = hasattr(kind, "_fields") or typing.is_typeddict(kind)
    if not (named or dataclasses.is_dataclass(kind)):
        return {}
    with contextlib.suppress(Exception):  # a forward reference that cannot be resolved
        return typing.get_type_hints(kind, include_extras=True)
    return {}


def _parts(hint: Any, above: frozenset[Any]) -> Iterator[Any]:
    """An annotation and all that it is made of."""
    hint = stripped(hint)
    if hint is ... or hint in above:
        return
    yield hint
    within = above | {hint}
    inner: Sequence[Any] = typing.get_args(hint)
    if is_pytree(hint):
        inner = (hint.leaftype,)
    elif not inner:
        inner = tuple(fields_of(hint).values())
    for part in inner:
        with contextlib.suppress(TypeError):  # what does not hash, such as Literal[[]]
            yield from _parts(part, within)
