"""Which method clips, and in which chunks, where that is left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from ..batching.call import Call
from ..batching.leaves import leaves
from ..batching.manual import in_shard_map
from ..batching.shardings import mesh_axes
from ..faults import Fault
from ..show import values

AUTO, MATERIALIZE, CHUNKED = "auto", "materialize", "chunked"
GHOST, TWO_PASS = "ghost", "two_pass"

METHODS = (AUTO, MATERIALIZE, CHUNKED, GHOST, TWO_PASS)

IN_TWO = (CHUNKED, TWO_PASS)
"""Those that take one gradient of the reweighted losses, after the norms."""

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
    if method in (GHOST, TWO_PASS):
        reason = no_ghosts(sharded=sharded)
        if not reason:
            return Choice(method, chunk_size, "")
        return Choice(MATERIALIZE if method == GHOST else CHUNKED, chunk_size, reason)
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


def check_choice(name: str, value: Any, known: Sequence[str]) -> list[Fault]:
    """PTK001: an option is one of a few words."""
    if value in known:
        return []
    fact = f"{name} must be one of {values.listing([repr(its) for its in known])}"
    return [Fault("PTK001", "", "", name, "", values.spec(value), fact=fact)]


def is_sharded(call: Call) -> bool:
    """Whether the batch of a call is split over an Explicit mesh axis."""
    return any(
        mesh_axes(leaf.bound.leaf, leaf.axis) is not None
        for leaf in leaves(call)
        if leaf.axis is not None and not leaf.is_split
    )


def no_ghosts(*, sharded: bool) -> str:
    """Why gradients are taken side by side after all, `""` for no reason."""
    if sharded:
        return "ghost clipping does not know batches that are sharded over an Explicit axis"
    return "ghost clipping does not know jax.shard_map" if in_shard_map() else ""
