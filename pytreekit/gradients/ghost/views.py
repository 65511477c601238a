"""Entries of a parameter in another order or shape, or a part of them: where each one comes from.

A view has the norm that the entries have, so that a gradient with regard to it is as good as one
with regard to the parameter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Dim: TypeAlias = tuple[int, int]
"""The size of a dimension, and how far apart its entries are in the flat parameter."""


class View(NamedTuple):
    """Entries of a parameter, each of them once.

    Attributes:
        dims: The dimensions of the view.
        offset: Where its first entry is in the flat parameter.
    """

    dims: tuple[Dim, ...]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""
        return tuple(size for size, _ in self.dims)

    @property
    def size(self) -> int:
        """The number of entries."""
        return math.prod(self.shape)

    def transposed(self, permutation: Sequence[int]) -> View:
        """The view with its dimensions in another order."""
        return self._replace(dims=tuple(self.dims[at] for at in permutation))

    def reversed(self, dimensions: Iterable[int]) -> View:
        """The view with some dimensions in reverse."""
        dims, offset = list(self.dims), self.offset
        for at in dimensions:
            size, stride = dims[at]
            dims[at], offset = (size, -stride), offset + (size - 1) * stride
        return View(tuple(dims), offset)

    def sliced(self, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> View:
        """Every so many entries along each dimension, from a start on."""
        rows = list(zip(self.dims, starts, sizes, steps, strict=True))
        offset = self.offset + sum(stride * start for (_, stride), start, _, _ in rows)
        return View(tuple((size, stride * step) for (_, stride), _, size, step in rows), offset)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The view in another shape, None if the entries are too far apart for that."""
        if math.prod(shape) != self.size or not self.size:
            return None
        left, dims = list(reversed(merged(self.dims))), []
        for size in reversed(shape):
            whole, stride = left[0] if left else (1, 1)
            if size == 1:
                dims.append((1, 1))
            elif whole % size:
                return None
            else:
                dims.append((size, stride))
                left[:1] = [(whole // size, stride * size)] if whole > size else []
        return self._replace(dims=tuple(reversed(dims)))

    def undone(self, gradient: Any, shape: tuple[int, ...]) -> Array:
        """A gradient with regard to the view as one with regard to the parameter.

        Args:
            gradient: That of the view.
            shape: The shape of the parameter.
        """
        several = [at for at, (size, _) in enumerate(self.dims) if size != 1]
        view = self.transposed(several)  # how far apart a single entry is says nothing
        gradient = gradient.reshape(view.shape)
        back = [at for at, (_, stride) in enumerate(view.dims) if stride < 0]
        gradient = jnp.flip(gradient, back) if back else gradient
        view = view.reversed(back)
        order = sorted(range(len(view.dims)), key=lambda at: -view.dims[at][1])
        gradient, dims = gradient.transpose(order), view.transposed(order).dims
        if self.size == math.prod(shape):
            return gradient.reshape(shape)
        gradient, length = gradient[..., None], 1
        for size, stride in reversed(dims):
            gradient = _padded(gradient, 0, stride - length)
            length = (size - 1) * stride + length
            gradient = gradient.reshape(*gradient.shape[:-2], -1)[..., :length]
        rest = math.prod(shape) - view.offset - length
        return _padded(gradient, view.offset, rest).reshape(shape)

    def box(self, shape: Sequence[int]) -> tuple[range, ...] | None:
        """Which indices the entries have along each dimension of the parameter, if that is plain.

        Args:
            shape: The shape of the parameter.
        """
        if not self.size:
            return None
        view = self.reversed([at for at, (_, stride) in enumerate(self.dims) if stride < 0])
        strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        starts = np.unravel_index(view.offset, shape) if shape else ()
        spans = [0] * len(shape)
        for size, stride in merged(view.dims):
            for at, whole in _split(size, stride, strides, shape):
                spans[at] += whole
        rows = list(zip(starts, spans, shape, strict=True))
        fits = all(start + span < size for start, span, size in rows)
        return tuple(range(start, start + span + 1) for start, span, _ in rows) if fits else None


def whole(shape: Sequence[int]) -> View:
    """All entries of a parameter, as they are."""
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    return View(tuple(zip(shape, strides, strict=True)))


def merged(dims: Iterable[Dim]) -> tuple[Dim, ...]:
    """The fewest dimensions that give the same entries in the same order."""
    found: list[Dim] = []
    for size, stride in dims:
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = found[-1][0] * size, stride
        else:
            found.append((size, stride))
    return tuple(found)


def apart(views: Sequence[View], shape: Sequence[int]) -> bool:
    """Whether no two views share an entry, as far as can be told."""
    boxes = [view.box(shape) for view in views]
    return all(
        one is not None
        and other is not None
        and any(_disjoint(*pair) for pair in zip(one, other, strict=True))
        for one, other in itertools.combinations(boxes, 2)
    )


def _disjoint(one: range, other: range) -> bool:
    return one.stop <= other.start or other.stop <= one.start


def _split(
    size: int, stride: int, strides: Sequence[int], shape: Sequence[int]
) -> list[tuple[int, int]]:
    """How far a dimension of a view reaches along dimensions of the parameter."""
    at = next(at for at, its in enumerate(strides) if its <= stride)
    reach, end = (size - 1) * stride, strides[at] * shape[at]
    if stride % strides[at] == 0 and reach < end:
        return [(at, reach // strides[at])]
    if stride == strides[at] and size % shape[at] == 0:  # all of this one, and of those before
        return [(at, shape[at] - 1), *_split(size // shape[at], end, strides, shape)]
    return [(its, shape[its] - 1) for its in range(len(shape))]  # it may be anywhere


def _padded(array: Array, before: int, after: int) -> Array:
    none = [(0, 0, 0)] * (array.ndim - 1)
    return lax.pad(array, jnp.zeros((), array.dtype), [*none, (before, after, 0)])
