"""A batch in chunks, one after the other, so that temporaries take the memory of one chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..faults import Fault
from ..show import values
from ..specs.finding import Finding
from .manual import zeros_like

Run = Callable[[list[Any], Any], Any]
"""Maps so many examples, given as the slices of all mapped leaves; outputs have their axis at 0."""


class Fold(NamedTuple):
    """What is made of a batch where its outputs are not to be held all at once.

    Attributes:
        reduce: Makes of the outputs of many examples a state, and what is kept of each example.
        merge: Makes one state of two; zeros must leave the other as it is.
    """

    reduce: Callable[[Any], tuple[Any, Any]]
    merge: Callable[[Any, Any], Any]


def check_chunks(chunk_size: Any, axis_name: Any) -> list[Finding]:
    """PTK001 and PTK110: chunk_size must be a positive int, and go without axis_name."""
    if chunk_size is None:
        return []
    code, where = "PTK001", "chunk_size"
    if type(chunk_size) is not int or chunk_size < 1:
        fact, note = "chunk_size must be an int of 1 or more, or None", ""
    elif axis_name is not None:
        code, fact = "PTK110", ""
        note = "a collective over axis_name would see one chunk, not the batch"
    else:
        return []
    return [Finding(Fault(code, "", "", where, "", values.spec(chunk_size), fact=fact, note=note))]


class Chunks:
    """The chunks of a batch.

    Args:
        axes: The axis of each leaf.
        size: The size of the batch: an int, or symbolic.
        chunk: That of a chunk, less than `size`; what remains is a smaller chunk of its own.
        peel: Whether the last chunk is to run by itself, though nothing remains.
        remat: Whether a gradient computes each chunk again rather than keep what it needs of it.
    """

    def __init__(
        self, axes: Sequence[int], size: Any, chunk: int, *, peel: bool, remat: bool
    ) -> None:
        self._axes = axes
        self._chunk = chunk
        self._count, self._left = divmod(size, chunk)
        if peel and not self._left:
            self._count, self._left = self._count - 1, chunk
        self._remat = remat

    def run(self, run: Run, leaves: Sequence[Any], axes_of: Callable[[Any], Sequence[Any]]) -> Any:
        """All examples in turn; `axes_of` gives the axis of each leaf of an output.

        Leaves with the batch in front are scanned over. Of others a slice is taken in each step,
        since to have their batch in front would take a copy.
        """
        front = [self._in_front(leaf, axis) for leaf, axis in zip(leaves, self._axes, strict=True)]
        seen: list[Any] = []

        def step(_: None, xs: tuple[Any, list[Any]]) -> tuple[None, list[Any]]:
            index, ready = xs
            out = run(self._slices(leaves, index * self._chunk, self._chunk, ready), self._chunk)
            its, structure = jax.tree.flatten(out)
            axes = axes_of(out)
            seen[:] = [structure, axes]
            return None, [leaf for leaf, axis in zip(its, axes, strict=True) if axis is not None]

        body = jax.checkpoint(step) if self._remat else step
        _, stacked = lax.scan(body, None, (jnp.arange(self._count), front))
        batched = [lax.collapse(leaf, 0, 2) for leaf in stacked]
        last: list[Any] = []
        if self._left:
            start = self._count * self._chunk
            none = [None] * len(front)
            slices = self._slices(leaves, start, self._left, none)
            last = jax.tree.leaves(run(slices, self._left))
        structure, axes = seen
        return structure.unflatten(_joined(batched, last, axes))

    def fold(self, run: Run, leaves: Sequence[Any], fold: Fold) -> tuple[Any, Any]:
        """All examples in turn, as one state and what is kept of each, with the batch in front."""
        front = [self._in_front(leaf, axis) for leaf, axis in zip(leaves, self._axes, strict=True)]
        none = [None] * len(front)

        def part(index: Any, ready: Sequence[Any], size: int) -> tuple[Any, Any]:
            return fold.reduce(run(self._slices(leaves, index * self._chunk, size, ready), size))

        def step(state: Any, xs: tuple[Any, list[Any]]) -> tuple[Any, Any]:
            its, kept = part(*xs, self._chunk)
            return fold.merge(state, its), kept

        last: list[Any] = []
        if self._left:
            first, kept = part(self._count, none, self._left)
            last = [jax.tree.leaves(kept)]
        else:
            first = zeros_like(jax.eval_shape(lambda: part(0, none, self._chunk)[0]))
        state, stacked = lax.scan(step, first, (jnp.arange(self._count), front))
        batched, structure = jax.tree.flatten(stacked)
        whole = [lax.collapse(leaf, 0, 2) for leaf in batched]
        for its in last:
            whole = [jnp.concatenate(pair) for pair in zip(whole, its, strict=True)]
        return state, structure.unflatten(whole)

    def _in_front(self, leaf: Any, axis: int) -> Any:
        """A leaf as a stack of chunks, where that takes no copy, else None."""
        if axis % jnp.ndim(leaf):
            return None
        whole = self._count * self._chunk
        leaf = jnp.asarray(leaf)
        leaf = leaf if leaf.shape[0] == whole else lax.slice_in_dim(leaf, 0, whole)
        return leaf.reshape(self._count, self._chunk, *leaf.shape[1:])

    def _slices(
        self, leaves: Sequence[Any], start: Any, size: Any, ready: Sequence[Any]
    ) -> list[Any]:
        rows = zip(leaves, self._axes, ready, strict=True)
        return [
            lax.dynamic_slice_in_dim(jnp.asarray(leaf), start, size, axis % jnp.ndim(leaf))
            if its is None
            else its
            for leaf, axis, its in rows
        ]


def _joined(batched: list[Any], last: list[Any], axes: Sequence[Any]) -> list[Any]:
    """The leaves of the whole output. What does not vary is that of the last chunk."""
    waiting = iter(batched)
    whole = []
    for index, axis in enumerate(axes):
        if axis is None:
            whole.append(last[index])
            continue
        leaf = next(waiting)
        if last:
            leaf = jnp.concatenate([leaf, last[index]])
        whole.append(jnp.moveaxis(leaf, 0, axis))
    return whole
