"""What was worked out for each kind of call: by structure, mesh, and what JAX takes leaves for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax

from ..show import values
from ..trees.structures import MOST, StructureCache

T = TypeVar("T")


class Same(NamedTuple):
    """What is compared by identity: no JAX type, and perhaps with no hash."""

    number: int
    held: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.held is other.held

    def __hash__(self) -> int:
        return self.number


class KnownCalls:
    """A bounded map from kinds of calls to what was made for them.

    Args:
        by_value: Whether calls with other values of what is no JAX type are of another kind.
    """

    def __init__(self, *, by_value: bool = False) -> None:
        self._known = StructureCache()
        self._by_value = by_value

    def get(self, structure: Any, leaves: Sequence[Any], make: Callable[[], T]) -> T:
        """What is known of a call under the mesh that is set; it is made, if nothing is."""
        __tracebackhide__ = True
        key = (jax.sharding.get_abstract_mesh(), kinds_of(leaves, by_value=self._by_value))
        known = self._known.get(structure)
        found = known and known.get(key)
        if found is None:
            found = make()
            if known is None or len(known) >= MOST:
                known = {}
                self._known.put(structure, known)
            known[key] = found
        return found


def kinds_of(leaves: Sequence[Any], *, by_value: bool = False) -> tuple[Any, ...]:
    """What the check of a call goes by: what JAX takes each leaf for, else its type or value."""
    other = value_of if by_value else type
    return tuple(_kind(leaf, other) for leaf in leaves)


def _kind(leaf: Any, other: Callable[[Any], Any]) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf.aval
    aval = values.typeof(leaf)
    return other(leaf) if aval is None else aval


def value_of(leaf: Any) -> Any:
    """What a leaf that is no JAX type is told from others by."""
    return leaf if type(leaf) in {str, bytes} else Same(id(leaf), leaf)
