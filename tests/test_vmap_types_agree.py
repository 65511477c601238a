"""ptk.vmap's verdict on types against jaxtyping's and beartype's own, on random annotations.

An oracle runs the plain function, `@jaxtyped(typechecker=beartype)`, on each example in a loop. Of
containers, beartype looks at one item; where there are more, each leaf is judged by `isinstance`.
PYTREEKIT_EXAMPLES sets how many calls are drawn (a sixteenth of it by each test).
"""

from __future__ import annotations

import collections
import os
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from beartype import beartype
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jaxtyping import (
    AnnotationError,
    Bool,
    Float,
    Inexact,
    Int,
    Num,
    PyTree,
    Shaped,
    TypeCheckError,
    jaxtyped,
)

import pytreekit as ptk

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "1200"))
BATCH = 2
SIZES = {"a": 2, "b": 3, "c": 1}
DTYPES = {Float: "float32", Int: "int32", Bool: "bool", Num: "int8", Inexact: "float16"}
TOKENS = ("a", "a", "b", "c", "2", "3", "_", "#a", "#b", "#3", "_c", "rows=2")
EXPRESSIONS = ("a+1", "a*b", "2*a-1", "(a+b)//2", "#a*b", "b-1")
MANY = ("...", "*s", "*s", "*#s", "*_s")

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Part(NamedTuple):
    """An annotation with an example of it, and the leaves that it speaks of."""

    hint: Any
    example: Any
    leaves: list[tuple[Any, Any]]


def draw_size(draw: Draw, token: str) -> int:
    """The size that a token asks for, by SIZES; sometimes the other one that it may have."""
    if token.startswith("#") and draw(st.booleans()):
        return 1
    text = token.lstrip("#").rpartition("=")[2]
    return 4 if text.startswith("_") else eval(text, dict(SIZES))


def draw_leaf(draw: Draw, kind: Any = None, damage: int = 8) -> Part:
    """An annotation for an array, with an array that fits it, unless it is damaged."""
    kind = kind or draw(st.sampled_from([*DTYPES, Shaped]))
    tokens = [
        draw(st.sampled_from(EXPRESSIONS if draw(st.integers(0, 15)) == 0 else TOKENS))
        for _ in range(draw(st.integers(0, 3)))
    ]
    shape = [draw_size(draw, token) for token in tokens]
    if draw(st.integers(0, 3)) == 0:
        token = draw(st.sampled_from(MANY))
        at = draw(st.integers(0, len(tokens)))
        sizes = draw(st.sampled_from([(), (1,), (4,)])) if token in ("...", "*_s") else (4,)
        if token == "*#s" and draw(st.booleans()):
            sizes = (1,)
        tokens.insert(at, token)
        shape[at:at] = sizes
    dtype = DTYPES.get(kind, "int32")
    what = draw(st.integers(0, damage))
    if what == 0 and shape:
        shape[draw(st.integers(0, len(shape) - 1))] = draw(st.integers(0, 4))
    elif what == 1:
        shape = shape[:-1] if shape and draw(st.booleans()) else [*shape, 2]
    elif what == 2:
        dtype = draw(st.sampled_from(["float32", "int32", "bool"]))
    hint, array = kind[np.ndarray, " ".join(tokens)], np.zeros(shape, dtype)
    return Part(hint, array, [(hint, array)])


def draw_same(draw: Draw, part: Part) -> Any:
    """Another array for an annotation: mostly one that fits as the first one does."""
    array = part.example
    if draw(st.integers(0, 9)) or not array.shape:
        return array
    return np.zeros((*array.shape[:-1], draw(st.integers(1, 4))), array.dtype)


def draw_union(draw: Draw) -> Part:
    floats, ints = draw_leaf(draw, Float, 6), draw_leaf(draw, Int, 6)
    hint = floats.hint | ints.hint
    if draw(st.booleans()):
        hint = hint | None
    example = draw(st.sampled_from([floats.example, ints.example, None]))
    return Part(hint, example, [(hint, example)])


def draw_one_item(draw: Draw) -> Part:
    part = draw_leaf(draw)
    shell, example = draw(
        st.sampled_from(
            [
                (dict[str, part.hint], {"k": part.example}),
                (list[part.hint], [part.example]),
                (tuple[part.hint, ...], (part.example,)),
                (dict[str, list[part.hint]], {"k": [part.example]}),
            ]
        )
    )
    return Part(shell, example, part.leaves)


def draw_pair(draw: Draw) -> Part:
    one, two = draw_leaf(draw), draw_leaf(draw)
    hint = tuple[one.hint, two.hint]
    return Part(hint, (one.example, two.example), [*one.leaves, *two.leaves])


