"""`ptk.Rules`: ordered patterns over the paths of a tree, with a value each."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from ..trees import boxes
from ..trees.paths import IsLeaf
from .assignment import NO_RULE, UNMATCHED, Assignment
from .patterns import BadPattern, Pattern, parsed
from .trie import Trie


class Rules:
    """Ordered rules"""

    def __init__(self, rules: Any = (), *, default: Any = UNMATCHED, split: str = "/") -> None:
        pairs = [tuple(pair) for pair in rules]
        self.patterns: tuple[Pattern, ...] = tuple(parsed(p, split) for p, _ in pairs)
        self.values = tuple(value for _, value in pairs)
        self.default = default
        self.split = split
        self._trie = Trie([p.globs for p in self.patterns], split)

    def assign(self, tree: Any, *, is_leaf: IsLeaf = None) -> Assignment:
        """The rule and value of each leaf."""
        ends = boxes.ends(tree, is_leaf)
        numbers = self._trie.first(ends.texts)
        most = len(self.patterns)
        regexes = [(n, p.regex) for n, p in enumerate(self.patterns) if p.regex is not None]
        a = Assignment(self, ends.leaves, ends.structure, numbers, [], lambda: ends)
        for i, best in enumerate(numbers):
            if regexes:
                text = a.text(i)
                for n, r in regexes:
                    if n < best and r.search(text):
                        best = n
                        break
            numbers[i] = NO_RULE if best == most else best
        said = [*self.values, self.default]
        a.values.extend(said[n] for n in numbers)
        for i, v in enumerate(a.values):
            if callable(v) and not isinstance(v, type):
                a.values[i] = v(a.text(i), a.leaves[i])
        return a

    def __call__(self, tree: Any) -> Any:
        """values"""
        a = self.assign(tree)
        return a.treedef.unflatten(a.values)
