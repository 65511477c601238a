"""The calls under way in this thread: what they carry past `jax.vmap`, and what nests in what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..faults import Fault
from .outputs import PlannedOutput, Refusal


class Running:
    """One call under way: its leaves, and how far it has come.

    Once the function has returned it must hold no tracer, or JAX would see that one leak.

    Attributes:
        leaves: All leaves.
        handed: The leaves that JAX is handed.
        axes: The axis of each of these.
        tracers: What the function gets of them for one example, while it runs.
        entered: Whether the function has been entered.
        returned: Whether it has returned.
        good: Which examples are to be used, those of the others replaced; None for all.
        refusal: Why what it returned is refused.
        size: The size of the batch, where a plan asks for the outputs.
        outputs: What it would do with these then.
        judge: Finds what does not fit in what the function returned for one example.
        misfits: What it found.
    """

    __slots__ = (
        "axes", "entered", "good", "handed", "judge", "leaves", "misfits", "outputs", "refusal",
        "returned", "size", "tracers",
    )  # fmt: skip

    def __init__(self, leaves: list[Any], good: Any = None) -> None:
        self.leaves = leaves
        self.good = good
        self.handed: Sequence[Any] = ()
        self.axes: Sequence[int | None] = ()
        self.tracers: Sequence[Any] = ()
        self.entered = False
        self.returned = False
        self.refusal: Refusal | None = None
        self.size: Any = None
        self.outputs: tuple[PlannedOutput, ...] = ()
        self.judge: Callable[[Any], Iterable[Fault]] = lambda out: ()
        self.misfits: tuple[Fault, ...] = ()


class Underway(threading.local):
    """The calls under way in a thread, the innermost last.

    Past `jax.vmap`, which is handed the mapped leaves alone, they carry all other leaves: what
    JAX never sees costs nothing.
    """

    def __init__(self) -> None:
        self.calls: list[Running] = []


underway = Underway()


class Outside(NamedTuple):
    """A leaf as the outermost call has it, and where an axis of it lies there."""

    leaf: Any
    axis: int


def outside(leaf: Any, axis: int) -> Outside | None:
    """What a leaf is outside all calls under way, if it is what one of them maps.

    The axes of an inner call are counted when the outer call has taken its own axis away.
    """
    found = None
    for running in reversed(underway.calls):
        rows = zip(running.tracers, running.handed, running.axes, strict=True)
        for tracer, original, taken in rows:
            if tracer is leaf and taken is not None:
                rank = np.ndim(original)
                axis %= rank - 1
                axis += axis >= taken % rank
                leaf = original
                found = Outside(leaf, axis)
                break
    return found
