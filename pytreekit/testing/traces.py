"""`assert_single_trace`: a function that is to be traced once."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

import jax
from jax.core import Tracer

from ..show import assertions, values
from ..specs import by_name
from ..trees import leaves
from ..trees.diff import differences
from ..trees.difference import Difference, TreeDiff, under
from ..trees.nodes import told

P = ParamSpec("P")
R = TypeVar("R")

BOTH = ("the first trace", "the second")
ALIKE = """Its arguments have the structure, shapes and dtypes that they had before. So it was
transformed anew, mapped over a batch of another size, or given a keyword for what was
a positional argument."""


def assert_single_trace(fun: Callable[P, R]) -> SingleTrace[P, R]:
    """Assert that a function is traced once, however often it is called under `jit`.

    A decorator, under the transformations: `@jax.jit` above `@assert_single_trace`; the second
    trace raises. Or a context manager, which gives the function to use in it, and which also raises
    at its end if the function was never traced. Calls without a traced argument do not count.
    Unlike `chex.assert_max_traces`, it counts for the object that it returns and for no other, so
    that tests do not have to clear a counter.

    Args:
        fun: A function that is not transformed yet.

    Returns:
        The function, which counts its traces.

    Raises:
        AssertionError: In the second trace, with what is different about its arguments.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> from pytreekit.testing import assert_single_trace
        >>> with assert_single_trace(lambda x: x * 2) as double:
        ...     batched = jax.jit(ptk.vmap(double))
        ...     for _ in range(3):
        ...         doubled = batched(jnp.ones(4))
        >>> @jax.jit
        ... @assert_single_trace
        ... def total(x):
        ...     return x.sum()
        >>> three = total(jnp.ones(3))
        >>> try:
        ...     total(jnp.ones(4))
        ... except AssertionError as error:
        ...     print(error)
        total is traced a second time
        <BLANKLINE>
        1 difference between the first trace and the second
        <BLANKLINE>
          shape   x   the first trace has f32[3]; the second has f32[4]
    """
    return SingleTrace(fun)


class SingleTrace(Generic[P, R]):
    """A function that is to be traced once: what `assert_single_trace` returns.

    Attributes:
        traces: How often it has been traced.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from pytreekit.testing import assert_single_trace
        >>> counted = assert_single_trace(jnp.tanh)
        >>> counted(1.0).shape, counted.traces
        ((), 0)
        >>> jax.jit(counted)(1.0).shape, counted.traces
        ((), 1)
    """

    __wrapped__: Callable[P, R]

    def __init__(self, fun: Callable[P, R]) -> None:
        functools.update_wrapper(self, fun)
        self.traces = 0
        self._first: dict[str, Any] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, and count it if it is traced."""
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            named = by_name.named(self.__wrapped__, args, kwargs)
            self._count({name: jax.tree.map(_seen, tree) for name, tree in named.items()})
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __enter__(self) -> SingleTrace[P, R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and not self.traces:
            name = values.function(self.__wrapped__)
            raise AssertionError(assertions.text(f"{name} was not traced"))

    def _count(self, arguments: dict[str, Any]) -> None:
        __tracebackhide__ = True
        self.traces += 1
        if self.traces == 1:
            self._first = arguments
            return
        found = TreeDiff(tuple(_differences(self._first, arguments)), BOTH)
        fact = f"{values.function(self.__wrapped__)} is traced a second time"
        raise AssertionError(assertions.text(fact, str(found) if found else ALIKE))


@dataclasses.dataclass(frozen=True)
class _Told:
    """A leaf that is known by its text."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _seen(leaf: Any) -> Any:
    """What a trace depends on of a leaf, so that none of its values is kept alive."""
    if leaves.is_number(leaf):
        return _Told(repr(leaf))
    aval = values.typeof(leaf)
    if aval is None:
        return leaf
    if getattr(aval, "weak_type", False):
        return _Told(f"weakly typed {values.leaf(leaf)}")
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _differences(first: dict[str, Any], second: dict[str, Any]) -> Iterator[Difference]:
    """What differs between the arguments of two traces."""
    for name in dict.fromkeys([*first, *second]):
        if name in first and name in second:
            yield from under(name, differences(first[name], second[name]))
        else:
            its = [told(side[name]) if name in side else "" for side in (first, second)]
            yield Difference("keys", name, *its)
