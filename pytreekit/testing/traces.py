"""`assert_single_trace`: a function that is to be traced once."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import jax
from jax.core import Tracer

from ..show import assertions, values
from ..trees.diff import diff

P = ParamSpec("P")
R = TypeVar("R")


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
        >>> jitted = jax.jit(assert_single_trace(jnp.sum))
        >>> total = jitted(jnp.ones(3))
        >>> try:
        ...     jitted(jnp.ones(4))
        ... except AssertionError as error:
        ...     print(error)
        sum is traced a second time
        <BLANKLINE>
        1 difference between the first trace and the second
        <BLANKLINE>
          shape   [0][0]   the first trace has f32[3]; the second has f32[4]
    """
    return SingleTrace(fun)


class SingleTrace(Generic[P, R]):
    """A function that is to be traced once: what `assert_single_trace` returns.

    Attributes:
        traces: How often it has been traced.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from pytreekit.testing import assert_single_trace
        >>> total = assert_single_trace(jnp.sum)
        >>> jax.jit(total)(jnp.ones(3)).item(), total.traces
        (3.0, 1)
    """

    __wrapped__: Callable[P, R]

    def __init__(self, fun: Callable[P, R]) -> None:
        functools.update_wrapper(self, fun)
        self.traces = 0
        self._first: Any = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, and count it if it is traced."""
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs))):
            self._count(jax.tree.map(_abstract, (args, kwargs)))
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __enter__(self) -> SingleTrace[P, R]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and not self.traces:
            name = values.function(self.__wrapped__)
            raise AssertionError(assertions.head(f"{name} was not traced"))

    def _count(self, arguments: Any) -> None:
        self.traces += 1
        if self.traces == 1:
            self._first = arguments
            return
        found = diff(self._first, arguments, names=("the first trace", "the second"))
        alike = (
            "Its arguments have the same structure, shapes and dtypes as before: it was\n"
            "transformed anew, mapped over another batch size, or has other static values."
        )
        fact = f"{values.function(self.__wrapped__)} is traced a second time"
        raise AssertionError(assertions.head(fact, str(found) if found else alike))


def _abstract(leaf: Any) -> Any:
    """A leaf without its values, so that a trace keeps none of them alive."""
    aval = values.typeof(leaf)
    return leaf if aval is None else jax.ShapeDtypeStruct(aval.shape, aval.dtype)
