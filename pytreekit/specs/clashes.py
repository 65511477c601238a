"""Leaves that have one text for two paths, as `{"a/b": ...}` and `{"a": {"b": ...}}` have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jax.tree_util import keystr

from ..trees.paths import KeyPath
from .globs import segments_of, split
from .patterns import Pattern

if TYPE_CHECKING:
    from .rules import Rules

ALL_TEXTS = ("re:", "re:.*", "re:.*$", "re:^.*$")
"""Regular expressions that match every text there is, and so do not look at it."""


def clashes(
    texts: Sequence[KeyPath], numbers: Sequence[int], rules: Rules
) -> Iterator[tuple[int, int]]:
    """Each leaf that has the text of an earlier one, which the same rule took, with that one.

    Only where the rule looks at the keys in which the two differ: `kernel` may take both, whatever
    comes before it.
    """
    first: dict[tuple[int, str], int] = {}
    for index, (path, number) in enumerate(zip(texts, numbers, strict=True)):
        text = keystr(path, simple=True, separator="/")
        other = first.setdefault((number, text), index)
        if number < 0 or other == index or path == texts[other]:
            continue
        alike = _alike(path, texts[other], rules.split)
        if _looks_beyond(rules.patterns[number], alike, split(text, rules.split)):
            yield index, other


def _alike(one: KeyPath, other: KeyPath, separators: str) -> int:
    """The number of segments at the end that two paths have from the same keys."""
    count = 0
    for key, its in zip(reversed(one), reversed(other), strict=False):
        if key != its:
            break
        count += len(segments_of(key, separators))
    return count


def _looks_beyond(pattern: Pattern, alike: int, segments: Sequence[str]) -> bool:
    """Whether a pattern matches only by looking at more than so many segments from the end."""
    if pattern.regex is not None:
        return pattern.text not in ALL_TEXTS
    return all(
        glob.rooted or len(glob.segments) > alike or any(its.is_deep for its in glob.segments)
        for glob in pattern.globs
        if glob.matches(segments)
    )
