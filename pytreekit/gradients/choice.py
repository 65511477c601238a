"""Which method clips, and in which chunks, where that is left open."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from ..batching.manual import in_shard_map

MATERIALIZE, CHUNKED, GHOST, AUTO = "materialize", "chunked", "ghost", "auto"

METHODS = (AUTO, MATERIALIZE, CHUNKED, GHOST)

ON_CPU, ELSEWHERE = 2**24, 2**29
"""What gradients of single examples should take at a time.

On a CPU, chunks of that size took half the time of larger batches in `benchmarks/per_example.py`:
they stay in its caches. Other devices want more work at once; there it is a guess.
"""


class Choice(NamedTuple):
    """A method, how many examples it differentiates at once (None for all), and why."""

    method: str
    chunk_size: int | None
    reason: str


def chosen(
    method: str, chunk_size: int | None, *, size: Any, bytes_each: int, sharded: bool = False
) -> Choice:
    """What is to be done with a call.

    Args:
        method: One of `METHODS`.
        chunk_size: How many examples to differentiate at once, None where that is left open.
        size: The number of examples.
        bytes_each: What the gradient of one takes.
        sharded: Whether the batch is split over an Explicit mesh axis, which no chunk can be.
    """
    if method == GHOST:
        return _ghost(chunk_size, sharded=sharded)
    if method == MATERIALIZE or chunk_size is not None:
        return Choice(CHUNKED if method == CHUNKED else MATERIALIZE, chunk_size, "")
    most = ON_CPU if jax.default_backend() == "cpu" else ELSEWHERE
    name = CHUNKED if method == CHUNKED else MATERIALIZE
    told = f"the gradients of {size} examples take {size * bytes_each:,} bytes"
    if sharded or size * bytes_each <= 2 * most:
        return Choice(name, None, told)
    at_once = max(most // bytes_each, 1)
    chunk = 1 << at_once.bit_length() - 1
    return Choice(name, chunk, f"{told}, those of {chunk} no more than {chunk * bytes_each:,}")


def _ghost(chunk_size: int | None, *, sharded: bool) -> Choice:
    """Ghost clipping, where it is possible."""
    if sharded:
        reason = "ghost clipping does not know batches that are sharded over an Explicit axis"
    elif in_shard_map():
        reason = "ghost clipping does not know jax.shard_map"
    else:
        return Choice(GHOST, chunk_size, "")
    return Choice(MATERIALIZE, chunk_size, reason)
