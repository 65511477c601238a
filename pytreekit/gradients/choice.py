"""Which method clips, and in which chunks, where that is left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from ..batching.call import Call
from ..batching.leaves import leaves
from ..batching.manual import in_shard_map
from ..batching.shardings import mesh_axes
from ..faults import Fault
from ..show import values
from .estimates import (
    CHUNKED,
    GHOST,
    IN_TWO,
    MATERIALIZE,
    MOST_AT_ONCE,
    TWO_PASS,
    Estimate,
    Estimates,
    machine,
)
from .ghost.work import Number
from .reading import Reading

AUTO = "auto"

METHODS = (AUTO, MATERIALIZE, CHUNKED, GHOST, TWO_PASS)

READ = (GHOST, TWO_PASS)
"""Those that take what they need from the jaxpr of the loss."""

ON_CPU, ELSEWHERE = 2**24, 2**29
"""What gradients of single examples should take at a time, where the loss cannot be read."""

SO_LITTLE = 2**16
"""Gradients of so few bytes are taken side by side: to read the loss would take longer."""


class Choice(NamedTuple):
    """A method, how many examples it differentiates at once (None for all), and why.

    Attributes:
        method: One of `METHODS`, not `"auto"`.
        chunk_size: How many examples it differentiates at once, None for all.
        reason: Why that, `""` where it was asked for.
        estimates: What it was chosen from: the best way by each method.
        faults: PTK409, if the method does not go with what the loss does.
    """

    method: str
    chunk_size: int | None
    reason: str
    estimates: tuple[Estimate, ...] = ()
    faults: tuple[Fault, ...] = ()


class Asked(NamedTuple):
    """What is asked of a call.

    Attributes:
        method: One of `METHODS`.
        chunk_size: How many examples to differentiate at once, None where that is left open.
        memory: How many bytes it should take, None where that is left open.
        several: Whether an example has several norms.
    """

    method: str
    chunk_size: int | None
    memory: int | None = None
    several: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the method or the size of the chunks is to be chosen."""
        by_size = self.method == CHUNKED or self.memory is not None
        return self.method == AUTO or (self.chunk_size is None and by_size)


def chosen(
    asked: Asked,
    read: Callable[[], Reading],
    *,
    size: Any,
    bytes_each: int,
    sharded: bool = False,
) -> Choice:
    """What is to be done with a call.

    Args:
        asked: What is asked for.
        read: Reads the loss.
        size: The number of examples.
        bytes_each: What the gradient of one takes.
        sharded: Whether the batch is split over an Explicit mesh axis, which no chunk can be.
    """
    no_ghost = no_ghosts(sharded=sharded)
    if no_ghost and asked.method in READ:
        name = MATERIALIZE if asked.method == GHOST else CHUNKED
        return Choice(name, asked.chunk_size, no_ghost)
    if no_ghost:
        return _unread(asked, size=size, bytes_each=bytes_each, whole=sharded)
    if not asked.is_open and asked.method != CHUNKED:
        return Choice(asked.method, asked.chunk_size, "")
    is_known = isinstance(size, int)
    if not is_known or (asked.method == AUTO and size * bytes_each <= SO_LITTLE):
        return _unread(asked, size=size, bytes_each=bytes_each)
    return _from(read(), asked, size=size, bytes_each=bytes_each)


def _from(reading: Reading, asked: Asked, *, size: int, bytes_each: int) -> Choice:
    """What is to be done with a loss that was read."""
    faults = reading.faults if asked.method in IN_TWO else ()
    if reading.work is None or faults or (reading.faults and asked.method == AUTO):
        found = _unread(asked, size=size, bytes_each=bytes_each)
        why = reading.failed or ", ".join(fault.title for fault in reading.faults)
        return found._replace(reason=f"{why}; {found.reason}", faults=faults)
    if not asked.is_open:
        return Choice(asked.method, asked.chunk_size, "")
    methods = _methods(asked, effects=reading.work.effects)
    return _best(asked, Estimates(reading.work, size, machine()), methods)


def _methods(asked: Asked, *, effects: bool) -> tuple[str, ...]:
    """What can be chosen from. Two evaluations of a loss would have its effects twice."""
    if asked.method != AUTO:
        return (asked.method,)
    once = asked.several or effects
    return (GHOST, MATERIALIZE) if once else (GHOST, TWO_PASS, MATERIALIZE, CHUNKED)


def _best(asked: Asked, estimates: Estimates, methods: tuple[str, ...]) -> Choice:
    """The way that costs least of those that fit, or the smallest if none does."""

    def fits(its: Estimate) -> bool:
        if asked.memory is not None:
            return its.memory <= asked.memory
        return estimates.formed_at_once(its.method, its.chunk_size) <= MOST_AT_ONCE

    ways = {method: list(estimates.all((method,), asked.chunk_size)) for method in methods}
    best = []
    for its in ways.values():
        fitting = [way for way in its if fits(way)]
        best.append(min(fitting, key=_cost) if fitting else min(its, key=_memory))
    fitting = [way for way in best if fits(way)]
    found = min(fitting, key=_cost) if fitting else min(best, key=_memory)
    told = sorted(best, key=_cost)
    reason = f"it is estimated to take {found.memory / 2**20:,.1f} MiB"
    if not fitting:
        reason += ", more than it should, and all else takes more"
    elif len(told) > 1:
        others = [f"{its.method!r} {its.cost / found.cost:.2f} times" for its in told
                  if its is not found]  # fmt: skip
        reason += f", and of its time {', '.join(others)}"
    return Choice(found.method, found.chunk_size, reason, tuple(told))


def _cost(its: Estimate) -> Number:
    return its.cost


def _memory(its: Estimate) -> tuple[Number, Number]:
    return its.memory, its.cost


def _unread(asked: Asked, *, size: Any, bytes_each: int, whole: bool = False) -> Choice:
    """The method without a look at the loss, in chunks where gradients would take much.

    Args:
        asked: What is asked for.
        size: The number of examples.
        bytes_each: What the gradient of one takes.
        whole: Whether no chunks can be taken.
    """
    name = asked.method if asked.method in (CHUNKED, *READ) else MATERIALIZE
    if asked.chunk_size is not None or (asked.method == MATERIALIZE and asked.memory is None):
        return Choice(name, asked.chunk_size, "")
    most = ON_CPU if jax.default_backend() == "cpu" else ELSEWHERE
    most = most if asked.memory is None else min(asked.memory // 2, most)
    told = f"the gradients of {size} examples take {size * bytes_each:,} bytes"
    if whole or size * bytes_each <= 2 * most:
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
