"""Regular expressions over the texts of paths: the first that matches, in bounded time.

Expressions that match alike whatever the numbers in a text are, are searched for once in all texts
that differ in numbers alone. Those of which it is not certain that their search ends soon are
searched for in a process that can be stopped.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from jax.tree_util import keystr

from ..trees.paths import KeyPath
from .globs import rests
from .patterns import Pattern
from .regex_shape import Shape, shape
from .stoppable import Order, Stopped, searched

MOST_STEPS = 10_000_000
"""Steps of one search that may be taken in this process: some tenths of a second."""

SECONDS = 10.0
"""The time that all searches in a tree may take together, and as much again for every"""

SEARCHES = 500_000
"""searches."""


NEVER = sys.maxsize

ADVICE = "a repetition inside of a repetition can match one text in very many ways"

Search: TypeAlias = Callable[[str], Any]


class Endless(Exception):  # noqa: N818  it is made into a fault
    """A search that takes too long: the number of its rule, what is wrong, and what more to say."""

    def __init__(self, number: int, fact: str, note: str = "") -> None:
        super().__init__(fact)
        self.number, self.fact, self.note = number, fact, note


class Texts(dict[Any, str]):
    """The text of each key of a path; with `blind`, each run of digits in it is a 0."""

    def __init__(self, *, blind: bool = False) -> None:
        super().__init__()
        self._blind = blind
        self.has_cut = False

    def __missing__(self, key: Any) -> str:
        self[key] = text = self._of((key,))
        self.has_cut |= "/" in text
        return text

    def of(self, path: KeyPath) -> str:
        """The text of a path."""
        try:
            return "/".join([self[key] for key in path])
        except TypeError:  # a user's class of keys that has no hash
            return self._of(path)

    def _of(self, path: KeyPath) -> str:
        text = keystr(path, simple=True, separator="/")
        return re.sub("[0-9]+", "0", text) if self._blind else text


class Searched(NamedTuple):
    """A regular expression of a rule: its number, it, and what is known of it."""

    number: int
    pattern: Pattern
    regex: re.Pattern[str]
    shape: Shape | None

    @property
    def is_blind(self) -> bool:
        """Whether it matches a text whatever the numbers in it are."""
        return self.shape is not None and self.shape.blind and not self.pattern.under

    def is_quick(self, length: int) -> bool:
        """Whether its search in a text of a length is known to end soon."""
        return self.shape is not None and self.shape.steps(length) <= MOST_STEPS


class Regexes:
    """The regular expressions of many rules.

    Args:
        patterns: The patterns of all rules, globs as well.
        separators: The characters that cut a path into segments.

    Attributes:
        cuts_keys: Whether a key was seen that has a `/` in its text.
    """

    def __init__(self, patterns: Sequence[Pattern], separators: str) -> None:
        its = [
            Searched(number, pattern, pattern.regex, shape(pattern.regex))
            for number, pattern in enumerate(patterns)
            if pattern.regex is not None
        ]
        self._blind = [one for one in its if one.is_blind]
        self._others = [one for one in its if not one.is_blind]
        self._separators = separators
        self.cuts_keys = False

    def first(self, paths: Sequence[KeyPath], found: list[int]) -> list[int]:
        """The first rule that matches each path, where it comes before the one that was found.

        Raises:
            Endless: If that takes too long.
        """
        if self._blind:
            found = self._first_blind(paths, found)
        if self._others:
            texts = Texts()
            asked = [index for index, n in enumerate(found) if n > self._others[0].number]
            answers = self._firsts(
                self._others, [texts.of(paths[n]) for n in asked], [found[n] for n in asked]
            )
            self.cuts_keys |= texts.has_cut
            found = found.copy()
            for index, answer in zip(asked, answers, strict=True):
                found[index] = answer
        return found

    def _first_blind(self, paths: Sequence[KeyPath], found: list[int]) -> list[int]:
        """The same for those that match alike what differs in numbers alone."""
        texts = Texts(blind=True)
        alike = [texts.of(path) for path in paths]
        self.cuts_keys |= texts.has_cut
        known = dict.fromkeys(alike, NEVER)
        answers = self._firsts(self._blind, list(known), list(known.values()))
        known = dict(zip(known, answers, strict=True))
        return [min(known[text], before) for text, before in zip(alike, found, strict=True)]

    def _firsts(self, its: Sequence[Searched], texts: list[str], before: list[int]) -> list[int]:
        """The first rule to match each text, or the one that it has to come before."""
        seconds = SECONDS * (1 + len(texts) * len(its) / SEARCHES)
        searches = self._searches(its, texts, seconds)
        until = time.monotonic() + seconds
        found: list[int] = []
        for text, best in zip(texts, before, strict=True):
            for number, search in searches:
                if number >= best or search(text):
                    best = min(best, number)  # noqa: PLW2901
                    break
            found.append(best)
            if time.monotonic() > until:
                number = _slowest(searches, text)
                raise Endless(number, f"searching took more than {seconds:g} s in all")
        return found

    def _searches(
        self, its: Sequence[Searched], texts: list[str], seconds: float
    ) -> list[tuple[int, Search]]:
        """How to see whether each expression is found in a text, in a time that is known."""
        length = max(map(len, texts), default=0)
        slow = [one for one in its if not one.is_quick(length)]
        subjects = {one.number: self._subjects(one, texts) for one in slow if one.pattern.under}
        inner = {number: [rest for rest, _ in pairs] for number, pairs in subjects.items()}
        orders = [Order(one.regex, inner.get(one.number)) for one in slow]
        try:
            answers = searched(texts, orders, seconds)
        except Stopped as stopped:
            raise Endless(slow[stopped.index].number, stopped.fact, ADVICE) from None
        hits = {
            one.number: frozenset(
                subjects[one.number][index][1] if one.pattern.under else texts[index]
                for index in answer
            )
            for one, answer in zip(slow, answers, strict=True)
        }
        return [
            (one.number, hits[one.number].__contains__ if one.number in hits else self._search(one))
            for one in its
        ]

    def _search(self, one: Searched) -> Search:
        search = one.regex.search
        if not one.pattern.under:
            return search
        return lambda text: any(search(rest) for rest, _ in self._subjects(one, [text]))

    def _subjects(self, one: Searched, texts: Iterable[str]) -> list[tuple[str, str]]:
        """What texts have below the places of an expression, each with the text that it is of."""
        places = one.pattern.places
        return [(rest, text) for text in texts for rest in rests(places, text, self._separators)]


def _slowest(searches: Sequence[tuple[int, Search]], text: str) -> int:
    """The rule whose search in a text takes longest."""
    taken: list[tuple[float, int]] = []
    for number, search in searches:
        start = time.perf_counter()
        search(text)
        taken.append((time.perf_counter() - start, number))
    return max(taken)[1]
