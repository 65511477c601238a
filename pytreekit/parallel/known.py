"""What was worked out for each kind of call: by structure, mesh, and what JAX takes leaves for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

from ..show import values
from ..trees.structures import MOST, StructureCache

T = TypeVar("T")


class KnownCalls:
    """A bounded map from kinds of calls to what was made for them."""

    def __init__(self) -> None:
        self._known = StructureCache()

    def get(self, structure: Any, leaves: Sequence[Any], make: Callable[[], T]) -> T:
        """What is known of a call under the mesh that is set; it is made, if nothing is."""
        __tracebackhide__ = True
        key = (jax.sharding.get_abstract_mesh(), kinds_of(leaves))
        known = self._known.get(structure)
        found = known and known.get(key)
        if found is None:
            found = make()
            if known is None or len(known) >= MOST:
                known = {}
                self._known.put(structure, known)
            known[key] = found
        return found


def kinds_of(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """What the check of a call goes by: what JAX takes each leaf for, else its type."""
    return tuple(map(_kind, leaves))


def _kind(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf.aval
    aval = values.typeof(leaf)
    return type(leaf) if aval is None else aval
