"""What the shape of a statistic says of it: which dimensions of its parameter it has kept."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from jax.sharding import PartitionSpec

from ...show import values
from ..resolve import axes_by_dimension, normal

Shape: TypeAlias = tuple[Any, ...]

MOST_READINGS = 64
"""Readings of one shape that are looked at: thirty equal dimensions have millions."""

ITS = "its parameter"
SINGLE = "one element"


class Reading(NamedTuple):
    """One way to read the shape of a statistic.

    Attributes:
        dims: For each of its dimensions the one of the parameter that it is, None for none.
        how: In words, of `its parameter`.
    """

    dims: tuple[int | None, ...]
    how: str

    def spec(self, spec: PartitionSpec) -> PartitionSpec:
        """The spec of the statistic, given that of the parameter."""
        axes = dict(enumerate(axes_by_dimension(spec)))
        return normal([() if dim is None else axes.get(dim, ()) for dim in self.dims])


@functools.lru_cache(4096)
def readings(shape: Shape, of: Shape, dim: int | None = None) -> tuple[Reading, ...]:
    """Every way to read a shape as that of a statistic.

    Args:
        shape: The shape of the statistic.
        of: That of the parameter.
        dim: The dimension that it is the statistic of, where its place says so.
    """
    return tuple(itertools.islice(_readings(shape, of, dim), MOST_READINGS + 1))


def _readings(shape: Shape, of: Shape, dim: int | None) -> Iterator[Reading]:
    rank = len(of)
    if dim is not None and _is_of_dimension(shape, of, dim):
        kept = (dim,) if len(shape) == 1 else _where(its == dim for its in range(rank))
        yield Reading(kept, f"dimension {dim} of {ITS}")
    elif shape == of:
        yield Reading(tuple(range(rank)), ITS)
    elif all(size == 1 for size in shape):
        yield Reading((None,) * len(shape), SINGLE)
    elif 0 in shape:
        yield Reading((None,) * len(shape), "no elements")
    else:
        yield from _changed(shape, of)


def _is_of_dimension(shape: Shape, of: Shape, dim: int) -> bool:
    alone = tuple(size if its == dim else 1 for its, size in enumerate(of))
    return shape in {(of[dim],), alone}


def _changed(shape: Shape, of: Shape) -> Iterator[Reading]:
    """The readings of a shape that has lost or gained dimensions."""
    rank = len(of)
    if len(shape) == rank:
        kept = _where(size == its for size, its in zip(shape, of, strict=True))
        if all(size == 1 or kept[place] is not None for place, size in enumerate(shape)):
            yield Reading(kept, _lost(kept, rank, f"{ITS} with 1 for"))
    elif len(shape) < rank:
        for places in _embeddings(shape, of):
            yield Reading(places, _lost(places, rank, f"{ITS} without"))
    elif len(shape) == rank + 1:
        if shape[1:] == of:
            yield Reading((None, *range(rank)), f"{ITS} with one more dimension in front")
        if shape[:-1] == of:
            yield Reading((*range(rank), None), f"{ITS} with one more dimension at the end")


def _where(kept: Iterator[bool] | Any) -> tuple[int | None, ...]:
    return tuple(place if its else None for place, its in enumerate(kept))


def _lost(kept: Sequence[int | None], rank: int, how: str) -> str:
    lost = [str(dim) for dim in range(rank) if dim not in kept]
    return f"{how} dimension{'s' * (len(lost) > 1)} {values.listing(lost)}"


def _embeddings(shape: Shape, of: Shape, start: int = 0) -> Iterator[tuple[int, ...]]:
    """Every way in which a shape is another one with some dimensions gone."""
    if not shape:
        yield ()
        return
    for place in range(start, len(of) - len(shape) + 1):
        if of[place] == shape[0] and _is_within(shape[1:], of[place + 1 :]):
            for rest in _embeddings(shape[1:], of, place + 1):
                yield (place, *rest)


def _is_within(shape: Shape, of: Shape) -> bool:
    """Whether there is such a way, so that no time is lost where there is none."""
    left = iter(of)
    return all(size in left for size in shape)


def by_spec(found: Sequence[Reading], spec: PartitionSpec) -> dict[PartitionSpec, Reading]:
    """The specs that readings give, each with the first that gives it."""
    given: dict[PartitionSpec, Reading] = {}
    for reading in found:
        given.setdefault(reading.spec(spec), reading)
    return given


def is_settled(found: Sequence[Reading], given: dict[PartitionSpec, Reading]) -> bool:
    """Whether readings give one spec; where there are too many, not all were looked at."""
    return len(given) == 1 and (len(found) <= MOST_READINGS or PartitionSpec() in given)
