"""Globs as structures, a matcher of them that is slow and obvious, and trees for them to match.

Nothing here reads a pattern: the strategies draw structures, and write their text from these.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hypothesis import strategies as st

DEEP = "**"
STAR = "*"

KEYS = (
    "a", "b", "ab", "aa", "kernel", "wi_0", "wi_1", "layers_1", "layers_10", "a*b", "{a,b}", "*",
    "**", "a,b", "a\\b", "", "a.b", "value", "\n", "re:a", "schlüssel",
)  # fmt: skip
WITH_SEPARATOR = ("a/b", "mlp/~/linear_0", "/a", "b/")


class Either(NamedTuple):
    """Braces: one of several texts."""

    texts: tuple[str, ...]


class Glob(NamedTuple):
    """A glob: its segments, each `**` or a list of literal texts, `*` and braces."""

    segments: tuple[Any, ...]
    rooted: bool


def text_of(glob: Glob) -> str:
    """The glob as a user writes it."""
    written = "/".join(map(_segment_text, glob.segments))
    return f"/{written}" if glob.rooted else written


def _segment_text(segment: Any) -> str:
    if segment == DEEP:
        return DEEP
    return "".join(map(_part_text, segment)) or "{}"


def _part_text(part: Any) -> str:
    if part is STAR:
        return STAR
    if isinstance(part, Either):
        return f"{{{','.join(map(_escaped, part.texts))}}}"
    return _escaped(part)


def _escaped(text: str) -> str:
    text = re.sub(r"([*{}\\,])", r"\\\1", text)
    return f"\\{text}" if text.startswith("re:") else text


def matches(glob: Glob, path: list[str]) -> bool:
    """Whether a glob matches the segments of a path: whole, or at its end if it is not rooted."""
    if glob.rooted:
        return _whole(list(glob.segments), path)
    return any(_whole(list(glob.segments), path[start:]) for start in range(len(path) + 1))


def _whole(segments: list[Any], path: list[str]) -> bool:
    if not segments:
        return not path
    if segments[0] == DEEP:
        return any(_whole(segments[1:], path[start:]) for start in range(len(path) + 1))
    return bool(path) and _text(list(segments[0]), path[0]) and _whole(segments[1:], path[1:])


def _text(parts: list[Any], text: str) -> bool:
    if not parts:
        return not text
    first, *rest = parts
    if first is STAR:
        return any(_text(rest, text[start:]) for start in range(len(text) + 1))
    texts = first.texts if isinstance(first, Either) else (first,)
    return any(text.startswith(its) and _text(rest, text[len(its) :]) for its in texts)


_texts = st.sampled_from([key for key in KEYS if key]) | st.sampled_from(["b", "_", "layers_"])


@st.composite
def _of_segment(draw: Any, segment: str) -> Any:
    """A segment of a glob that matches a segment of a path, or may."""
    cut = draw(st.integers(0, len(segment)))
    start, end = segment[:cut], segment[cut:]
    middle = end[: draw(st.integers(0, len(end)))]
    return draw(
        st.sampled_from([
            [segment],
            [STAR],
            [start, STAR],
            [STAR, end],
            [start[:1], STAR, middle, STAR, end[-1:]],
            [Either((segment, draw(_texts)))],
            [Either((draw(_texts), start, "")), end],
            [Either((draw(_texts), start)), STAR],
            [draw(_texts)],
        ])
    )  # fmt: skip


@st.composite
def globs_of(draw: Any, path: list[str]) -> Glob:
    """A glob that matches a path, or one like it."""
    start = draw(st.integers(0, max(len(path) - 1, 0)))
    segments = [draw(_of_segment(segment)) for segment in path[start:]]
    for _ in range(draw(st.integers(0, 2))):  # `**` for some segments, or for none
        cut = draw(st.integers(0, len(segments)))
        segments[cut : cut + draw(st.integers(0, 2))] = [DEEP]
    segments = [its if its == DEEP else _apart(its) for its in segments]
    if draw(st.booleans()) and draw(st.booleans()):
        segments = segments[: draw(st.integers(1, max(len(segments), 1)))]
    glob = Glob(tuple(segments or [DEEP]), (start == 0) == draw(st.integers(0, 5)) > 0)
    return glob if glob.rooted or text_of(glob)[:1] != "/" else Glob(glob.segments, rooted=True)


def _apart(parts: list[Any]) -> list[Any]:
    """Parts without any that are empty, and with no `*` beside another: `**` is something else."""
    kept = [part for part in parts if part]
    return [
        part for part, before in zip(kept, [None, *kept], strict=False)
        if not (part is STAR and before is STAR)
    ]  # fmt: skip


def trees(keys: tuple[str, ...] = KEYS) -> st.SearchStrategy[Any]:
    """Trees of dicts and lists."""
    return st.recursive(
        st.just(0),
        lambda inner: (
            st.dictionaries(st.sampled_from(keys), inner, max_size=4)
            | st.lists(inner, max_size=3)
            | st.dictionaries(st.integers(0, 12), inner, max_size=2)
        ),
        max_leaves=12,
    )
