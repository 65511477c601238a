"""Checks of a call's mapped leaves, PTK101 and PTK104, and of their sizes, PTK102 and PTK103."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np

from ..faults import Fault, Place
from ..show import values
from ..specs.called import Advice, InArgument
from ..specs.finding import Finding, Revalue
from ..trees import paths
from . import remedies
from .call import Call
from .forms import can_be_sliced, is_axis
from .leaves import Leaf, agreed_size, is_size, leaves
from .shardings import check_shardings
from .underway import outside

MOST_BESIDE = 3
"""How many of the leaves that agree are told beside those that do not."""

Stacked = Callable[[int], list[Advice]]


def check_axes(call: Call) -> list[Finding]:
    """Every mapped leaf must have its axis, and all of these axes one size and one sharding."""
    everything = list(leaves(call))
    mapped = [leaf for leaf in everything if leaf.axis is not None]
    good = [leaf for leaf in mapped if leaf.has_axis and not leaf.is_split]
    bad = [leaf for leaf in mapped if not leaf.has_axis]
    # What does not match its spec might be mapped as well.
    sized = len(good) + len(bad) > 0 or call.mismatched
    unsized = _check_axis_size(call, mapped=sized, split=len(mapped) > 0)
    size = None if unsized else agreed_size(call, good)
    odd = [] if unsized else [leaf for leaf in good if leaf.size != size]
    beside = _holders(call, size, good) if odd else ()

    sizes = {leaf.size for leaf in good}
    resized = remedies.other_size(*sizes) if call.axis_size is not None and len(sizes) == 1 else []

    @functools.cache
    def stacked(position: int) -> list[Advice]:
        binding = call.bindings[position]
        return remedies.stack_list(position, binding.name, binding.tree)

    return [
        *(_no_axis(call, leaf, size, stacked) for leaf in bad),
        *(_other_size(call, leaf, size, beside, resized) for leaf in odd),
        *_aliased(good),
        *_in_chunks(call, good),
        *unsized,
        *([] if bad else check_shardings(call, everything)),
    ]


def _no_axis(call: Call, leaf: Leaf, size: Any, stacked: Stacked) -> Finding:
    fact, note = _why_no_axis(leaf)
    code = "PTK104" if leaf.shape is None or leaf.is_split else "PTK101"
    if not (leaf.is_split or is_axis(leaf.axis)):
        code = "PTK107"
    fault = leaf.fault(code, fact=fact, note=note)
    if not call.governs(leaf.position):
        return Finding(fault, (remedies.without_keyword(call, leaf.binding.name),))
    repairs: list[InArgument | Advice] = []
    if not is_axis(leaf.axis):
        repairs += [InArgument(leaf.position, Revalue(leaf.bound.path, 0))]
    elif leaf.shape == ():
        repairs += [*stacked(leaf.position), *remedies.split_key(leaf, size)]
    elif leaf.shape is not None:
        repairs += _other_axis(leaf, size)
    return Finding(fault, (*repairs, InArgument(leaf.position, Revalue(leaf.bound.path, None))))


def _why_no_axis(leaf: Leaf) -> tuple[str, str]:
    """The fact, and what more there is to say."""
    value, axis = leaf.bound.leaf, leaf.axis
    if leaf.is_split:
        return "is no PRNG key, it cannot be split", "a key is jax.random.key(seed), or uint32[2]"
    if not is_axis(axis):
        kind = type(axis).__name__
        return f"an axis must be an int or None, the function gave a {kind}", ""
    if leaf.shape is None:
        kind = "this array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        return f"{kind} is no JAX type, it cannot be mapped", remedies.unregistered(value)
    rank = len(leaf.shape)
    if -rank <= axis < rank:
        return f"axis {axis} is no batch axis", "only those of a sparse matrix can be mapped"
    if isinstance(value, bool | int | float | complex):
        return f"there is no axis {axis}", f"a Python {type(value).__name__} has no axes"
    whole = outside(value, 0) if rank else None
    within = f", one example of {values.leaf(whole.leaf)}" if whole else ""
    return f"there is no axis {axis}", _axes(rank) + within


def _axes(rank: int) -> str:
    """Which axes an array has."""
    match rank:
        case 0:
            return "it has no axes"
        case 1:
            return "its axes are 0 (or -1)"
    return f"its axes are 0 to {rank - 1} (or -{rank} to -1)"


def _other_axis(leaf: Leaf, size: Any) -> list[InArgument]:
    """The axis of the size that the others have; where none is known, axis 0."""
    shape = leaf.shape or ()
    axes = [0] if size is None else [axis for axis, its in enumerate(shape) if its == size]
    return [InArgument(leaf.position, Revalue(leaf.bound.path, axis)) for axis in axes[:1]]


def _other_size(
    call: Call, leaf: Leaf, size: Any, beside: tuple[Place, ...], resized: list[Advice]
) -> Finding:
    fault = leaf.fault("PTK102", note=leaf.size_note, beside=beside)
    if not call.governs(leaf.position):
        return Finding(fault, tuple(resized))
    return Finding(fault, (*remedies.split_key(leaf, size), *_other_axis(leaf, size), *resized))


def _holders(call: Call, size: Any, good: Sequence[Leaf]) -> tuple[Place, ...]:
    """Who has the size that the others should have: axis_size, or the first of the majority."""
    if call.axis_size is not None:
        return (Place("axis_size", "", f"is {values.spec(size)}", ""),)
    agreeing = [leaf for leaf in good if leaf.size == size]
    more = len(agreeing) - MOST_BESIDE
    rest = [Place(f"... {more} more", "", f"have {size}", "")] if more > 0 else []
    return (*(leaf.told() for leaf in agreeing[:MOST_BESIDE]), *rest)


def _aliased(good: Sequence[Leaf]) -> list[Finding]:
    """One Ref that is mapped twice: writes through one would not be seen through the other."""
    refs = [leaf for leaf in good if isinstance(leaf.bound.leaf, jax.Ref)]
    first = {id(leaf.bound.leaf): leaf for leaf in reversed(refs)}
    again = [leaf for leaf in refs if first[id(leaf.bound.leaf)] is not leaf]
    return [
        Finding(leaf.fault("PTK104", fact="is a Ref that is mapped twice", beside=(told,)))
        for leaf in again
        for told in [first[id(leaf.bound.leaf)].told()]
    ]


def _in_chunks(call: Call, good: Sequence[Leaf]) -> list[Finding]:
    """No slice can be taken of some leaves, nor of a batch that may be less than a chunk."""
    size = agreed_size(call, good)
    if call.chunk_size is None or not is_size(size):
        return []
    try:
        if size <= call.chunk_size:
            return []
    except jax.errors.InconclusiveDimensionOperation:
        return [_of_unknown_size(call.chunk_size, size)]
    fact = "is no plain array, chunks cannot be taken of it"
    whole = [leaf for leaf in good if not can_be_sliced(leaf.bound.leaf)]
    return [Finding(leaf.fault("PTK104", fact=fact)) for leaf in whole]


def _of_unknown_size(chunk_size: int, size: Any) -> Finding:
    fault = Fault(
        "PTK104", "", "", "chunk_size", "", str(chunk_size),
        fact=f"chunks cannot be taken of a batch of {size}, which may be less than one",
        note=f"jax.export must know more: constraints=['{size} >= {chunk_size + 1}']",
    )  # fmt: skip
    return Finding(fault)


def _check_axis_size(call: Call, *, mapped: bool, split: bool) -> list[Finding]:
    """PTK103: without a mapped leaf, the axis has only the size that axis_size gives it."""
    size = call.axis_size
    if size is None:
        return [] if mapped else [_nothing_mapped(call, split=split)]
    if split and not mapped and not is_size(size):
        pass  # a key is split into so many
    elif isinstance(size, Hashable) and (mapped or not call.broadcasts or is_size(size)):
        return []
    fault = Fault(
        "PTK103", "", "", "axis_size", "", values.spec(size),
        fact="axis_size is no int of 0 or more",
        note="" if mapped else "and nothing is mapped",
    )  # fmt: skip
    return [Finding(fault, tuple(remedies.other_size(size)))]


def _nothing_mapped(call: Call, *, split: bool) -> Finding:
    arguments = [
        f"{binding.name} is {values.leaf_or_tree(binding.tree)}" for binding in call.bindings
    ]
    has_leaf = any(paths.count_leaves(binding.tree) for binding in call.bindings)
    why = "no axis is given" if has_leaf else "there is no array in any argument"
    if split:
        why = "only keys are split"
    told = values.listing(list(itertools.islice(arguments, 7)))
    fault = Fault(
        "PTK103", "", "", "in_axes", "", values.spec(call.in_axes),
        note=f"{why}: {told}" if told else "there are no arguments",
    )  # fmt: skip
    return Finding(fault, (remedies.any_size(),))
