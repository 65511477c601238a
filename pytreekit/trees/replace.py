"""A copy of a tree with other things at some of its paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import paths
from .paths import KeyPath


def replaced(tree: Any, new: Mapping[KeyPath, Any]) -> Any:
    """A copy of `tree` with new subtrees at their paths; only the nodes on the way are made anew.

    What is put at the path of a node stands for all that would be put below it.
    """
    if () in new:
        return new[()]
    made: dict[KeyPath, tuple[Any, dict[Any, Any]]] = {}
    for path, value in new.items():
        node = tree
        for depth, key in enumerate(path):
            here = path[:depth]
            if here in new:
                break
            if here not in made:
                children, structure = paths.children(node)
                made[here] = structure, dict(children)
            node = made[here][1][key]
        else:
            made[path[:-1]][1][path[-1]] = value
    for path in sorted(made, key=len, reverse=True):
        structure, children = made[path]
        tree = structure.unflatten(children.values())
        if path:
            made[path[:-1]][1][path[-1]] = tree
    return tree
