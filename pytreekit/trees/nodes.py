"""How two nodes differ at their own level: type, keys, number of children, static data."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from jax.tree_util import FlattenedIndexKey, SequenceKey

from ..show import values
from . import leaves, paths
from .difference import Difference
from .paths import KeyPath

MOST_FIELDS = 3
"""Static fields that are told of one node."""


def node_differences(path: KeyPath, one: Any, other: Any) -> list[Difference]:
    """What differs between two nodes that do not match, or between a node and a leaf.

    Children that both have are left to be compared.
    """
    if _is_leaf(one) or _is_leaf(other) or type(one) is not type(other):
        return [_types(path, one, other), *_keys(path, one, other, of_other_type=True)]
    found = _keys(path, one, other)
    if isinstance(one, collections.defaultdict):
        found = [*_factories(path, one, other), *found]
    return found or [_static(path, one, other)]


def matched_children(one: Any, other: Any) -> list[tuple[Any, Any, Any]] | None:
    """The children of two nodes that match, each with its key; None where the nodes do not."""
    below, structure = paths.children(one)
    other_below, other_structure = paths.children(other)
    if not paths.same_level(one, structure, other, other_structure):
        return None
    return [(k, child, its) for (k, child), (_, its) in zip(below, other_below, strict=True)]


def shared_children(one: Any, other: Any) -> list[tuple[Any, Any, Any]]:
    """The children that two unlike nodes have in common: the key of one, and both children."""
    there = _keyed(other)
    keyed = [(key, paths.text((key,)), child) for key, child in paths.children(one)[0]]
    return [(key, child, there[name]) for key, name, child in keyed if name in there]


def told(node: Any) -> str:
    """A node or leaf in short: `dict of 3`, `f32[3]`."""
    if _is_leaf(node):
        return leaves.told(node)
    return values.tree(node, len(paths.children(node)[0]))


def _types(path: KeyPath, one: Any, other: Any) -> Difference:
    here, there = told(one), told(other)
    if here == there:
        here, there = leaves.full_name(type(one)), leaves.full_name(type(other))
    return Difference("type", paths.text(path), here, there)


def _keys(path: KeyPath, one: Any, other: Any, *, of_other_type: bool = False) -> list[Difference]:
    """The children that one of the nodes lacks; in a sequence, that there are more of them."""
    if _is_leaf(one) or _is_leaf(other):
        return []
    here, there = _keyed(one), _keyed(other)
    if here.keys() == there.keys() or (of_other_type and not here.keys() & there.keys()):
        return []
    if _is_sequence(one) and _is_sequence(other):
        counts = (values.count(len(keys), "entry", "entries") for keys in (here, there))
        return [] if of_other_type else [Difference("length", paths.text(path), *counts)]
    place = paths.text(path)
    return [
        *(Difference("keys", place + k, told(here[k]), "") for k in here if k not in there),
        *(Difference("keys", place + k, "", told(there[k])) for k in there if k not in here),
    ]


def _factories(path: KeyPath, one: Any, other: Any) -> list[Difference]:
    """The static data of a defaultdict, which may differ beside its keys."""
    if paths.same(one.default_factory, other.default_factory):
        return []
    sides = (f"default_factory={_data(node.default_factory)}" for node in (one, other))
    return [Difference("static", paths.text(path), *sides)]


def _static(path: KeyPath, one: Any, other: Any) -> Difference:
    """What two nodes of one type and with the same children must then differ in."""
    place = paths.text(path)
    if isinstance(one, collections.OrderedDict):
        return Difference("order", place, *map(_order, (one, other)))
    names = differing_fields(one, other)
    if not names:
        return Difference("static", place, type(one).__name__, "one that is not equal (==)")
    return Difference("static", place, *(_fields(node, names) for node in (one, other)))


def _order(node: Any) -> str:
    return values.listing([repr(key) for key in node])


def _fields(node: Any, names: list[str]) -> str:
    told = [f"{name}={_data(getattr(node, name, None))}" for name in names]
    return values.listing(told, MOST_FIELDS)


def differing_fields(one: Any, other: Any) -> list[str]:
    """The dataclass fields that are no children and differ, where that can be told."""
    if not dataclasses.is_dataclass(one):
        return []
    dynamic = {paths.plain(key) for key, _ in paths.children(one)[0]}
    names = [field.name for field in dataclasses.fields(one) if field.name not in dynamic]
    sides = ((name, getattr(one, name, None), getattr(other, name, None)) for name in names)
    return [name for name, here, there in sides if not paths.same(here, there)]


def _data(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    return leaves.told(value) if leaves.is_array(value) else values.spec(value, 24)


def _keyed(node: Any) -> dict[str, Any]:
    """The children of a node, by key as text."""
    return {paths.text((key,)): child for key, child in paths.children(node)[0]}


def _is_sequence(node: Any) -> bool:
    """Whether the children of a node have places for keys."""
    keys = [key for key, _ in paths.children(node)[0]]
    return all(isinstance(key, SequenceKey | FlattenedIndexKey) for key in keys)


def _is_leaf(node: Any) -> bool:
    return paths.is_leaf(node)
