"""What is said of each leaf of a tree, and where it stands: the same, whoever says it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from jax.tree_util import keystr

from ..faults import Fault
from ..trees.boxes import Ends

NOTHING = -1
"""The number of a leaf that nothing is said of."""

NAME = "tree"
"""What messages call the tree."""


class Saying(NamedTuple):
    """Something that is said of leaves.

    Attributes:
        value: What is said, unread.
        by: Who says so: "a rule", "a function" of one, "the default", "an entry", "metadata",
            "nobody".
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
        ends: The leaves, and their paths.
        sayings: All that is said.
        numbers: For each leaf, the index of what is said of it, or `NOTHING`.
        faults: Given the leaves that need nothing said of them, what is wrong with the others.
        rewritten: Given other values for some of what is said, what says these; None if nobody can.
    """

    ends: Ends
    sayings: list[Saying]
    numbers: list[int]
    faults: Callable[[Collection[int]], list[Fault]]
    rewritten: Callable[[Mapping[int, Any]], Any] = lambda values: None

    @property
    def leaves(self) -> list[Any]:
        """The leaves of the tree."""
        return self.ends.leaves

    @property
    def treedef(self) -> Any:
        """The structure of the tree."""
        return self.ends.structure

    def path(self, index: int) -> str:
        """The path of a leaf, as `jax.tree_util.keystr` prints it."""
        return keystr(self.ends.paths[index])

    def text(self, index: int) -> str:
        """The path of a leaf up to its box, with `/` between its keys."""
        return keystr(self.ends.texts[index], simple=True, separator="/")


def value_key(value: Any) -> Any:
    """What is equal for values that say the same: themselves, or the object where it cannot be."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
