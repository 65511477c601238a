"""A corpus of vmap calls that people write, right and wrong, each with what JAX makes of it.

An accepted case is either a control, correct code, or a silent fault: JAX computes, but not what
was meant. `verify` proves it of the result. A rejected case names what a message must say of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


@dataclasses.dataclass
class Setup:
    """What to wrap and what to call it with; the options are those of jax.vmap."""

    f: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    in_axes: Any = 0
    out_axes: Any = 0
    axis_name: Any = None
    axis_size: Any = None
    spmd_axis_name: Any = None
    options: dict[str, Any] = dataclasses.field(
        default_factory=dict
    )  # further ones, of jax.vmap alone
    nest: Sequence[dict[str, Any]] = ()  # the options of vmaps inside this one, the innermost first
    after_wrap: Callable[[], Any] = lambda: None  # run between wrapping and calling
    set_mesh: Any = None
    verify: Callable[[Any], bool] = lambda _: True


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a message about the case must name."""

    param: str | None = None
    path: str | None = None
    shape: str | None = None
    axis: int | None = None
    sizes: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """One call. `issue` is the public report that it was modelled on."""

    name: str
    title: str
    build: Callable[[], Setup]
    accepts: bool
    silent: bool
    issue: str
    facts: Facts


CASES: dict[str, Case] = {}


def case(
    name: str, title: str, *, accepts: bool, silent: bool = False, issue: str = "", **facts: Any
) -> Callable[[Callable[[], Setup]], Callable[[], Setup]]:
    """Enters the decorated function into the corpus."""

    def enter(build: Callable[[], Setup]) -> Callable[[], Setup]:
        assert name not in CASES
        CASES[name] = Case(name, title, build, accepts, silent, issue, Facts(**facts))
        return build

    return enter


class Point(NamedTuple):
    """Two fields."""

    p: Any
    q: Any


class Pair(NamedTuple):
    """The same two fields in another class."""

    p: Any
    q: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A weight and a static number."""

    w: Any
    n: Any = dataclasses.field(default=3, metadata={"static": True})


def X(n: int = 3, d: int = 2) -> jax.Array:  # noqa: N802
    """An array of n examples of d features each."""
    return jnp.arange(float(n * d)).reshape(n, d)


def add(x: Any, y: Any) -> Any:
    """The function that most cases map."""
    return x + y
