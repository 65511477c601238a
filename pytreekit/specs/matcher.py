"""The first of many patterns that matches each path: globs and regular expressions together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..trees import boxes
from ..trees.boxes import Ends
from ..trees.paths import IsLeaf, KeyPath
from ..trees.structures import SeenTwice
from .patterns import Pattern
from .regexes import Regexes
from .trie import Trie

NO_RULE = -1
"""The number of the rule of a leaf that no rule matches."""


class Matcher:
    """Patterns in order, ready to be matched.

    Args:
        patterns: The patterns.
        separators: The characters that cut a path into segments.
    """

    def __init__(self, patterns: Sequence[Pattern], separators: str) -> None:
        self._most = len(patterns)
        self._trie = Trie([pattern.globs for pattern in patterns], separators)
        self._regexes = Regexes(patterns, separators)
        self._known = SeenTwice()

    @property
    def cuts_keys(self) -> bool:
        """Whether a key was looked at that has separators in its text."""
        return self._trie.cuts_keys or self._regexes.cuts_keys

    def first(self, paths: Sequence[KeyPath]) -> list[int]:
        """The index of the first pattern that matches each path, -1 where none does.

        Raises:
            Endless: If a search for a regular expression takes too long.
        """
        found = self._regexes.first(paths, self._trie.first(paths))
        return [NO_RULE if number == self._most else number for number in found]

    def numbered(
        self, tree: Any, is_leaf: IsLeaf = None, prefix: KeyPath = ()
    ) -> tuple[Ends, list[int]]:
        """The leaves of a tree, and the first pattern for each, known once a tree has come twice.

        Raises:
            Endless: As `first` does.
            ValueError: If JAX cannot flatten the tree.
        """
        known = self._known if is_leaf is None and not prefix else None
        if known is not None and not known.is_empty:
            ends = Ends(tree, paths_first=False)
            kinds, numbers = known.get(ends.structure) or (None, [])
            if kinds == boxes.kinds():
                return ends, numbers
        ends = Ends(tree, is_leaf, prefix)
        numbers = self.first(ends.texts)
        if known is not None:
            known.put(ends.structure, (boxes.kinds(), numbers))
        return ends, numbers
