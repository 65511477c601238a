"""What is said of each leaf of a tree, and where it stands: the same, whoever says it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from ..faults import Fault
from ..trees.paths import KeyPath

NOTHING = -1
"""The number of a leaf that nothing is said of."""

NAME = "tree"
"""What messages call the tree."""


class Saying(NamedTuple):
    """Something that is said of leaves.

    Attributes:
        value: What is said, unread.
        by: Who says so: "a rule", "the default", "an entry", "metadata", "nobody".
        told: Given one of the leaves: where that stands, and what stands there.
        short: The same in short; the default is where it stands.
    """

    value: Any
    by: str
    told: Callable[[int], tuple[str, str]]
    short: str = ""

    def why(self, index: int) -> str:
        """Where it stands, for tables."""
        return self.short or self.told(index)[0]


@dataclasses.dataclass
class Source:
    """What is said of each leaf of a tree, in flattening order.

    Attributes:
        leaves: The leaves.
        treedef: The structure of the tree.
        sayings: All that is said.
        numbers: For each leaf, the index of what is said of it, or `NOTHING`.
        path: The key path of a leaf.
        faults: Given the leaves that need nothing said of them, what is wrong with the others.
    """

    leaves: Sequence[Any]
    treedef: Any
    sayings: list[Saying]
    numbers: list[int]
    path: Callable[[int], KeyPath]
    faults: Callable[[Collection[int]], list[Fault]]


def value_key(value: Any) -> Any:
    """What is equal for values that say the same: themselves, or the object where it cannot be."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
