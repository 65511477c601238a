"""What `jax.jit` returned, out of a method or a `functools.partial` that is all that is around it.

Only so is it known what it donates: JAX forgets that of a jitted function within another one.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax


class Call(NamedTuple):
    """A function, and what it is called with."""

    step: Any
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]

    @property
    def every(self) -> tuple[Any, ...]:
        """All arguments, the last by keyword."""
        return *self.args, *self.keywords.values()

    @property
    def is_jitted(self) -> bool:
        """Whether the function is what `jax.jit` returned."""
        return is_jitted(self.step)

    def with_every(self, values: Sequence[Any]) -> Call:
        """The same with other arguments."""
        first = len(self.args)
        keywords = dict(zip(self.keywords, values[first:], strict=True))
        return Call(self.step, tuple(values[:first]), keywords)

    def handed(self, take: Callable[..., Any]) -> Any:
        """What something makes of the arguments."""
        return take(*self.args, **self.keywords)


def is_jitted(step: Any) -> bool:
    """Whether something is what `jax.jit` returned; a bound method of it only hands on to it."""
    return isinstance(step, jax.stages.Wrapped) and not isinstance(step, types.MethodType)


def unwrapped(step: Any, args: Sequence[Any]) -> Call:
    """A call of what is jitted within a step; of the step itself, where that is none.

    Args:
        step: The step.
        args: Its arguments.
    """
    if isinstance(step, types.MethodType) and is_jitted(step.__func__):
        return Call(step.__func__, (step.__self__, *args), {})
    if isinstance(step, functools.partial):
        inner = unwrapped(step.func, (*step.args, *args))
        if inner.is_jitted:
            return inner._replace(keywords=step.keywords)
    return Call(step, tuple(args), {})


def jitted(step: Any) -> Any:
    """What `jax.jit` makes of a step, and of this call alone.

    JAX keeps traces by function and forgets for which devices they were: none is kept for the step
    itself, which may have no hash either, as a module of arrays.
    """
    return jax.jit(functools.partial(step))


def held(step: Any) -> list[Any]:
    """The shapes that a step holds itself: as a tree, as a method of one, or as a partial."""
    its: Any = step
    if isinstance(step, functools.partial):
        its = [step.args, step.keywords]
    elif isinstance(step, types.MethodType):
        its = step.__self__
    return [leaf for leaf in jax.tree.leaves(its) if isinstance(leaf, jax.ShapeDtypeStruct)]
