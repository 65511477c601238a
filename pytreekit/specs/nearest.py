"""The rule that might be meant for a leaf which none matches."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from .globs import DEEP, BadPattern, Segment, escaped, split
from .patterns import Pattern, parsed

CLOSE = 0.7
"""How alike two texts must be, as `difflib` counts it."""

MOST_COMPARED = 2_000
"""Alternatives of globs that a leaf is compared with."""


class Nearest(NamedTuple):
    """A rule that might be meant.

    Attributes:
        number: The index of the rule.
        fact: What it has to do with the leaf.
        instead: A pattern that matches the leaf, to write in the place of its own; `""` for none.
    """

    number: int
    fact: str
    instead: str = ""


def nearest(
    patterns: Sequence[Pattern], text: str, separators: str, took: Collection[int] = ()
) -> Nearest | None:
    """The rule that might be meant for a leaf, None where no rule has anything to do with it.

    Args:
        patterns: The patterns of all rules, none of which matches the leaf.
        text: The text of the path of the leaf.
        separators: The characters that cut it into segments.
        took: The rules that match other leaves, and so are written as they are meant.
    """
    segments = split(text, separators)
    found = _of_module(patterns, segments, separators)
    return found or _alike(patterns, segments, separators, took)


def _of_module(
    patterns: Sequence[Pattern], segments: Sequence[str], separators: str
) -> Nearest | None:
    """A rule that matches a node above the leaf."""
    for depth in range(len(segments) - 1, 0, -1):
        for number, pattern in enumerate(patterns):
            if any(glob.matches(segments[:depth]) for glob in pattern.globs):
                instead = _matching(f"{pattern.text}/**", segments, separators)
                return Nearest(number, f"{segments[depth - 1]!r} is a module here", instead)
    return None


def _alike(
    patterns: Sequence[Pattern], segments: Sequence[str], separators: str, took: Collection[int]
) -> Nearest | None:
    """A rule whose text is like that of the leaf, but for what matches by `*`."""
    known: dict[str, dict[str, tuple[int, list[_Beside]]]] = {}
    for number, rows in itertools.islice(_aligned(patterns, segments), MOST_COMPARED):
        differ = [row for row in rows if not row.wild]
        tail = "/".join(row.there for row in differ)
        its = "/".join(row.segment.text for row in differ)
        known.setdefault(tail, {}).setdefault(its, (number, rows))
    best, found = CLOSE, None
    for tail, texts in known.items():
        for close in difflib.get_close_matches(tail, list(texts), n=1, cutoff=best):
            ratio = difflib.SequenceMatcher(None, close, tail).ratio()
            if found is None or ratio > best:
                best, found = ratio, texts[close]
    if found is None:
        return None
    number, rows = found
    if len(patterns[number].globs) > 1 or number in took:
        return Nearest(number, "the closest rule")
    instead = "/".join(row.segment.text if row.wild else escaped(row.there) for row in rows)
    return Nearest(number, "the closest rule", _matching(instead, segments, separators))


class _Beside(NamedTuple):
    """A segment of a glob, that of a path beside it, and whether the one matches by `*`."""

    segment: Segment
    there: str
    wild: bool


def _aligned(
    patterns: Sequence[Pattern], segments: Sequence[str]
) -> Iterator[tuple[int, list[_Beside]]]:
    """The segments of each glob beside the end of a path; of `a/**`, beside that of each node."""
    for number, pattern in enumerate(patterns):
        for glob in pattern.globs:
            if glob.segments[-1:] != (DEEP,):
                yield number, _beside(glob.segments, segments)
                continue
            for end in range(len(segments) - 1, 0, -1):
                rows = _beside(glob.segments[:-1], segments[:end])
                yield number, [*rows, _Beside(DEEP, "", wild=True)]


def _beside(its: Sequence[Segment], segments: Sequence[str]) -> list[_Beside]:
    tail = segments[-len(its) :] if its else ()
    tail = [""] * (len(its) - len(tail)) + [*tail]
    return [
        _Beside(segment, there, segment.literal is None and segment.matches(there))
        for segment, there in zip(its, tail, strict=True)
    ]


def _matching(pattern: str, segments: Sequence[str], separators: str) -> str:
    """A pattern if it matches, else nothing."""
    try:
        globs = parsed(pattern, separators).globs
    except BadPattern:
        return ""
    return pattern if any(glob.matches(segments) for glob in globs) else ""
