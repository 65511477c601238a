"""Key paths, and one level of any node with its keys, by public means only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
from jax.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    all_leaves,
    keystr,
    tree_flatten_with_path,
)

KeyPath: TypeAlias = tuple[Any, ...]
"""A path as JAX gives it: a tuple of `DictKey`, `SequenceKey`, `GetAttrKey`, ..."""

IsLeaf: TypeAlias = Callable[[Any], bool] | None


def children(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """One level of a node: its children, each with its key, and the structure of that level.

    Equal structures mean equal type, keys and static data. `node` must not be a leaf.
    """
    below, structure = tree_flatten_with_path(node, is_leaf=lambda child: child is not node)
    return [(path[0], child) for path, child in below], structure


def is_leaf(node: Any, also: IsLeaf = None) -> bool:
    """Whether JAX would hand `node` on as it is. `None` is no leaf but an empty node."""
    return (also is not None and also(node)) or all_leaves((node,))


def leaves_with_paths(tree: Any, also: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Every leaf of a tree with its path, in flattening order."""
    return tree_flatten_with_path(tree, is_leaf=also)[0]


def count_leaves(tree: Any, also: IsLeaf = None) -> int:
    """The number of leaves of a tree."""
    return jax.tree.structure(tree, is_leaf=also).num_leaves


def text(path: KeyPath) -> str:
    """A path as `jax.tree_util.keystr` prints it."""
    return keystr(path)


def plain(key: Any) -> Any:
    """What a user would write for one key of a path: the dict key, the index, the field name."""
    match key:
        case DictKey(key=plain_key) | FlattenedIndexKey(key=plain_key):
            return plain_key
        case SequenceKey(idx=index):
            return index
        case GetAttrKey(name=name):
            return name
    return key


def unsortable(tree: Any) -> KeyPath | None:
    """The path of the first dict that JAX cannot flatten since its keys do not sort, if any."""
    pending: list[tuple[KeyPath, Any]] = [((), tree)]
    while pending:
        path, node = pending.pop()
        try:
            if is_leaf(node):
                continue
            below, _ = children(node)
        except ValueError:
            if isinstance(node, dict):
                return path
            raise
        pending.extend(((*path, key), child) for key, child in reversed(below))
    return None


def same_level(one: Any, structure: Any, other: Any, other_structure: Any) -> bool:
    """Whether two nodes match at their own level, by the structures that `children` gives.

    Structures of two registered dataclasses with the same fields compare equal, though JAX does not
    take one for a prefix of the other.
    """
    return type(one) is type(other) and same(structure, other_structure)


def same(one: Any, other: Any) -> bool:
    """Whether two structures or values are equal. What cannot be compared is not, as in JAX."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001  an array has no truth value, and users write __eq__
        return False
