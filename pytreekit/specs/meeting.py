"""A node of a spec that does not match what it meets in the tree, and ways to mend it."""

from __future__ import annotations

import collections
import difflib
from typing import Any, NamedTuple

import jax

from ..faults import Fault
from ..trees import paths
from ..trees.paths import KeyPath
from .finding import Replace

MOST_COMPARED = 10_000
"""Pairs of names that are compared: that takes time in their product."""

MOST_VALUES = 8
"""Values of a spec that are tried as a prefix."""

_PLAIN = (dict, list, tuple, collections.OrderedDict, collections.defaultdict)


class Meeting(NamedTuple):
    """A container of the spec and what it meets at the same path of the tree.

    Attributes:
        name: What messages call the tree.
        spec_name: What messages call the spec.
        path: The key path of both.
        spec: The container.
        tree: What it meets.
        leaf: Whether that is a leaf.
        fill: The value to propose for a place of the tree that the spec has none for.
    """

    name: str
    spec_name: str
    path: KeyPath
    spec: Any
    tree: Any
    leaf: bool
    fill: Any

    def fault(self, code: str, found: str, wanted: str, key: str = "", **more: Any) -> Fault:
        """A fault of the node, or of its child under `key`."""
        here = paths.text(self.path)
        return Fault(code, self.name, here + key, self.spec_name + here, found, wanted, **more)

    @property
    def spec_keys(self) -> dict[str, Any]:
        """The children of the spec's node, by key as text."""
        return keyed(self.spec)

    @property
    def keys(self) -> dict[str, Any]:
        """The children of the tree's node, by key as text."""
        return keyed(self.tree)

    def prefixes(self) -> tuple[Replace, ...]:
        """One value for all that lies below: each that the spec has there, then the fill."""
        below = jax.tree.leaves(self.spec, is_leaf=lambda node: node is None)
        tried: list[Any] = []
        for value in [*[value for value in below if value is not None][:MOST_VALUES], self.fill]:
            if not any(paths.same(value, other) for other in tried):
                tried.append(value)
        return tuple(Replace(self.path, value) for value in tried)

    def retyped(self) -> tuple[Replace, ...]:
        """The spec's entries in a container like the tree's, by key, else by position."""
        spec_keys, keys = self.spec_keys, self.keys
        if len(spec_keys) != len(keys):
            return ()
        pairs = zip(keys, spec_keys.values(), strict=True)
        return self._rebuilt([spec_keys.get(key, at_its_place) for key, at_its_place in pairs])

    def resized(self) -> tuple[Replace, ...]:
        """The spec cut to the tree's length, or filled up."""
        if type(self.tree) not in _PLAIN:
            return ()
        entries, length = list(self.spec_keys.values()), len(self.keys)
        return self._rebuilt([*entries[:length], *[self.fill] * (length - len(entries))])

    def rekeyed(self, renamed: dict[str, str]) -> tuple[Replace, ...]:
        """The spec with exactly the tree's keys: renamed, dropped or filled in."""
        spec_keys = self.spec_keys
        old = {new: old for old, new in renamed.items()}
        return self._rebuilt([spec_keys.get(old.get(key, key), self.fill) for key in self.keys])

    def _rebuilt(self, entries: list[Any]) -> tuple[Replace, ...]:
        """A node of the tree's type with spec values in it: what the user would have to write."""
        _, structure = paths.children(self.tree)
        try:
            return (Replace(self.path, structure.unflatten(entries)),)
        except Exception:  # noqa: BLE001  a user's constructor may refuse: then nobody can write it
            return ()


def keyed(node: Any) -> dict[str, Any]:
    """The children of a node, by key as text."""
    return {paths.text((key,)): child for key, child in paths.children(node)[0]}


def likely_pairs(extra: list[str], missing: list[str]) -> dict[str, str]:
    """Which extra key was probably meant for which missing one."""
    if len(extra) == len(missing) == 1:
        return {extra[0]: missing[0]}
    pairs: dict[str, str] = {}
    if len(extra) * len(missing) > MOST_COMPARED:
        return pairs
    for key in extra:
        free = [other for other in missing if other not in pairs.values()]
        close = difflib.get_close_matches(key, free, n=1)
        pairs |= {key: close[0]} if close else {}
    return pairs
