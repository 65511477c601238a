"""What stands in the place of a function: dressed, bound and found as the function is."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import jax

from ..faults import Fault
from .rest import marked

P = ParamSpec("P")
R = TypeVar("R")


class Transformed(Generic[P, R]):
    """What a transformation makes of a function: it copies and pickles as the function does.

    Args:
        written: The options as they are written, a dataclass that has the function as `fun`.
        more: The keywords that `type(self)` is made with besides.
    """

    __wrapped__: Callable[P, R]
    __name__: str
    __qualname__: str

    def __init__(self, written: Any, **more: Any) -> None:
        dress(self, written.fun)
        self._written = written
        self._more = more

    def __reduce__(self) -> Any:
        place = _standing(self)
        if place is self:
            return self.__qualname__  # found where it is defined, as functions are
        written = self._written
        instance = getattr(written.fun, "__self__", None)
        if instance is not None and getattr(instance, self.__name__, None) is self:
            return getattr, (instance, self.__name__)
        decorates = isinstance(place, Transformed) and place.__wrapped__ is written.fun
        if decorates:
            # The function itself cannot be found: what it was decorated to stands in its place.
            written = dataclasses.replace(written, fun=place)
        again = functools.partial(_again, type(self), decorates=decorates)
        return again, (written, self._more)


def _again(
    kind: type[Transformed[..., Any]], written: Any, more: dict[str, Any], *, decorates: bool
) -> Any:
    """What was made of a function, from what copies and pickles carry of it."""
    if decorates:
        written = dataclasses.replace(written, fun=written.fun.__wrapped__)
    return kind(written, **more)


class BoundTo(Generic[P, R]):
    """A method of one instance, made of a transformed function: it passes the instance first.

    Two that bind one function to one instance are equal, as bound methods are: to `jax.jit`, too.
    """

    __wrapped__: Callable[P, R]
    __name__: str
    __qualname__: str

    def __init__(self, transformed: Any, instance: Any) -> None:
        # Not `__get__`, which only functions have: like JAX's, what is transformed always binds.
        dress(self, types.MethodType(transformed.__wrapped__, instance))
        self.__func__ = transformed
        self.__self__ = instance

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the method."""
        __tracebackhide__ = True
        return self.__func__(self.__self__, *args, **kwargs)

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """As `check` of the function, with the instance as the first argument."""
        return self.__func__.check(self.__self__, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundTo):
            return NotImplemented
        return self.__self__ is other.__self__ and self.__func__ is other.__func__

    def __hash__(self) -> int:
        return hash((id(self.__self__), self.__func__))

    def __reduce__(self) -> Any:
        name = getattr(self, "__name__", "")
        found = getattr(self.__self__, name, None)
        if isinstance(found, BoundTo) and found == self:
            return getattr, (self.__self__, name)  # also finds what a class method binds
        return type(self), (self.__func__, self.__self__)


def dress(wrapper: Any, fun: Any) -> None:
    """Name and document `wrapper` as `fun`, whose attributes do not hide the wrapper's methods."""
    its = getattr(fun, "__dict__", {})
    vars(wrapper).update({name: its[name] for name in its if not hasattr(type(wrapper), name)})
    functools.update_wrapper(wrapper, fun, updated=())


def _standing(wrapper: Any) -> Any:
    """What stands where a wrapped function says that it is defined; None for nothing."""
    place: Any = sys.modules.get(getattr(wrapper, "__module__", ""))
    for name in getattr(wrapper, "__qualname__", "").split("."):
        place = getattr(place, name, None)
    return place


def copied(spec: Any) -> Any:
    """A copy of the containers of a spec: later changes to the original have no effect."""
    values, structure = jax.tree.flatten(spec, is_leaf=lambda node: node is None)
    try:
        return structure.unflatten(values)
    except Exception:  # noqa: BLE001  a user's constructor may refuse what its instance holds
        return spec


def kept(spec: Any) -> Any:
    """A copy of a spec that may hold `...`; one that JAX cannot flatten is told with the calls."""
    try:
        return copied(marked(spec))
    except ValueError:  # a dict whose keys do not sort
        return spec
