"""Repair a spec tree: write repairs into a copy of it, and say in text what changed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax

from ..show import values as shown
from ..trees import paths
from ..trees.paths import KeyPath
from .bind import Binding
from .finding import Replace, Revalue

_DEEPEST_PREFIX = 32


def respecified(binding: Binding, repairs: Sequence[Replace | Revalue]) -> Any:
    """The spec of a binding with repairs written into it; the binding's own spec is left alone."""
    spec = binding.spec
    done: list[KeyPath] = []
    replaced = {repair.path: repair.spec for repair in repairs if isinstance(repair, Replace)}
    for path in sorted(replaced, key=len):
        if not any(path[: len(outer)] == outer for outer in done):
            spec = written(spec, path, replaced[path])
            done.append(path)
    wanted = {repair.path: repair.value for repair in repairs if isinstance(repair, Revalue)}
    if wanted and not done:
        for path, value, subtree in binding.entries:
            spec = _revalued(spec, path, value, subtree, wanted, binding.is_leaf)
    return spec


def written(spec: Any, path: KeyPath, new: Any) -> Any:
    """A copy of `spec` with `new` at `path`; only the nodes on the way are made anew."""
    levels = []
    for key in path:
        children, structure = paths.children(spec)
        at = [child_key for child_key, _ in children].index(key)
        levels.append((structure, [child for _, child in children], at))
        spec = children[at][1]
    for structure, siblings, at in reversed(levels):
        siblings[at] = new
        new = structure.unflatten(siblings)
    return new


def _revalued(
    spec: Any, path: KeyPath, value: Any, subtree: Any, wanted: dict[KeyPath, Any], also: Any
) -> Any:
    leaves = paths.leaves_with_paths(subtree, also)
    new = [wanted.get(path + below, value) for below, _ in leaves]
    if all(paths.same(one, value) for one in new):
        return spec
    return written(spec, path, _prefix(subtree, new, also))


def _prefix(tree: Any, values: list[Any], also: Any, depth: int = 0) -> Any:
    """The shortest prefix of `tree` that gives its leaves these values."""
    if all(paths.same(value, values[0]) for value in values):
        return values[0]
    if depth == _DEEPEST_PREFIX:
        return jax.tree.structure(tree, is_leaf=also).unflatten(values)
    children, structure = paths.children(tree)
    below = iter(values)
    nodes = [
        (child, list(itertools.islice(below, paths.count_leaves(child, also))))
        for _, child in children
    ]
    return structure.unflatten(
        [_prefix(child, its, also, depth + 1) if its else None for child, its in nodes]
    )


def change(name: str, old: Any, new: Any) -> str:
    """What to write to get from one spec to another: `in_axes[0]['b'] = None`."""
    path: KeyPath = ()
    while True:
        differing = _differing_children(old, new)
        if len(differing) != 1:
            break
        key, old, new = differing[0]
        path = (*path, key)
    place = name + paths.text(path)
    whole = f"{place} = {shown.spec(new)}"
    if type(old) is not dict or type(new) is not dict:
        return whole
    added = [key for key in new if key not in old]
    gone = [key for key in old if key not in new]
    if len(added) + len(gone) == 1 and len(whole) > len(place) + 40:
        return (
            f"{place}[{added[0]!r}] = {new[added[0]]!r}" if added else f"del {place}[{gone[0]!r}]"
        )
    return whole


def _differing_children(old: Any, new: Any) -> list[tuple[Any, Any, Any]]:
    if any(node is None or paths.is_leaf(node) for node in (old, new)):
        return []
    (old_children, structure), (new_children, new_structure) = map(paths.children, (old, new))
    if not paths.same(structure, new_structure):
        return []
    pairs = zip(old_children, new_children, strict=True)
    return [(key, one, other) for (key, one), (_, other) in pairs if not equal(one, other)]


def equal(one: Any, other: Any) -> bool:
    """Whether two specs are the same: structure and values."""
    flat = functools.partial(jax.tree.flatten, is_leaf=lambda node: node is None)
    (values, structure), (others, other_structure) = flat(one), flat(other)
    return paths.same(structure, other_structure) and paths.same(values, others)
