"""`...` in a mapping of a spec: the entry of all keys that the mapping does not name."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from jax.tree_util import DictKey, register_pytree_with_keys_class

from ..trees import paths
from ..trees.paths import IsLeaf, KeyPath
from ..trees.replace import replaced


@dataclasses.dataclass(frozen=True)
class RestKey:
    """The key of `...` in a path."""

    def __str__(self) -> str:
        return "[...]"


@register_pytree_with_keys_class
class Rest(dict[Any, Any]):
    """A dict that has the key `...`, as a pytree: JAX cannot sort the keys of a plain one."""

    def tree_flatten_with_keys(self) -> tuple[Any, Any]:
        """Its entries as they were written."""
        keys = [RestKey() if key is ... else DictKey(key) for key in self]
        return tuple(zip(keys, self.values(), strict=True)), tuple(self)

    @classmethod
    def tree_unflatten(cls, keys: Any, entries: Any) -> Rest:
        """A mapping of the same keys."""
        return cls(zip(keys, entries, strict=True))

    def __repr__(self) -> str:
        entries = (f"{'...' if key is ... else repr(key)}: {its!r}" for key, its in self.items())
        return f"{{{', '.join(entries)}}}"


def marked(spec: Any) -> Any:
    """A spec with a `Rest` for every dict that has `...`; the spec itself where none has."""
    if not has_rest(spec):
        return spec
    nodes, structure = jax.tree.flatten(spec, is_leaf=_has_rest)
    return structure.unflatten([_as_rest(node) if _has_rest(node) else node for node in nodes])


def has_rest(spec: Any) -> bool:
    """Whether a spec has `...` somewhere."""
    if spec is None or type(spec) is int:
        return False
    try:
        return any(map(_is_rest, jax.tree.leaves(spec, is_leaf=_is_rest)))
    except ValueError:  # a dict whose keys do not sort, whatever `...` does: told as such
        return False


def _is_rest(node: Any) -> bool:
    return isinstance(node, Rest) or _has_rest(node)


def _has_rest(node: Any) -> bool:
    return type(node) is dict and ... in node


def _as_rest(node: dict[Any, Any]) -> Rest:
    return Rest({key: marked(entry) for key, entry in node.items()})


def expanded(spec: Any, tree: Any, is_leaf: IsLeaf = None) -> tuple[Any, frozenset[KeyPath]]:
    """A spec with the keys of the tree in the place of every `...`, and the paths of these keys."""
    if not has_rest(spec):
        return spec, frozenset()
    spec = marked(spec)
    nodes = paths.leaves_with_paths(spec, lambda node: isinstance(node, Rest))
    new: dict[KeyPath, Any] = {}
    from_rest: set[KeyPath] = set()
    opened: dict[KeyPath, dict[str, Any]] = {}
    for path, node in nodes:
        if isinstance(node, Rest):
            below = _below(tree, path, is_leaf, opened)
            new[path] = _filled(node, below, is_leaf, path, from_rest)
    return (replaced(spec, new) if new else spec), frozenset(from_rest)


def _filled(rest: Rest, tree: Any, is_leaf: IsLeaf, path: KeyPath, from_rest: set[KeyPath]) -> Any:
    """The entries of a `Rest` for the node that it meets, in a node like that if it can be made."""
    children, structure = [], None
    if tree is not None and not paths.is_leaf(tree, is_leaf):
        children, structure = paths.children(tree)
    filled: dict[Any, Any] = {}
    for key, child in children:
        name = paths.plain(key)
        filled[name], below = expanded(rest.get(name, rest[...]), child, is_leaf)
        from_rest.update((*path, key, *its) for its in below)
        if name not in rest:
            from_rest.add((*path, key))
    extra = {key: marked(entry) for key, entry in rest.items() if key not in filled}
    del extra[...]
    if structure is not None and not extra:
        try:
            return structure.unflatten(filled.values())
        except Exception:  # noqa: BLE001  a user's constructor may refuse: then types differ
            return filled
    return filled | {key: expanded(entry, None)[0] for key, entry in extra.items()}


def _below(tree: Any, path: KeyPath, is_leaf: IsLeaf, opened: dict[KeyPath, dict[str, Any]]) -> Any:
    """What lies at a path of the tree, None where nothing does.

    `opened` has the children of the nodes on the way to earlier places, and gets those on this one.
    """
    for depth, key in enumerate(path):
        if tree is None or paths.is_leaf(tree, is_leaf):
            return None
        here = path[:depth]
        if here not in opened:
            opened[here] = {paths.text((its,)): child for its, child in paths.children(tree)[0]}
        tree = opened[here].get(paths.text((key,)))
    return tree
