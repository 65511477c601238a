"""What was worked out for each tree structure: bounded, safe between threads."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

MOST = 128
"""How many structures are kept; structures with one hash are compared in turn, so not many more."""


class StructureCache:
    """A bounded map from tree structures to values, which outlives odd static data."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def get(self, structure: Any) -> Any:
        """The value for a structure, or None."""
        try:
            return self._known.get(structure)
        except Exception:  # noqa: BLE001  comparing static data may raise anything
            return None

    def put(self, structure: Any, value: Any) -> None:
        """Keep a value, unless the static data of its structure cannot be looked up again.

        A structure hashes although its static data does not, and only raises when compared. It
        may also hold arrays, or tracers, that must not be kept alive.
        """
        if not has_hashable_data(structure):
            return
        with self._lock:
            while len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            try:
                self._known[structure] = value
            except Exception:  # noqa: BLE001  as above; then it is worked out anew each time
                return


class SeenTwice:
    """A `StructureCache` that keeps what comes again: most trees are looked at once."""

    def __init__(self) -> None:
        self._cache = StructureCache()
        self._once: set[int] = set()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was put here so far."""
        return not self._once

    def get(self, structure: Any) -> Any:
        """The value for a structure, or None."""
        return self._cache.get(structure)

    def put(self, structure: Any, value: Any) -> None:
        """Keep a value, if its structure was here before."""
        try:
            mark = hash(structure)
        except Exception:  # noqa: BLE001  static data may have no hash, or raise anything
            return
        if mark in self._once:
            self._cache.put(structure, value)
            return
        if len(self._once) >= MOST:
            self._once = set()
        self._once.add(mark)


def has_hashable_data(structure: Any) -> bool:
    """Whether the static data of every node can be hashed."""
    pending = [structure]
    while pending:
        node = pending.pop()
        data = node.node_data()
        if data is None:
            continue
        kind, static = data
        if kind is not dict and not isinstance(static, Hashable):
            return False
        try:
            hash(None if kind is dict else static)
        except Exception:  # noqa: BLE001  a tuple is Hashable, what it holds may not be
            return False
        pending.extend(child for child in node.children() if child.num_nodes > 1)
    return True