def draw_tree(draw: Draw) -> Part:
    part = draw_leaf(draw)
    hint, name = part.hint, draw(st.sampled_from([None, "T", "T"]))
    if name and draw(st.booleans()) and hint.dim_str in ("a", "b", "*s"):
        mark = "?" + hint.dim_str if hint.dim_str[0] != "*" else "?*s"
        hint = hint.dtype[np.ndarray, mark]
    example = {"u": part.example, "v": [draw_same(draw, part)]}
    if draw(st.integers(0, 5)) == 0:
        example = {"u": part.example}
    leaves = [(hint, leaf) for leaf in jax.tree.leaves(example)]
    return Part(PyTree[hint] if name is None else PyTree[hint, name], example, leaves)


def draw_items(draw: Draw) -> Part:
    part = draw_leaf(draw)
    items = [part.example, *(draw_same(draw, part) for _ in range(draw(st.integers(0, 2))))]
    if draw(st.booleans()):
        hint, example = dict[str, part.hint], {f"k{9 - n}": item for n, item in enumerate(items)}
    else:
        hint, example = list[part.hint], items
    return Part(hint, example, [(part.hint, item) for item in items])


def draw_record(draw: Draw) -> Part:
    one, two = draw_leaf(draw), draw(st.sampled_from([draw_leaf, draw_items]))(draw)
    fields = {"p": one.hint, "q": two.hint}
    example: Any = {"p": one.example, "q": two.example}
    if draw(st.booleans()):
        hint: Any = typing.TypedDict("Record", fields)
    else:
        hint = typing.NamedTuple("Record", list(fields.items()))
        example = hint(**example)
    return Part(hint, example, [*one.leaves, *two.leaves])


WHOLE = [draw_leaf, draw_leaf, draw_union, draw_one_item, draw_pair, draw_tree]
IN_PART = [draw_leaf, draw_items, draw_record]


@st.composite
def calls(draw: Draw, kinds: list[Callable[[Draw], Part]]) -> tuple[list[Part], list[Any]]:
    """Arguments, and the axis that each is mapped over."""
    parts = [draw(st.sampled_from(kinds))(draw) for _ in range(draw(st.integers(2, 3)))]
    return parts, [draw(st.sampled_from([0, 0, -1, None])) for _ in parts]


def function(parts: list[Part]) -> Callable[..., Any]:
    names = [f"x{index}" for index in range(len(parts))]
    scope: dict[str, Any] = {}
    exec(f"def fun({', '.join(names)}): pass", scope)
    scope["fun"].__annotations__ = dict(zip(names, (its.hint for its in parts), strict=True))
    return scope["fun"]


def batch(part: Part, axis: Any) -> Any:
    def more(array: Any) -> Any:
        return np.stack([array] * BATCH, axis % (array.ndim + 1) if axis >= 0 else -1)

    return part.example if axis is None else jax.tree.map(more, part.example)


def example(batch: Any, axis: Any, index: int) -> Any:
    if axis is None:
        return batch
    return jax.tree.map(lambda array: np.asarray(array.take(index, axis)), batch)


def ours(fun: Callable[..., Any], batches: list[Any], axes: list[Any]) -> bool:
    mapped = ptk.vmap(fun, tuple(axes), axis_size=BATCH)
    faults = mapped.check(*batches)
    assert all(fault.code in ("PTK601", "PTK602", "PTK603", "PTK604") for fault in faults)
    if faults:
        text = str(ptk.SpecError(faults, doing="vmap(fun)"))
        assert text.isascii()
    return not faults


def theirs(fun: Callable[..., Any], batches: list[Any], axes: list[Any]) -> bool:
    checked = jaxtyped(typechecker=beartype)(fun)
    for index in range(BATCH):
        try:
            checked(*(example(its, axis, index) for its, axis in zip(batches, axes, strict=True)))
        except TypeCheckError:
            return False
    return True


def search(kinds: list[Any], verdict: Callable[..., bool]) -> dict[Any, float]:
    tally: collections.Counter[Any] = collections.Counter()

    @settings(max_examples=max(20, EXAMPLES // 16), suppress_health_check=list(HealthCheck))
    @given(calls(kinds))
    def run(call: Any) -> None:
        parts, axes = call
        fun = function(parts)
        batches = [batch(part, axis) for part, axis in zip(parts, axes, strict=True)]
        mine = ours(fun, batches, axes)
        try:
            wanted = verdict(fun, batches, axes) if verdict is theirs else verdict(parts)
        except AnnotationError:  # an expression of names that have no size yet
            tally[None] += 1
            return
        assert mine == wanted
        tally[wanted] += 1

    run()
    return {answer: count / tally.total() for answer, count in tally.items()}


def test_agrees_with_the_decorated_function():
    tally = search(WHOLE, theirs)
    assert tally[True] > 0.05
    assert tally[False] > 0.05


def leaf_by_leaf(parts: list[Part]) -> bool:
    fits = True
    with jaxtyped("context"):
        for part in parts:
            for hint, array in part.leaves:
                try:
                    fits &= isinstance(array, hint)
                except AnnotationError:
                    continue
    return fits


def test_agrees_leaf_by_leaf_where_a_type_checker_looks_at_one_item():
    tally = search(IN_PART, leaf_by_leaf)
    assert tally[True] > 0.05
    assert tally[False] > 0.05
