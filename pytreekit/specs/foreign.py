"""Lists of regular expressions as other libraries have them, as rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..show import values as shown
from .globs import BadPattern
from .patterns import REGEX, compiled, written
from .reading import Row, bad_rule

AROUND = {"search": "{}", "match": r"\A(?:{})", "fullmatch": r"\A(?:{})\Z"}
"""What is put around an expression, so that a search for it does what each of these does."""


def from_regexes(pairs: Any, how: Any) -> Any:
    """Rows for `reading.read` of pairs of a regular expression and a value.

    Args:
        pairs: The pairs, or what `reading.read` will tell to be none.
        how: `"search"`, `"match"` or `"fullmatch"`.
    """
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        return pairs
    return [_row(pair, f"rules[{number}]", how) for number, pair in enumerate(pairs)]


def _row(pair: Any, place: str, how: str) -> Any:
    if not isinstance(pair, tuple | list) or len(pair) != len(("pattern", "value")):
        return pair
    regex, value = pair
    try:
        return Row(_pattern(regex, AROUND[how]), value)
    except BadPattern as bad:
        return bad_rule(place, shown.spec(regex), bad.fact, bad.note)


def _pattern(regex: Any, around: str) -> str:
    if isinstance(regex, str):
        regex = compiled(regex)
    if not isinstance(regex, re.Pattern) or not isinstance(regex.pattern, str):
        raise BadPattern(f"a regex must be a str, this is {shown.kind(regex)}")
    if regex.flags & re.VERBOSE:
        around = around.replace("{}", "{}\n")  # it may end in a comment
    return REGEX + written(regex, around)
