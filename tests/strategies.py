"""Hypothesis strategies for calls of a vmapped function, sound ones and damaged ones.

A call is drawn sound: argument trees and in_axes side by side, then an output tree with its
out_axes. After that zero to two faults are put in, each at a random place. What JAX says of the
result is not known here, and need not be: the tests ask jax.vmap itself.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from .vmap_nodes import (
    ANY_WIDTH,
    DICTS,
    FIELDS,
    FIELDS_AND_STATIC,
    TWO_WIDE,
    WITH_STATIC,
    Blueprint,
    Leaf,
    Node,
    Path,
    build,
    is_array,
    leaves,
    paths,
    put,
    spread,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]

DTYPES = ("float32", "int32", "bool", "float16")
NAMES = ("a", "b", "w", "bias", "kernel")
PARAMETERS = ("params", "xs", "state")
KEYWORDS = ("key", "mask")
STATICS = (3, 4, "relu", None, (1, 2))
NO_AXES = (True, False, np.int64(0), 0.0, "batch", ..., np.zeros((), int), object)
ODD_SIZES = (-1, True, 3.0, np.int64(3), np.int64(2), "3")


class Opaque:
    """An object that JAX knows nothing of."""


OPAQUE = Opaque()
WEIRD = (1.5, True, 7, "relu", b"raw", OPAQUE, math.tanh, {1, 2}, range(3), np.float32(2.0))
WEIRD_ARRAYS = (
    np.array(["a", "b"]),
    np.array([None, 1], dtype=object),
    np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"),
    np.zeros(2, dtype=[("u", "i4"), ("v", "f4")]),
    np.ma.masked_array(np.ones((2, 2)), mask=np.zeros((2, 2))),
)


@functools.cache
def array(kind: str, shape: tuple[int, ...], salt: int) -> Any:
    """An array leaf; the salt tells leaves of one shape apart."""
    if kind == "key":
        return jax.random.split(jax.random.key(salt), shape) if shape else jax.random.key(salt)
    if kind == "abstract":
        return jax.ShapeDtypeStruct(shape, jnp.float32)
    library, dtype = kind.split()
    values = (np.arange(math.prod(shape)).reshape(shape) + salt) % 5 - 1
    return (jnp.asarray if library == "jnp" else np.asarray)(values.astype(dtype))


KINDS = (*(f"{lib} {dtype}" for dtype in DTYPES for lib in ("jnp", "np")), "key", "abstract")
NUMERIC = KINDS[:8]  # without keys and abstract values, for calls that compute


@dataclasses.dataclass(frozen=True)
class Style:
    """What the drawn trees may hold, and how often a fault of each family is put in."""

    kinds: tuple[str, ...] = KINDS
    weird: bool = True
    damage: tuple[str, ...] = ("in_axes", "argument", "axis_size", "out_axes")
    faults: tuple[int, ...] = (0, 0, 1, 1, 2)


@dataclasses.dataclass
class Call:
    """One call of a vmapped function: the options, the arguments and what the function returns.

    `sound_args` are the positional arguments before any damage.
    """

    args: tuple[Any, ...]
    sound_args: tuple[Any, ...]
    kwargs: dict[str, Any]
    in_axes: Any
    out_axes: Any
    axis_size: Any
    axis_name: str | None
    output: Blueprint
    names: tuple[str, ...]

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of vmap."""
        return {
            "in_axes": self.in_axes,
            "out_axes": self.out_axes,
            "axis_size": self.axis_size,
            "axis_name": self.axis_name,
        }


def chance(draw: Draw, one_in: int) -> bool:
    """True once in so many draws; shrinks to False."""
    return draw(st.integers(1, one_in)) == one_in


# ---- sound trees --------------------------------------------------------------------------------


