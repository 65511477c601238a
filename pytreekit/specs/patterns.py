"""A pattern over the text of key paths: a glob of whole segments, or a regular expression."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

REGEX = "re:"
"""How the text of a pattern begins that is a regular expression."""

MOST_ALTERNATIVES = 10_000
"""What the braces of one pattern may expand to."""

LONGEST = 10_000
"""Characters of a pattern: one that is longer is no pattern but a mistake."""

DEEPEST_BRACES = 50

class BadPattern(ValueError):
    """A pattern that cannot be read: why, and what to write instead."""

    def __init__(self, fact: str, note: str = "") -> None:
        super().__init__(fact)
        self.fact, self.note = fact, note


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

    def matches(self, text: str) -> bool:
        """Whether it matches a segment of a path, in time linear in both."""
        first, *middle, last = self.parts if len(self.parts) > 1 else (*self.parts, "")
        if len(self.parts) == 1:
            return text == first
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


@dataclasses.dataclass(frozen=True)
class Pattern:
    """The pattern of a rule.

    Attributes:
        text: It as the user wrote it; a compiled regular expression as `re:...`.
        globs: What it expands to, nothing for a regular expression.
        regex: The regular expression, which is searched; None for a glob.
        under: The prefix that a regular expression is bound below, `""` for the whole tree.
        places: What that prefix expands to.
    """

    text: str
    globs: tuple[Glob, ...] = ()
    regex: re.Pattern[str] | None = None
    under: str = ""
    places: tuple[Glob, ...] = ()

    @property
    def takes_all(self) -> bool:
        """Whether it matches every path there can be: `**`."""
        return any(not glob.rooted and not glob.segments for glob in self.globs)

    def below(self, prefix: str, separators: str) -> Pattern:
        """The same pattern for what lies below the places of a prefix, which binds at the root.

        Raises:
            BadPattern: If the prefix cannot be read.
        """
        prefix = "/" + prefix.removeprefix("/")
        places = globs(prefix, separators)
        if self.regex is None:
            text = prefix + (self.text if self.text.startswith("/") else f"/**/{self.text}")
            return Pattern(text, _joined(places, self.globs))
        if self.under:
            places = _joined(places, self.places)
        return dataclasses.replace(self, under=prefix + self.under, places=places)


def parsed(pattern: Any, separators: str = "/") -> Pattern:
    """A pattern as it is written in a rule.

    Args:
        pattern: A glob, `"re:..."`, or a compiled regular expression.
        separators: The characters that cut a path into segments.

    Raises:
        BadPattern: If it cannot be read.
    """
    if isinstance(pattern, re.Pattern):
        if not isinstance(pattern.pattern, str):
            raise BadPattern("a compiled regex must be of str, this is of bytes")
        return Pattern(REGEX + pattern.pattern, regex=pattern)
    if not isinstance(pattern, str):
        kind = "None" if pattern is None else f"a {type(pattern).__name__}"
        raise BadPattern(f"a pattern must be a str or a compiled regex, this is {kind}")
    if len(pattern) > LONGEST:
        raise BadPattern(f"the pattern has {len(pattern):,} characters, {LONGEST:,} are the most")
    if pattern.startswith(REGEX):
        return Pattern(pattern, regex=compiled(pattern.removeprefix(REGEX)))
    return Pattern(pattern, globs(pattern, separators))


def compiled(text: str) -> re.Pattern[str]:
    """A regular expression from its text."""
    try:
        return re.compile(text)
    except re.error as error:
        at = "" if error.pos is None else f" at character {error.pos}"
        raise BadPattern(f"the regex cannot be read: {error.msg}{at}") from None
    except (RecursionError, OverflowError, MemoryError):
        raise BadPattern("the regex cannot be read: it is nested too deep, or too large") from None


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


def _joined(places: Sequence[Glob], inner: Sequence[Glob]) -> tuple[Glob, ...]:
    """Globs of what lies below places: each of these after each of those."""
    return tuple(
        _merged(
            (*place.segments, *(() if glob.rooted else (DEEP,)), *glob.segments),
            rooted=place.rooted,
        )
        for place in places
        for glob in inner
    )
