"""Hypothesis strategies for signatures, calls that fit them, and the axis of every argument."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

KINDS = inspect.Parameter
MATRIX = jnp.arange(9.0).reshape(3, 3)  # square, so that JAX takes the wrong axis as well
SHARED = (MATRIX, "relu", 7, True, {"a": "tanh"}, jnp.float32(2))
STATIC = {"relu": 1, "tanh": 2, "gelu": 3, "default": 4}


@dataclasses.dataclass
class NamedCall:
    """A call: its arguments by position and by keyword, and the axis of each.

    `in_axes` is by name, and may name defaults that the call does not pass.
    """

    parameters: list[inspect.Parameter] = dataclasses.field(default_factory=list)
    args: list[Any] = dataclasses.field(default_factory=list)
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    axes: list[Any] = dataclasses.field(default_factory=list)
    keyword_axes: dict[str, Any] = dataclasses.field(default_factory=dict)
    in_axes: dict[Any, Any] = dataclasses.field(default_factory=dict)

    @property
    def fun(self) -> Callable[..., Any]:
        """A function that returns its arguments by the names of its parameters."""
        signature = inspect.Signature(self.parameters)

        def fun(*args: Any, **kwargs: Any) -> Any:
            return jax.tree.map(as_number, dict(signature.bind(*args, **kwargs).arguments))

        fun.__signature__ = signature
        return fun

    def pass_keyword(self, name: str, value: Any, axis: Any) -> None:
        """Pass an argument by keyword."""
        self.kwargs[name], self.keyword_axes[name], self.in_axes[name] = value, axis, axis


def as_number(leaf: Any) -> Any:
    """A static value must come as it was: a tracer is no key of STATIC."""
    return STATIC[leaf] if isinstance(leaf, str) else leaf


@st.composite
def arguments(draw: Any) -> tuple[Any, Any]:
    """An argument and its axis."""
    axis = draw(st.sampled_from((0, 1, -1, -2, None, "prefix", "tree")))
    if axis is None:
        return draw(st.sampled_from(SHARED)), None
    if axis == "prefix":
        return {"a": MATRIX, "b": draw(st.sampled_from((MATRIX, "gelu")))}, {"a": 0, "b": None}
    if axis == "tree":
        return {"a": MATRIX, "b": [MATRIX, MATRIX + 1]}, draw(st.sampled_from((0, 1)))
    return MATRIX + draw(st.integers(0, 3)), axis


def draw_plain(draw: Any, call: NamedCall) -> bool:
    """The parameters before `*args`; returns whether `*args` can be passed after them."""
    by_keyword = has_default = False  # once one is, those after it are
    only = draw(st.integers(0, 2))
    for index, name in enumerate("abcd"[: draw(st.integers(0, 4))]):
        kind = KINDS.POSITIONAL_ONLY if index < only else KINDS.POSITIONAL_OR_KEYWORD
        has_default = has_default or draw(st.integers(0, 4)) == 4
        default = "default" if has_default else KINDS.empty
        call.parameters.append(KINDS(name, kind, default=default))
        if has_default and draw(st.booleans()):
            by_keyword = True  # what follows is passed by keyword, or not at all
            if draw(st.booleans()):
                call.in_axes[name] = draw(st.sampled_from((0, 5, None)))
            continue
        value, axis = draw(arguments())
        if kind is KINDS.POSITIONAL_ONLY and by_keyword:
            continue
        by_keyword = by_keyword or (kind is not KINDS.POSITIONAL_ONLY and draw(st.booleans()))
        if by_keyword:
            call.pass_keyword(name, value, axis)
        else:
            call.args.append(value)
            call.axes.append(axis)
            call.in_axes[name] = axis
    return not by_keyword


def draw_extra(draw: Any, call: NamedCall, *, passed: bool) -> None:
    """`*xs`, and what is passed for it: one entry for all where that will do, or a tuple."""
    call.parameters.append(KINDS("xs", KINDS.VAR_POSITIONAL))
    extras = draw(st.lists(arguments(), max_size=3)) if passed else []
    axes = [axis for _, axis in extras]
    call.args += [value for value, _ in extras]
    call.axes += axes
    alike = axes and all(axis == axes[0] for axis in axes)
    call.in_axes["xs"] = axes[0] if alike and draw(st.booleans()) else tuple(axes)


@st.composite
def named_calls(draw: Any) -> tuple[NamedCall, Any, list[Any]]:
    """A call, an axis that `...` is to stand for, and an order to write the entries in."""
    call = NamedCall()
    passed = draw_plain(draw, call)
    if draw(st.booleans()):
        draw_extra(draw, call, passed=passed)
    for name in "ef"[: draw(st.integers(0, 2))]:
        call.parameters.append(KINDS(name, KINDS.KEYWORD_ONLY))
        call.pass_keyword(name, *draw(arguments()))
    if draw(st.booleans()):
        call.parameters.append(KINDS("options", KINDS.VAR_KEYWORD))
        for name in draw(st.sampled_from(((), ("zeta",), ("zeta", "alpha")))):
            call.pass_keyword(name, *draw(arguments()))
    return call, draw(st.sampled_from((None, 0, 1))), draw(st.permutations(list(call.in_axes)))