def draw_leaf(draw: Draw, style: Style, size: int, axis: int | None) -> Leaf:
    """A leaf that can be mapped over `axis`, or anything at all where the axis is None."""
    if axis is None and style.weird and chance(draw, 5):
        return Leaf(draw(st.sampled_from(WEIRD + WEIRD_ARRAYS)))
    least = 0 if axis is None else axis + 1 if axis >= 0 else -axis
    rank = draw(st.integers(least, max(least, 2)))
    shape = [draw(st.sampled_from((2, 3, 1, 4, 0))) for _ in range(rank)]
    if axis is not None:
        shape[axis] = size
    return Leaf(array(draw(st.sampled_from(style.kinds)), tuple(shape), draw(st.integers(0, 3))))


def draw_shell(draw: Draw) -> tuple[str, int, tuple[Any, ...], Any]:
    """A container without its children: kind, width, keys and static data."""
    kind = draw(st.sampled_from((*ANY_WIDTH, *TWO_WIDE)))
    width = 2 if kind in TWO_WIDE else draw(st.sampled_from((1, 2, 3, 2, 0)))
    keys: tuple[Any, ...] = ()
    if kind in DICTS:
        alphabet = (0, 1, 2, 10) if chance(draw, 6) else NAMES
        keys = tuple(draw(st.permutations(alphabet))[:width])
        keys = keys if kind == "ordered" else tuple(sorted(keys))
    aux = None
    if kind in WITH_STATIC:
        aux = draw(st.sampled_from((list, None, int) if kind == "default" else STATICS))
    return kind, width, keys, aux


def draw_tree(draw: Draw, depth: int, leaf: Callable[[], Leaf]) -> Blueprint:
    """A tree of any containers, whose leaves `leaf` draws."""
    if depth == 0 or draw(st.booleans()):
        return Node("none") if chance(draw, 10) else leaf()
    kind, width, keys, aux = draw_shell(draw)
    return Node(kind, tuple(draw_tree(draw, depth - 1, leaf) for _ in range(width)), keys, aux)


def draw_bound(draw: Draw, style: Style, size: int, depth: int) -> tuple[Blueprint, Blueprint]:
    """A tree, and a prefix of it with an axis at each end."""
    if depth == 0 or chance(draw, 4):
        axis = draw(st.sampled_from((0, None, 1, -1, -2, 0)))
        tree = draw_tree(draw, depth, lambda: draw_leaf(draw, style, size, axis))
        if not list(leaves(tree)) and chance(draw, 2):
            axis = draw(st.sampled_from((7, -9)))  # over no leaves any axis will do
        return tree, Leaf(axis)
    kind, width, keys, aux = draw_shell(draw)
    pairs = [draw_bound(draw, style, size, depth - 1) for _ in range(width)]
    trees, axes = tuple(tree for tree, _ in pairs), tuple(axis for _, axis in pairs)
    return Node(kind, trees, keys, aux), Node(kind, axes, keys, aux)


def draw_arguments(draw: Draw, style: Style, size: int) -> tuple[Node, Blueprint]:
    """The tuple of positional arguments and its in_axes."""
    count = draw(st.sampled_from((1, 2, 3, 2, 1, 0)))
    if chance(draw, 4):  # one int, or None, for all of them
        axis = draw(st.sampled_from((0, None, 1, -1)))
        trees = [
            draw_tree(draw, 2, lambda: draw_leaf(draw, style, size, axis)) for _ in range(count)
        ]
        return Node("tuple", tuple(trees)), Leaf(axis)
    pairs = [
        draw_bound(draw, style, size, draw(st.sampled_from((2, 1, 3, 0)))) for _ in range(count)
    ]
    kind = draw(st.sampled_from(("tuple", "tuple", "tuple", "list")))
    return Node("tuple", tuple(t for t, _ in pairs)), Node(kind, tuple(a for _, a in pairs))


# ---- outputs ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to make one output from the leaves of the arguments."""

    what: str
    source: int = 0
    rank: int = 0
    batched: bool = False


