"""What each way to clip would cost: operations, bytes, memory and time, from what a loss takes.

A machine does so many operations in the time in which it moves a byte: few if the byte is near, in
a cache, many if it is in memory. With these two numbers the cost of a way is that of its
operations and of what it moves. `benchmarks/costs.py` holds that against real times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax

from .ghost.verdicts import GHOST as IS_GHOST
from .ghost.work import LeafWork, LossWork, Number

MATERIALIZE, CHUNKED = "materialize", "chunked"
GHOST, TWO_PASS = "ghost", "two_pass"

IN_TWO = (CHUNKED, TWO_PASS)
"""Those that take one gradient of the reweighted losses, after the norms."""

MOST_AT_ONCE = 2**29
"""What gradients of single examples take at a time at most, where no memory is given."""


_ALL_FAR = 4
"""How many times a cache must be filled so that what is moved is never there."""


class Machine(NamedTuple):
    """How a kind of device works.

    Attributes:
        near: Operations in the time of moving a byte that is in a cache.
        far: Those for a byte that is not.
        cache: What a cache holds.
        step: Operations in the time that a further chunk takes for each step of a loss.
        loops: How much more a convolution takes inside of a loop.
    """

    near: Number
    far: Number
    cache: Number
    step: Number
    loops: Number


CPU = Machine(near=4, far=28, cache=2**25, step=5e5, loops=6)
"""Measured on two cores, by `benchmarks/costs.py`."""

ELSEWHERE = Machine(near=16, far=16, cache=math.inf, step=1e9, loops=1)
"""Accelerators do more operations for a byte, and idle where there is little work at once."""


class Estimate(NamedTuple):
    """What a way to clip a batch would take.

    Attributes:
        method: The method.
        chunk_size: How many examples are differentiated at once, None for all.
        flops: Operations.
        bytes: What is moved.
        memory: What is held at a time, beside parameters and batch.
        cost: The time, in that of an operation.
    """

    method: str
    chunk_size: int | None
    flops: Number
    bytes: Number
    memory: Number
    cost: Number


def machine() -> Machine:
    """The kind of device that is used by default."""
    return CPU if jax.default_backend() == "cpu" else ELSEWHERE


class Taken(NamedTuple):
    """What parameters take, of one example, by one method.

    Attributes:
        flops: Operations of norms and of the sum.
        bytes: What is moved for them.
        formed: The bytes of gradients of single examples.
        kept: The bytes of what stands for others.
    """

    flops: Number
    bytes: Number
    formed: Number
    kept: Number


class Estimates:
    """What each way to clip the gradients of a loss takes.

    Args:
        work: What the loss takes.
        size: The number of examples.
        on: The machine.
    """

    def __init__(self, work: LossWork, size: int, on: Machine) -> None:
        self._work, self._size, self._on = work, size, on
        self._params = sum(leaf.size for leaf in work.leaves)
        self._sums = {
            method: _together([taken(leaf, method) for leaf in work.leaves])
            for method in (MATERIALIZE, GHOST, TWO_PASS)
        }
        self._sums[CHUNKED] = self._sums[MATERIALIZE]

    def of(self, method: str, chunk_size: int | None) -> Estimate:
        """What one way takes."""
        its, work, on = self._sums[method], self._work, self._on
        chunk = min(chunk_size or self._size, self._size)
        chunks = math.ceil(self._size / chunk)
        held = work.forward.held
        memory = chunk * (held + its.formed + its.kept) + self._params * (1 + (chunks > 1))
        flops = self._size * (work.forward.flops + work.backward + its.flops)
        moved = self._size * (3 * work.forward.bytes + its.bytes)
        if chunks > 1 and work.forward.convolves:
            flops *= on.loops
        cost = flops + self._moving(memory) * moved
        if chunks > 1:  # each reads the parameters and adds to the sum
            of_params = 5 * self._params * self._moving(memory)
            cost += chunks * (on.step * work.forward.steps + of_params)
        if method in IN_TWO:
            again = 2 * self._size * held
            more = self._size * (work.forward.flops + work.backward + work.used)
            flops, moved = flops + more, moved + self._size * 3 * work.forward.bytes
            cost += more + self._moving(again) * self._size * 3 * work.forward.bytes
            memory = max(memory, again + self._params)
        return Estimate(method, chunk_size, flops, moved, memory, cost)

    def formed_at_once(self, method: str, chunk_size: int | None) -> Number:
        """The bytes of gradients of single examples that are held at a time."""
        return min(chunk_size or self._size, self._size) * self._sums[method].formed

    def all(self, methods: tuple[str, ...], chunk_size: int | None = None) -> Iterator[Estimate]:
        """What all ways take by these methods, in chunks of a given size, or of any."""
        sizes = [chunk_size]
        if chunk_size is None:
            sizes += [1 << power for power in range(max(self._size - 1, 1).bit_length())]
        for method in methods:
            yield from (self.of(method, its) for its in sizes)

    def _moving(self, memory: Number) -> Number:
        """Operations in the time of moving a byte, where so much is in use."""
        its = self._on
        beyond = (memory / its.cache - 1) / (_ALL_FAR - 1)
        return its.near + (its.far - its.near) * min(max(beyond, 0), 1)


def taken(leaf: LeafWork, method: str) -> Taken:
    """What one parameter takes, of one example, by a method."""
    if method == MATERIALIZE or not leaf.recognised:
        return Taken(leaf.formed, (3 + 2 * leaf.added) * leaf.size, leaf.size, 0)
    if method == TWO_PASS and leaf.alone:
        if leaf.how == IS_GHOST:
            return Taken(leaf.normed, leaf.spread + leaf.pairs, 0, 0)
        return Taken(leaf.formed, 2 * leaf.size + leaf.spread, 0, 0)
    if leaf.how == IS_GHOST:
        summed = 0 if method == TWO_PASS else leaf.formed
        return Taken(leaf.normed + summed, 2 * leaf.spread + leaf.pairs, 0, leaf.kept)
    return Taken(leaf.formed, 3 * leaf.size + 2 * leaf.spread, leaf.size, leaf.kept)


def _together(parts: list[Taken]) -> Taken:
    return Taken(*map(sum, zip(*parts, strict=True))) if parts else Taken(0, 0, 0, 0)
