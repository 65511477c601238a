"""A pattern over the text of key paths: a glob of whole segments, or a regular expression."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

from ..show import values
from .globs import BadPattern, Glob, globs, joined

REGEX = "re:"
"""How the text of a pattern begins that is a regular expression."""

LONGEST = 10_000
"""Characters of a pattern: one that is longer is no pattern but a mistake."""


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

    def below(self, prefix: Prefix) -> Pattern:
        """The same pattern for what lies below the places of a prefix."""
        if self.regex is not None:
            places = joined(prefix.globs, self.places) if self.under else prefix.globs
            return dataclasses.replace(self, under=prefix.text + self.under, places=places)
        inner = self.text if self.text.startswith("/") else f"/**/{self.text}"
        text = (prefix.text + inner.removesuffix("/")) or "/"
        return Pattern(text, joined(prefix.globs, self.globs))


class Prefix(NamedTuple):
    """The path of a part of a tree from the root: a glob, as text that begins with `/`."""

    text: str
    globs: tuple[Glob, ...]


def prefix(path: Any, separators: str) -> Prefix:
    """A prefix from its text.

    Raises:
        BadPattern: If it cannot be read.
    """
    if not isinstance(path, str):
        raise BadPattern(f"a prefix must be a str, this is {values.kind(path)}")
    text = "/" + path.removeprefix("/")
    return Prefix(text.removesuffix("/"), globs(text, separators))


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
        return Pattern(REGEX + written(pattern), regex=pattern)
    if not isinstance(pattern, str):
        kind = values.kind(pattern)
        raise BadPattern(f"a pattern must be a str or a compiled regex, this is {kind}")
    if len(pattern) > LONGEST:
        raise BadPattern(f"the pattern has {len(pattern):,} characters, {LONGEST:,} are the most")
    if pattern.startswith(REGEX):
        return Pattern(pattern, regex=compiled(pattern.removeprefix(REGEX)))
    return Pattern(pattern, globs(pattern, separators))


_FLAGS = re.compile(r"\(\?([aimsux]+)\)")


def written(regex: re.Pattern[str], around: str = "{}") -> str:
    """A compiled regular expression as text, with its flags in it, and with something around it."""
    names = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
    letters = "".join(letter for letter, flag in names.items() if regex.flags & flag)
    inside = _FLAGS.match(regex.pattern)
    text = regex.pattern[inside.end() :] if inside else regex.pattern
    return f"(?{letters})" * bool(letters) + around.replace("{}", text)


def compiled(text: str) -> re.Pattern[str]:
    """A regular expression from its text."""
    try:
        return re.compile(text)
    except re.error as error:
        at = "" if error.pos is None else f" at character {error.pos}"
        raise BadPattern(f"the regex cannot be read: {error.msg}{at}") from None
    except (RecursionError, OverflowError, MemoryError):
        raise BadPattern("the regex cannot be read: it is nested too deep, or too large") from None
