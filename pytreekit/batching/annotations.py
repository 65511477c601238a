"""What a function's annotations say of one example, where jaxtyping has a say in them."""

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

import jax

MOST_WRAPPERS = 32
"""How many decorators are looked through."""


QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final")
"""What may stand about the annotation of a field, and says nothing of what the field holds."""


class Declared(NamedTuple):
    """The annotations of a function that speak of arrays.

    Attributes:
        parameters: The annotation of each parameter that has one, in the order of the signature.
        returns: The annotation of what it returns, `...` where there is none.
        names: The names of all parameters.
        keywords: The name of the parameter for keywords that no other one takes.
    """

    parameters: dict[str, Any]
    returns: Any
    names: frozenset[str]
    keywords: str


def declared(fun: Callable[..., Any]) -> Declared | None:
    """What the annotations of a function say of one example, None where they say nothing."""
    if "jaxtyping" not in sys.modules:
        return None  # then no annotation can be one of its
    plain = _plain(fun)
    if plain is None:
        return None
    try:
        signature = inspect.signature(fun)
    except Exception:  # noqa: BLE001  a user's __signature__ may raise anything
        return None
    scope = getattr(plain, "__globals__", {})
    hints = {
        name: hint
        for name, parameter in signature.parameters.items()
        if speaks_of_arrays(hint := _evaluated(parameter.annotation, scope))
    }
    returns = _evaluated(signature.return_annotation, scope)
    if not speaks_of_arrays(returns):
        returns = ...
    if not hints and returns is ...:
        return None
    kinds = {its.kind: name for name, its in signature.parameters.items()}
    rest = kinds.get(inspect.Parameter.VAR_KEYWORD, "")
    return Declared(hints, returns, frozenset(signature.parameters) - {rest}, rest)


def _plain(fun: Any) -> Any:
    """The function whose annotations `fun` shows, None where its arguments may be others.

    A decorator copies annotations, but what `jax.vmap` makes of a function takes a batch, and what
    `jax.grad` makes of it returns something else. Only of some is it known that they do not.
    """
    for _ in range(MOST_WRAPPERS):
        if inspect.isfunction(fun) and not hasattr(fun, "__wrapped__"):
            return fun
        fun = _behind(fun)
    return None


def _behind(fun: Any) -> Any:
    """What a callable hands its arguments on to, None where it may hand on others."""
    if isinstance(fun, functools.partial):
        return fun.func
    if inspect.ismethod(fun) or (hasattr(fun, "__func__") and hasattr(fun, "__self__")):
        return fun.__func__  # also of Equinox, whose bound methods are modules
    wrapped = getattr(fun, "__wrapped__", None)
    if wrapped is None:
        return None if isinstance(fun, type) else type(fun).__call__
    if inspect.isfunction(fun):
        return wrapped if _checks_types(fun) else None
    return wrapped if isinstance(fun, jax.stages.Wrapped) else None


def _checks_types(wrapper: types.FunctionType) -> bool:
    """Whether a wrapper is jaxtyping's or beartype's, which hand on the arguments as they are."""
    module = wrapper.__globals__.get("__name__", "")  # for beartype's, of what it wraps
    made_by_beartype = wrapper.__code__.co_filename.startswith("<@beartype(")
    return made_by_beartype or module.partition(".")[0] == "jaxtyping"


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

    return (
        isinstance(hint, type) and issubclass(hint, jaxtyping.PyTree) and hasattr(hint, "leaftype")
    )


def stripped(hint: Any) -> Any:
    """An annotation without aliases, `Annotated` and type variables, which say nothing of it."""
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
        elif str(typing.get_origin(hint)).rpartition(".")[2] in QUALIFIERS:
            hint = typing.get_args(hint)[0]
        else:
            return hint


def is_union(hint: Any) -> bool:
    """Whether an annotation leaves a choice."""
    return typing.get_origin(hint) in (Union, types.UnionType)


def is_unpacked(hint: Any) -> bool:
    """Whether an annotation in a tuple is of any number of its entries."""
    return typing.get_origin(hint) is typing.Unpack or getattr(hint, "__unpacked__", False)


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


@functools.lru_cache(maxsize=1024)
def of_any_array(hint: Any) -> Any:
    """An annotation for arrays that asks for dtype and shape only, whatever holds them."""
    return hint.dtype[Any, hint.dim_str]


def text(hint: Any) -> str:
    """An annotation as it is written: `Float[Array, "d k"]`."""
    if is_array(hint):
        kind = getattr(hint.array_type, "__name__", str(hint.array_type)).rpartition(".")[2]
        return f'{hint.dtype.__name__}[{kind}, "{hint.dim_str}"]'
    if is_pytree(hint):
        named = "" if hint.structure is None else f', "{hint.structure.strip()}"'
        return f"PyTree[{text(hint.leaftype)}{named}]"
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    if is_union(hint):
        return " | ".join(map(text, typing.get_args(hint)))
    if args := typing.get_args(hint):
        origin = typing.get_origin(hint)
        inner = ", ".join("..." if arg is ... else text(arg) for arg in args)
        return f"{getattr(origin, '__name__', str(origin))}[{inner}]"
    return "None" if hint is type(None) else str(hint).removeprefix("typing.")


class Other:
    """What stands for a leaf of which nothing is asked."""


@functools.lru_cache(maxsize=1024)
def pytree_of_any_array(hint: Any, *, or_other: bool = False) -> Any:
    """`PyTree[...]` with all annotations for arrays in it as `of_any_array` has them."""
    import jaxtyping

    leaf = _any_inside(hint.leaftype)
    if or_other:
        leaf = leaf | Other
    return jaxtyping.PyTree[leaf if hint.structure is None else (leaf, hint.structure)]


def _any_inside(hint: Any) -> Any:
    hint = stripped(hint)
    if not speaks_of_arrays(hint):
        return hint
    if is_array(hint):
        return of_any_array(hint)
    if is_pytree(hint):
        return pytree_of_any_array(hint)
    args = tuple(map(_any_inside, typing.get_args(hint)))
    if is_union(hint):
        return Union[args]  # noqa: UP007  of a tuple that is made here
    return typing.get_origin(hint)[args] if args else hint


def context() -> Any:
    """Within it, jaxtyping binds the names of dimensions."""
    from jaxtyping import jaxtyped

    return jaxtyped("context")
