"""Every kind of pytree node that the differential tests build trees and specs from.

A tree is drawn as a blueprint first, so that a spec of the same structure can be built beside it
and then be damaged in a chosen place. Children stand in the order in which JAX flattens them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import chex
import equinox as eqx
import flax.struct
import jax
import numpy as np


class Point(NamedTuple):
    """A NamedTuple."""

    p: Any
    q: Any


class Pair(NamedTuple):
    """The same fields as Point, another class."""

    p: Any
    q: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A registered dataclass with a static field."""

    p: Any
    q: Any
    n: Any = dataclasses.field(default=3, metadata={"static": True})


@chex.dataclass
class Chexed:
    """A chex dataclass."""

    p: Any
    q: Any


@flax.struct.dataclass
class Struct:
    """A flax struct with a static field."""

    p: Any
    q: Any
    n: Any = flax.struct.field(pytree_node=False, default=3)


class Module(eqx.Module):
    """An equinox module with a static field."""

    p: Any
    q: Any
    n: Any = eqx.field(static=True, default=3)


class Keyed:
    """A custom node that names its children."""

    def __init__(self, children: tuple[Any, ...], label: Any) -> None:
        self.children, self.label = children, label


class Plain:
    """A custom node that does not name its children."""

    def __init__(self, children: tuple[Any, ...], label: Any) -> None:
        self.children, self.label = children, label


jax.tree_util.register_pytree_with_keys(
    Keyed,
    lambda node: (
        [(jax.tree_util.GetAttrKey(f"c{i}"), child) for i, child in enumerate(node.children)],
        node.label,
    ),
    lambda label, children: Keyed(tuple(children), label),
)
jax.tree_util.register_pytree_node(
    Plain,
    lambda node: (node.children, node.label),
    lambda label, children: Plain(tuple(children), label),
)


@jax.tree_util.register_pytree_node_class
class NeedsArray:
    """A node that can be built from an array alone."""

    def __init__(self, value: Any) -> None:
        assert hasattr(value, "shape"), f"NeedsArray wants an array, got {type(value).__name__}"
        self.value = value

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        """One child, and nothing static."""
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any]) -> NeedsArray:
        """Builds the node as anyone would."""
        return cls(*children)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One value: an argument's leaf, an axis, or the recipe of an output."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Node:
    """One container: its kind, its keys (dicts alone), its children and its static data."""

    kind: str
    children: tuple[Blueprint, ...] = ()
    keys: tuple[Any, ...] = ()
    aux: Any = None


Blueprint = Node | Leaf
Path = tuple[int, ...]

FIELDS = {"point": Point, "pair": Pair, "chex": Chexed}
FIELDS_AND_STATIC = {"layer": Layer, "flax": Struct, "equinox": Module}
DICTS = ("dict", "ordered", "default")
ANY_WIDTH = ("list", "tuple", "dict", "ordered", "default", "keyed", "plain")
TWO_WIDE = (*FIELDS, *FIELDS_AND_STATIC)
WITH_STATIC = (*FIELDS_AND_STATIC, "keyed", "plain", "default")


def _items(node: Node, children: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(node.keys, children, strict=True))


def _two(node: Node, children: list[Any]) -> Any:
    if len(children) != 2:  # a damaged spec of another width: any container of another type will do
        return children
    if node.kind in FIELDS:
        return FIELDS[node.kind](p=children[0], q=children[1])
    return FIELDS_AND_STATIC[node.kind](p=children[0], q=children[1], n=node.aux)


MAKERS: dict[str, Callable[[Node, list[Any]], Any]] = {
    "list": lambda _, children: children,
    "tuple": lambda _, children: tuple(children),
    # plain dicts are matched by key, so they are filled in the other order
    "dict": lambda node, children: dict(reversed(_items(node, children))),
    "ordered": lambda node, children: collections.OrderedDict(_items(node, children)),
    "default": lambda node, children: collections.defaultdict(node.aux, _items(node, children)),
    "keyed": lambda node, children: Keyed(tuple(children), node.aux),
    "plain": lambda node, children: Plain(tuple(children), node.aux),
    "none": lambda *_: None,
    **dict.fromkeys(TWO_WIDE, _two),
}


def build(blueprint: Blueprint, leaf: Callable[[Any], Any] = lambda value: value) -> Any:
    """The tree that a blueprint describes, with `leaf` applied to each leaf."""
    if isinstance(blueprint, Leaf):
        return leaf(blueprint.value)
    return MAKERS[blueprint.kind](blueprint, [build(child, leaf) for child in blueprint.children])


def leaves(blueprint: Blueprint) -> Iterator[Any]:
    """The values of the leaves, in the order in which JAX flattens the tree."""
    if isinstance(blueprint, Leaf):
        yield blueprint.value
    else:
        for child in blueprint.children:
            yield from leaves(child)


def paths(blueprint: Blueprint, path: Path = ()) -> Iterator[tuple[Path, Blueprint]]:
    """Every place in the blueprint, the root first."""
    yield path, blueprint
    if isinstance(blueprint, Node):
        for index, child in enumerate(blueprint.children):
            yield from paths(child, (*path, index))


def put(blueprint: Blueprint, path: Path, new: Blueprint) -> Blueprint:
    """The blueprint with `new` at `path`."""
    if not path:
        return new
    assert isinstance(blueprint, Node)
    children = list(blueprint.children)
    children[path[0]] = put(children[path[0]], path[1:], new)
    return dataclasses.replace(blueprint, children=tuple(children))


def spread(tree: Blueprint, axes: Blueprint) -> Iterator[tuple[Any, Any]]:
    """Each leaf of `tree` with the value of `axes` that governs it; `axes` must be a prefix."""
    if isinstance(axes, Leaf):
        for value in leaves(tree):
            yield value, axes.value
    else:
        assert isinstance(tree, Node)
        for child, child_axes in zip(tree.children, axes.children, strict=True):
            yield from spread(child, child_axes)


def is_array(value: Any) -> bool:
    """Whether a leaf is an array that a function can compute on."""
    if type(value) is np.ndarray:
        return value.dtype.kind in "biuf"
    return isinstance(value, jax.Array)
