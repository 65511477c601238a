"""Spec text: a PartitionSpec in words, one token for each dimension."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jax.sharding import PartitionSpec

from .entries import WHOLE, BadSpec, Choice, Entry, Name, Template

REST = "..."
REPLICATE = "replicate"
NONE = "_"

LONGEST = 1000
"""Characters of a text: what is longer is no spec."""

_NOT_IN_NAMES = re.compile(r"[()\[\]{},;:'\"=]")


def from_text(text: str) -> Template:
    """The template that a text stands for.

    Raises:
        BadSpec: If it cannot be read.
    """
    if len(text) > LONGEST:
        raise BadSpec(f"a spec has {len(text):,} characters, {LONGEST:,} are the most")
    tokens = text.split()
    if not tokens:
        raise BadSpec("a spec is empty", instead=repr(REPLICATE))
    if tokens == [REPLICATE]:
        return Template(())
    if _NOT_IN_NAMES.search(text):
        note = "a token for each dimension, as in 'data _ model+fsdp', or a PartitionSpec"
        raise BadSpec("a spec has brackets, commas or quotes", note, _unwrapped(text))
    entries = [entry(token) for token in tokens if token != REST]
    return Template(tuple(entries), the_rest([token == REST for token in tokens]))


def to_text(spec: PartitionSpec) -> str:
    """The text of a spec, as `from_text` reads it where its names are plain ones."""
    return " ".join(map(_token, spec.partitions)) or REPLICATE


def _token(part: Any) -> str:
    if part is None or part is ...:
        return NONE if part is None else REST
    return part if isinstance(part, str) else "+".join(map(str, part)) or NONE


def the_rest(are_rests: Sequence[bool]) -> int | None:
    """The index of the one `...`, None where there is none.

    Raises:
        BadSpec: If there are several.
    """
    if sum(are_rests) > 1:
        raise BadSpec("a spec has more than one `...`", "how many dimensions each is, is not said")
    return list(are_rests).index(True) if any(are_rests) else None


def entry(token: str) -> Entry:
    """The entry that a token stands for.

    Raises:
        BadSpec: If it cannot be read.
    """
    if token == NONE:
        return WHOLE
    return tuple(_choice(part, token) for part in token.split("|"))


def _choice(part: str, token: str) -> Choice:
    if part == NONE:
        return ()
    return tuple(_name(name, token) for name in part.split("+"))


def _name(name: str, token: str) -> Name:
    bare = name.removesuffix("?")
    if bare == REPLICATE:
        raise BadSpec(f"`{REPLICATE}` stands alone", f"`{NONE}` leaves one dimension whole")
    if bare in {"", NONE, REST} or "?" in bare:
        note = "tokens are as `model`, `_`, `...`, `data+model`, `model|_` or `model?`"
        raise BadSpec(f"the token {token!r} cannot be read", note)
    return Name(bare, name != bare)


def _unwrapped(text: str) -> str:
    """The tokens that a spec written as Python's is likely to mean: `P(None, 'data')`."""
    inner = re.fullmatch(r"\s*(?:P|PartitionSpec)?\s*\(([^()]*)\)\s*", text)
    words = [word.strip(" '\"") for word in inner[1].split(",")] if inner else []
    words = [NONE if word == "None" else word for word in words if word]
    return repr(" ".join(words)) if words else ""
