"""What a regular expression can do, read from its text: tell numbers apart, search for very long.

Only what is certain is said. An expression with anything in it that is not known here, such as a
look-ahead or a repeated group, may do both.
"""

from __future__ import annotations

import enum
import functools
import math
import re
from typing import NamedTuple


class Shape(NamedTuple):
    """What a part of an expression may match.

    Numbers cannot be told apart if each run of digits in a text is matched by a repeated wildcard
    for any length that it may have: two such wildcards that each need a character, side by side,
    need two digits, and so do all that match a single digit.

    Attributes:
        blind: Whether it cannot tell numbers apart.
        empty: Whether it may match nothing.
        left: Whether it may begin with a repeated wildcard that needs a character.
        right: Whether it may end with one.
        stars: How many repetitions it goes through in one attempt, at most.
        ways: How many choices it has besides.
    """

    blind: bool
    empty: bool = False
    left: bool = False
    right: bool = False
    stars: int = 0
    ways: int = 1

    def then(self, other: Shape) -> Shape:
        """This, and another part after it."""
        return Shape(
            self.blind and other.blind and not (self.right and other.left),
            self.empty and other.empty,
            self.left or (self.empty and other.left),
            other.right or (other.empty and self.right),
            self.stars + other.stars,
            self.ways * other.ways,
        )

    def otherwise(self, other: Shape) -> Shape:
        """This, or another part in its place."""
        return Shape(
            self.blind and other.blind,
            self.empty or other.empty,
            self.left or other.left,
            self.right or other.right,
            max(self.stars, other.stars),
            self.ways + other.ways,
        )

    def steps(self, length: int) -> int:
        """A bound of the steps of a search in a text: where to begin, how to share it out."""
        return (length + 1) * self.ways * math.comb(length + self.stars, self.stars)


NOTHING = Shape(blind=True, empty=True)

_KNOWN_FLAGS = re.UNICODE | re.IGNORECASE | re.DOTALL
_QUANTIFIERS = "?*+{"
_COUNTED = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
_GROUP = re.compile(r"\?(?:P<\w+>|:|(?P<look><?[=!]))")
_OPERATORS = ("[", "--", "&&", "~~", "||")


@functools.lru_cache(4096)
def shape(regex: re.Pattern[str]) -> Shape | None:
    """The shape of a regular expression, None where it is not known."""
    if regex.flags & ~_KNOWN_FLAGS:
        return None
    reader = _Reader(regex.pattern)
    try:
        found = reader.either()
    except (_NotKnown, IndexError, RecursionError):
        return None
    return found if reader.at == len(reader.text) else None


class _NotKnown(Exception):  # noqa: N818  it never leaves this module
    """There is something in the expression that is not known here."""


class _Kind(enum.Enum):
    """What one part is: a character that no, every or some digit is, or more than a character."""

    SOLID = enum.auto()
    WILD = enum.auto()
    SOME = enum.auto()
    MORE = enum.auto()


class _Reader:
    """Reads an expression, which `re` has compiled, so that it is well formed."""

    def __init__(self, text: str) -> None:
        self.text = text
        flags = _FLAGS.match(text)
        self.at = flags.end() if flags else 0

    def either(self) -> Shape:
        """Parts with `|` between them."""
        found = self._sequence()
        while self._next("|"):
            found = found.otherwise(self._sequence())
        return found

    def _sequence(self) -> Shape:
        found = NOTHING
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            found = found.then(self._repeated())
        return found

    def _repeated(self) -> Shape:
        """One part, with what repeats it."""
        kind, part = self._part()
        sign = self._next(_QUANTIFIERS)
        if not sign:
            return part if kind is _Kind.MORE else Shape(kind is _Kind.SOLID)
        least = self._least() if sign == "{" else int(sign == "+")
        self._next("?")
        if self._next(_QUANTIFIERS) or (kind is _Kind.MORE and sign != "?"):
            raise _NotKnown
        if kind is _Kind.MORE:
            return part.otherwise(NOTHING)
        if kind is not _Kind.WILD:
            return Shape(kind is _Kind.SOLID, empty=not least, stars=1)
        edge = sign == "+"
        return Shape(sign in "*+", empty=not least, left=edge, right=edge, stars=1)

    def _part(self) -> tuple[_Kind, Shape]:
        character = self._take()
        if character in "^$":
            return _Kind.MORE, NOTHING
        if character == "(":
            return _Kind.MORE, self._group()
        if character == "[":
            return self._of_class(), NOTHING
        if character == "\\":
            return self._escaped()
        if character in "*+?{":
            raise _NotKnown
        if character == ".":
            return _Kind.WILD, NOTHING
        return (_Kind.SOME if character.isdecimal() else _Kind.SOLID), NOTHING

    def _group(self) -> Shape:
        kind = None
        if self.text.startswith("?", self.at):
            kind = _GROUP.match(self.text, self.at)
            if not kind:
                raise _NotKnown
            self.at = kind.end()
        found = self.either()
        if not self._next(")"):
            raise _NotKnown
        if kind and kind["look"]:
            return Shape(blind=False, empty=True, stars=found.stars, ways=found.ways)
        return found

    def _escaped(self) -> tuple[_Kind, Shape]:
        character = self._take()
        if character in "AZ":
            return _Kind.MORE, NOTHING
        if character in "bB":
            return _Kind.MORE, Shape(blind=False, empty=True)
        if character in "dwS":
            return _Kind.WILD, NOTHING
        if character in "DWs" or not character.isalnum():
            return _Kind.SOLID, NOTHING
        raise _NotKnown

    def _of_class(self) -> _Kind:
        """A class of characters: those that `re` itself finds the digits to be."""
        start = self.at - 1
        self._next("^")
        self._next("]")
        while (character := self._take()) != "]":
            if character == "\\":
                self._take()
        text = self.text[start : self.at]
        if any(sign in text[1:] for sign in _OPERATORS):  # `re` warns of them
            raise _NotKnown
        its = re.compile(text)
        digits = [digit for digit in "0123456789" if its.match(digit)]
        if not digits:
            return _Kind.SOLID
        return _Kind.WILD if len(digits) == len("0123456789") else _Kind.SOME

    def _least(self) -> int:
        counted = _COUNTED.match(self.text, self.at - 1)
        if not counted:
            raise _NotKnown
        self.at = counted.end()
        return int(counted[1] or 0)

    def _take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def _next(self, signs: str) -> str:
        """The next character if it is one of these, else nothing."""
        if self.at < len(self.text) and self.text[self.at] in signs:
            return self._take()
        return ""
