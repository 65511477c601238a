"""The first of many patterns that matches each path: globs and regular expressions together."""

from __future__ import annotations

from collections.abc import Sequence

from ..trees.paths import KeyPath
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