def draw_recipe(draw: Draw, usable: list[Recipe], named: bool) -> Leaf:
    """One output leaf; `usable` holds the plain recipe of each argument leaf that is an array."""
    if named and chance(draw, 6):
        return Leaf(draw(st.sampled_from((Recipe("index", batched=True), Recipe("size")))))
    if not usable or chance(draw, 4):
        what, rank = draw(
            st.sampled_from((("arange", 1), ("numpy", 1), ("scalar", 0), ("text", 0)))
        )
        return Leaf(Recipe(what if what != "text" or chance(draw, 3) else "arange", rank=rank))
    source = draw(st.sampled_from(usable))
    if draw(st.booleans()):
        return Leaf(dataclasses.replace(source, what=draw(st.sampled_from(("same", "twice")))))
    return Leaf(dataclasses.replace(source, what="total", rank=0))


def draw_out_axes(draw: Draw, tree: Blueprint) -> Blueprint:
    """A prefix of the output tree with an axis at each end."""
    if isinstance(tree, Node) and tree.children and not chance(draw, 3):
        return dataclasses.replace(
            tree, children=tuple(draw_out_axes(draw, child) for child in tree.children)
        )
    below = list(leaves(tree))
    if not any(recipe.batched for recipe in below) and chance(draw, 2):
        return Leaf(None)
    room = min((recipe.rank for recipe in below), default=0) + 1
    return Leaf(draw(st.sampled_from((0, *range(-room, room)))))


# ---- damage -------------------------------------------------------------------------------------


def renamed(draw: Draw, node: Node) -> Node:
    """The node with another set of keys, and children to match."""
    way = draw(st.sampled_from(("rename", "drop", "add", "reorder")))
    keys, children = list(node.keys), list(node.children)
    if way == "add" or not children:
        return dataclasses.replace(
            node,
            keys=(*keys, "zz")
            if node.kind in DICTS and not any(type(k) is int for k in keys)
            else (*keys, 99),
            children=(*children, Leaf(draw(st.sampled_from((0, None))))),
        )
    index = draw(st.integers(0, len(children) - 1))
    if way == "drop" or not keys:
        del children[index]
        del keys[index : index + 1]
    elif way == "rename":
        keys[index] = 77 if isinstance(keys[index], int) else keys[index] + "s"
    elif way == "reorder":
        keys.reverse()
        children.reverse()
    return dataclasses.replace(node, keys=tuple(keys), children=tuple(children))


def retyped(draw: Draw, node: Node) -> Node:
    """The node as a container of another type, as like as can be."""
    if node.kind in DICTS:
        others = DICTS
    elif node.kind in FIELDS or node.kind in FIELDS_AND_STATIC:
        others = TWO_WIDE
    else:
        others = ("list", "tuple", "keyed", "plain")
    kind = draw(st.sampled_from([other for other in others if other != node.kind]))
    return dataclasses.replace(node, kind=kind)


def damaged_node(draw: Draw, node: Node) -> Blueprint:
    """A spec's container, damaged; now and then the damage is none."""
    way = draw(st.sampled_from(("retype", "children", "static", "collapse", "wrap")))
    if way == "static" and node.kind in WITH_STATIC and node.kind != "default":
        return dataclasses.replace(node, aux=draw(st.sampled_from(STATICS)))
    if way == "children" and node.kind not in TWO_WIDE:
        return renamed(draw, node)
    if way == "collapse":
        return Leaf(draw(st.sampled_from((0, None))))
    if way == "wrap":
        return Node(draw(st.sampled_from(("tuple", "list"))), (node,))
    return retyped(draw, node)


