"""What rules say of each leaf of a tree, unread."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jax.tree_util import keystr

from ..trees import boxes
from ..trees.boxes import Ends
from ..trees.paths import KeyPath

if TYPE_CHECKING:
    from .rules import Rules

NO_RULE = -1
"""The number of the rule of a leaf that no rule matches."""


class Unmatched:
    """The type of `UNMATCHED`."""

    def __repr__(self) -> str:
        return "UNMATCHED"

    def __reduce__(self) -> str:
        return "UNMATCHED"  # one object, however it is copied


UNMATCHED: Final = Unmatched()
"""The value of a leaf that no rule matches, where there is no default."""


@dataclasses.dataclass(frozen=True, eq=False)
class Assignment:
    """The rule of each leaf of a tree, and its value. All sequences are in flattening order.

    Attributes:
        rules: The rules.
        leaves: The leaves of the tree.
        treedef: The structure of the tree as it was given, boxes included.
        numbers: The index of the rule that took each leaf, -1 where none did.
        values: The value of that rule, unread; the default where no rule matches, or `UNMATCHED`.
    """

    rules: Rules
    leaves: list[Any]
    treedef: Any
    numbers: list[int]
    values: list[Any]
    _ends: Callable[[], Ends]

    def path(self, index: int) -> KeyPath:
        """The key path of a leaf."""
        return self._paths.paths[index]

    def text(self, index: int) -> str:
        """The path of a leaf as the text that rules match: it ends at the box of an array."""
        return keystr(self._paths.texts[index], simple=True, separator="/")

    @functools.cached_property
    def _paths(self) -> Ends:
        return self._ends()
