"""Which method clips, and in which chunks, where that is left open."""

from __future__ import annotations

from typing import Any, NamedTuple

MATERIALIZE, CHUNKED, AUTO = "materialize", "chunked", "auto"

METHODS = (AUTO, MATERIALIZE, CHUNKED)

MOST_BYTES = 2**26
"""What gradients of single examples may take at once, where nobody says how many there are to be."""


class Choice(NamedTuple):
    """A method, how many examples it differentiates at once (None for all), and why."""

    method: str
    chunk_size: int | None
    reason: str


def chosen(
    method: str, chunk_size: int | None, *, size: Any, bytes_each: int, whole: bool
) -> Choice:
    """What is to be done with a call.

    Args:
        method: One of `METHODS`.
        chunk_size: How many examples to differentiate at once, None where that is left open.
        size: The number of examples.
        bytes_each: What the gradient of one takes.
        whole: Whether there is one bound for the whole gradient.
    """
    if method == MATERIALIZE or (method == AUTO and chunk_size is not None):
        return Choice(MATERIALIZE, chunk_size, "")
    if method == CHUNKED and chunk_size is not None:
        return Choice(CHUNKED, chunk_size, "")
    fits = size * bytes_each <= MOST_BYTES
    told = f"gradients of {size} examples take {size * bytes_each:,} bytes"
    if method == AUTO and fits:
        return Choice(MATERIALIZE, None, told)
    chunk = 1 << max(MOST_BYTES // max(bytes_each, 1), 1).bit_length() - 1
    name = CHUNKED if whole or method == CHUNKED else MATERIALIZE
    return Choice(name, min(chunk, max(size, 1)), f"{told}, of {chunk} no more than {MOST_BYTES:,}")