def damaged_leaf(draw: Draw, leaf: Leaf) -> Blueprint:
    """One axis of a spec, damaged; now and then the damage is none."""
    way = draw(st.sampled_from(("range", "value", "deeper", "flip", "range", "deeper")))
    if way == "range":
        return Leaf(draw(st.sampled_from((2, 3, -3, 1, -1, 99, -(10**6)))))
    if way == "value":
        return Leaf(draw(st.sampled_from(NO_AXES)))
    if way == "flip":
        return Leaf(0 if leaf.value is None else None)
    kind = draw(st.sampled_from(("tuple", "list", "dict", "keyed")))
    width = draw(st.integers(0, 2))
    return Node(kind, (leaf,) * width, tuple(NAMES[:width]) if kind == "dict" else ())


def damaged_spec(draw: Draw, spec: Blueprint) -> Blueprint:
    """A spec with one fault at a random place, most often below the root."""
    places = list(paths(spec))
    inner = places[1:] if places[1:] and not chance(draw, 6) else places
    path, place = draw(st.sampled_from(inner))
    if isinstance(place, Leaf):
        return put(spec, path, damaged_leaf(draw, place))
    return put(spec, path, damaged_node(draw, place))


def damaged_argument(draw: Draw, args: Node) -> Blueprint:
    """The arguments with one leaf of another size, or of a kind that cannot be mapped."""
    places: list[tuple[Path, Leaf]] = [(p, at) for p, at in paths(args) if isinstance(at, Leaf)]
    if not places:
        return args
    path, place = draw(st.sampled_from(places))
    if is_array(place.value) and np.shape(place.value) and not chance(draw, 3):
        shape = list(place.value.shape)
        index = draw(st.integers(0, len(shape) - 1))
        shape[index] += draw(st.sampled_from((1, 2)))
        return put(args, path, Leaf(array("jnp float32", tuple(shape), 0)))
    if chance(draw, 6):
        return put(args, path[:1], Leaf({1: place.value, "a": 2}))  # keys that cannot be sorted
    return put(args, path, Leaf(draw(st.sampled_from(WEIRD + WEIRD_ARRAYS))))


# ---- calls --------------------------------------------------------------------------------------


@st.composite
def calls(draw: Draw, style: Style) -> Call:
    """A call of a vmapped function."""
    size = draw(st.sampled_from((3, 2, 1, 0, 4)))
    args, in_axes = draw_arguments(draw, style, size)
    keywords = KEYWORDS[: draw(st.sampled_from((0, 0, 0, 1, 2)))]
    kwargs = Node(
        "dict",
        tuple(draw_tree(draw, 1, lambda: draw_leaf(draw, style, size, 0)) for _ in keywords),
        keywords,
    )
    governed = [*spread(args, in_axes), *((value, 0) for value in leaves(kwargs))]
    axis_name = "i" if chance(draw, 4) else None
    usable = [
        Recipe("same", index, np.ndim(value) - (axis is not None), axis is not None)
        for index, (value, axis) in enumerate(governed)
        if is_array(value)
    ]
    output = draw_tree(
        draw, draw(st.integers(0, 2)), lambda: draw_recipe(draw, usable, axis_name is not None)
    )
    out_axes = draw_out_axes(draw, output)
    mapped = any(axis is not None for _, axis in governed)
    axis_size = None if mapped and not chance(draw, 4) else size

    sound_args = build(args)
    for _ in range(draw(st.sampled_from(style.faults))):
        family = draw(st.sampled_from(style.damage))
        if family == "in_axes":
            in_axes = damaged_spec(draw, in_axes)
        elif family == "out_axes":
            out_axes = damaged_spec(draw, out_axes)
        elif family == "argument":
            args = damaged_argument(draw, args)
        else:
            axis_size = draw(st.sampled_from((None, size + 1, size + 2, *ODD_SIZES)))
    return Call(
        args=build(args),
        sound_args=sound_args,
        kwargs=build(kwargs),
        in_axes=build(in_axes),
        out_axes=build(out_axes),
        axis_size=axis_size,
        axis_name=axis_name,
        output=output,
        names=PARAMETERS[: len(args.children)] if draw(st.booleans()) else (),
    )
