"""Globs over the segments of a path: what they are, how they are read, what they match."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jax.tree_util import keystr

MOST_ALTERNATIVES = 10_000
"""What the braces of one pattern may expand to."""

DEEPEST_BRACES = 50


class BadPattern(ValueError):  # noqa: N818  it is made into a fault
    """A pattern that cannot be read: why, and what to write instead."""

    def __init__(self, fact: str, note: str = "") -> None:
        super().__init__(fact)
        self.fact, self.note = fact, note


def split(text: str, separators: str) -> tuple[str, ...]:
    """A text cut into segments."""
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    return tuple(text.split(separators[0]))


def segments_of(key: Any, separators: str) -> tuple[str, ...]:
    """The segments that one key of a path is in text: more than one if it holds a separator."""
    return split(keystr((key,), simple=True, separator="/"), separators)


@dataclasses.dataclass(frozen=True)
class Segment:
    """A segment of a glob: literal parts, with a `*` between each two; no parts for `**`."""

    parts: tuple[str, ...]

    @property
    def literal(self) -> str | None:
        """The one text that it matches, None where there are more."""
        return self.parts[0] if len(self.parts) == 1 else None

    @property
    def is_deep(self) -> bool:
        """Whether it is `**`."""
        return not self.parts

    @property
    def text(self) -> str:
        """It as a user writes it."""
        return "**" if self.is_deep else "*".join(map(_literal, self.parts)) or "{}"

    def matches(self, text: str) -> bool:
        """Whether it matches a segment of a path, in time linear in both."""
        if self.literal is not None or self.is_deep:
            return self.literal == text
        first, *middle, last = self.parts
        if len(text) < len(first) + len(last) or not text.startswith(first):
            return False
        if not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


DEEP = Segment(())


class Glob(NamedTuple):
    """One alternative of a glob without braces: its segments, and whether it binds at the root."""

    segments: tuple[Segment, ...]
    rooted: bool

    def matches(self, path: Sequence[str]) -> bool:
        """Whether it matches the segments of a path, in time linear in both."""
        at = {0} if self.rooted else set(range(len(path) + 1))
        for segment in self.segments:
            if segment.is_deep:
                at = set(range(min(at, default=len(path) + 1), len(path) + 1))
            else:
                at = {n + 1 for n in at if n < len(path) and segment.matches(path[n])}
        return len(path) in at


@functools.lru_cache(4096)
def globs(pattern: str, separators: str) -> tuple[Glob, ...]:
    """What a glob expands to: its alternatives, without braces.

    Raises:
        BadPattern: If it cannot be read.
    """
    if not pattern:
        raise BadPattern("the pattern is empty", "** is every path, {} an empty key")
    tokens = list(_tokens(pattern))
    choices, rest = _alternatives(tokens, 0, 0)
    if rest != len(tokens):
        raise BadPattern("a } closes no {", "a literal one is written \\}")
    rooted = tokens[0] == ROOT
    if any(choice[:1] == [ROOT] for choice in choices) != rooted:
        raise BadPattern("a / that binds the whole path stands inside of braces")
    return tuple(dict.fromkeys(_glob(choice[rooted:], separators, rooted) for choice in choices))


def escaped(text: str) -> str:
    """A segment as a glob that matches it alone."""
    return _literal(text) or "{}"


def _literal(text: str) -> str:
    return re.sub(r"([\\*{},])", r"\\\1", text)


Token = tuple[str, bool]
"""A character, and whether it was escaped."""

ROOT: Token = ("/", False)
STAR: Token = ("*", False)
OPEN: Token = ("{", False)
CLOSE: Token = ("}", False)
COMMA: Token = (",", False)
NOTHING: Token = ("", True)
"""What an empty alternative, as in `{a,}`, expands to."""


def _tokens(pattern: str) -> Iterator[Token]:
    characters = iter(pattern)
    for character in characters:
        if character != "\\":
            yield character, False
            continue
        escaped = next(characters, None)
        if escaped is None:
            raise BadPattern("it ends in a \\ that escapes nothing", "a literal one is \\\\")
        yield escaped, True


def _alternatives(tokens: list[Token], at: int, depth: int) -> tuple[list[list[Token]], int]:
    """The texts that tokens expand to, up to the end of the brace that they are in."""
    if depth > DEEPEST_BRACES:
        raise BadPattern(f"braces are nested more than {DEEPEST_BRACES} deep")
    done: list[list[Token]] = []
    here: list[list[Token]] = [[]]
    while at < len(tokens) and tokens[at] != CLOSE:
        if tokens[at] == OPEN:
            inside, at = _alternatives(tokens, at + 1, depth + 1)
            if at == len(tokens):
                raise BadPattern("a { is not closed", "a literal one is written \\{")
            here = [[*one, *(its or [NOTHING])] for one in here for its in inside]
        elif depth and tokens[at] == COMMA:
            done, here = done + here, [[]]
        else:
            for one in here:
                one.append(tokens[at])
        if len(done) + len(here) > MOST_ALTERNATIVES:
            raise BadPattern(f"its braces expand to more than {MOST_ALTERNATIVES:,} patterns")
        at += 1
    return done + here, at


def _glob(tokens: list[Token], separators: str, rooted: bool) -> Glob:  # noqa: FBT001
    if not tokens:
        return Glob((), rooted)
    if tokens[-1] == ROOT:
        text = "".join(character for character, _ in tokens[:-1])
        raise BadPattern("it ends in /", f"{text}/** is all that lies below")
    return _merged([_segment(its) for its in _cut(tokens, separators)], rooted=rooted)


def _cut(tokens: list[Token], separators: str) -> Iterator[list[Token]]:
    """The tokens of each segment. An escaped separator is one, too: no segment holds any."""
    segment: list[Token] = []
    for token in tokens:
        if token[0] and token[0] in separators:
            yield segment
            segment = []
        else:
            segment.append(token)
    yield segment


def _segment(tokens: list[Token]) -> Segment:
    if tokens == [STAR, STAR]:
        return DEEP
    parts = [""]
    for token, following in itertools.pairwise([*tokens, NOTHING]):
        if token != STAR:
            parts[-1] += token[0]
        elif following == STAR:
            raise BadPattern("** must stand alone between two /", "* is within a segment")
        else:
            parts.append("")
    return Segment(tuple(parts))


def _merged(segments: Sequence[Segment], *, rooted: bool) -> Glob:
    """A glob with no `**` that says nothing: beside another, or in front of the end of a path."""
    kept = [its for its, before in zip(segments, [None, *segments], strict=False)
            if not (its.is_deep and before is not None and before.is_deep)]  # fmt: skip
    if kept and kept[0].is_deep:
        return Glob(tuple(kept[1:]), rooted=False)
    return Glob(tuple(kept), rooted)


def joined(places: Sequence[Glob], inner: Sequence[Glob]) -> tuple[Glob, ...]:
    """Globs of what lies below places: each of these after each of those."""
    return tuple(
        _merged(
            (*place.segments, *(() if glob.rooted else (DEEP,)), *glob.segments),
            rooted=place.rooted,
        )
        for place in places
        for glob in inner
    )


def rests(places: Sequence[Glob], text: str, separators: str) -> Iterator[str]:
    """What the text of a path has below each of the places that are on it."""
    segments = split(text, separators) if text else ()
    start = 0
    for count in range(len(segments) + 1):
        if any(place.matches(segments[:count]) for place in places):
            yield text[start:]
        start += len(segments[count]) + 1 if count < len(segments) else 0
