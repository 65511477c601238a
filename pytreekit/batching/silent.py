"""What JAX accepts and may not be meant: PTK901 to PTK905 by the spec, PTK951 to PTK953 by chance.

The spec alone gives away the first, so they are warnings. A shape that coincides proves nothing:
the second are only told when a plan is asked for its `suspicions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from ..faults import Fault
from ..show import values
from .call import Call
from .forms import RAW_KEYS, is_key, resolved
from .leaves import Leaf, leaves

NAMED_KEY = re.compile(r"key|rng|seed", re.IGNORECASE)
"""What a place is called that holds a PRNG key."""


def may_doubt(call: Call, axis_name: Any, axes: Sequence[Any], given: Sequence[Any]) -> bool:
    """Whether there can be a doubt at all: a glance that large trees can afford."""
    if axis_name is not None or type(call.axis_size) not in (int, type(None)) or call.kwargs:
        return True
    return any(
        axis is not None
        and (type(axis) is not int or axis < 0 or getattr(leaf, "dtype", None) == np.uint32)
        for axis, leaf in zip(axes, given, strict=True)
    )


def doubts(call: Call, axis_name: Any) -> Iterator[Fault]:
    """What the spec of a call without faults gives away."""
    everything = list(leaves(call))
    yield from _keywords(call, everything)
    yield from _raw_keys(everything)
    yield from _negative_axes(everything)
    if axis_name is not None and _is_bound(axis_name):
        yield Fault(
            "PTK904", "", "", "axis_name", "", values.spec(axis_name),
            note="a collective over it sees the inner axis only: give one of them another name",
        )  # fmt: skip
    if not (call.axis_size is None or type(call.axis_size) is int or is_integer(call.axis_size)):
        kind = type(call.axis_size).__name__
        yield Fault(
            "PTK905", "", "", "axis_size", "", values.spec(call.axis_size),
            fact=f"axis_size is a {kind}, not an int",
        )  # fmt: skip


def is_integer(size: Any) -> bool:
    """Whether a size is a whole number of NumPy's, or one that JAX does not know yet."""
    from jax import export

    return isinstance(size, np.integer) or export.is_symbolic_dim(size)


def _keywords(call: Call, everything: Sequence[Leaf]) -> Iterator[Fault]:
    axes = call.in_axes
    if call.is_by_name or isinstance(axes, tuple):
        return
    for leaf in everything:
        if not call.governs(leaf.position) and not _is_first(resolved(axes, leaf.bound.leaf), leaf):
            yield leaf.fault(
                "PTK901",
                fact=f"a keyword is mapped over axis 0, in_axes = {values.spec(axes)} or not",
                note="pass it by position, or write in_axes by name",
            )


def _is_first(axis: Any, leaf: Leaf) -> bool:
    """Whether an axis is the first one of a leaf, from whichever end it is counted."""
    return axis == 0 or (type(axis) is int and axis == -len(leaf.shape or ()))


def _raw_keys(everything: Sequence[Leaf]) -> Iterator[Fault]:
    for leaf in everything:
        if type(leaf.axis) is not int or not leaf.shape:
            continue
        last = leaf.axis % len(leaf.shape) == len(leaf.shape) - 1
        aval = values.typeof(leaf.bound.leaf)
        if not (last and leaf.shape[-1:] == RAW_KEYS[0] and aval.dtype == np.uint32):
            continue
        doubt = leaf.fault(
            "PTK902",
            fact=f"axis {leaf.axis} is the two words of a raw key, not a batch of keys",
            note="make it of jax.random.split(key, N), with the batch in front",
        )
        if NAMED_KEY.search(doubt.place):  # two integers of another name may be anything
            yield doubt


def _negative_axes(everything: Sequence[Leaf]) -> Iterator[Fault]:
    first: dict[tuple[int, str], Leaf] = {}
    for leaf in everything:
        if type(leaf.axis) is not int or leaf.axis >= 0:
            continue
        entry = leaf.position, leaf.fault("").spec_path
        other = first.setdefault(entry, leaf)
        rank, other_rank = len(leaf.shape or ()), len(other.shape or ())
        if rank != other_rank:
            yield leaf.fault(
                "PTK903",
                fact=f"axis {leaf.axis} is its axis {leaf.axis + rank}, "
                f"and axis {leaf.axis + other_rank} of {other.fault('').place}",
                note="count from the front, or give each an axis",
            )


def _is_bound(axis_name: Any) -> bool:
    """Whether a mapped axis of this name encloses the call."""
    try:
        jax.lax.axis_size(axis_name)
    except Exception:  # noqa: BLE001  NameError for most, but a name may be any hashable
        return False
    return True


def suspicions(everything: Sequence[Leaf], size: Any) -> Iterator[Fault]:
    """What the shapes of a call may point to."""
    for leaf in everything:
        if leaf.axis is not None:
            continue
        if is_key(leaf.bound.leaf):
            yield leaf.fault("PTK952", note="ptk.SPLIT gives each its own")
        elif leaf.shape and leaf.shape[0] == size:
            yield leaf.fault("PTK951", note=f"its axis 0 has {size}, as the batch")
    if size in (0, 1):
        yield Fault("PTK953", "", "", "", "", "", fact=f"the batch has size {size}")
