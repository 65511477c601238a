"""The shapes of leaves, and which dimensions of them are stacks of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import values
from ..specs.assignment import Assignment
from ..specs.reading import place
from ..specs.rule_values import UNMATCHED
from ..specs.rules import Rules
from ..trees import paths


def shape_of(leaf: Any) -> tuple[Any, ...]:
    """The shape of a leaf; what is no array has none."""
    try:
        shape = leaf.shape
    except Exception:  # noqa: BLE001  a user's object may raise anything when asked
        return ()
    return shape if isinstance(shape, tuple) else ()


def is_single(shape: tuple[Any, ...]) -> bool:
    """Whether an array has one element: nothing of it can be split."""
    return all(isinstance(size, int) for size in shape) and math.prod(shape) == 1


def without(shape: tuple[Any, ...], dims: Sequence[int]) -> tuple[Any, ...]:
    """A shape without some of its dimensions."""
    return tuple(size for dim, size in enumerate(shape) if dim not in dims) if dims else shape


class Stacks(NamedTuple):
    """The dimensions of each leaf that are stacks of layers, and what is wrong with them."""

    dims: list[tuple[int, ...]]
    faults: list[Fault]


def stacks_of(tree: Any, leaves: Sequence[Any], stack: Any) -> Stacks:
    """The stacked dimensions of each leaf.

    Args:
        tree: The tree.
        leaves: Its leaves.
        stack: Rules, or what they can be made of, of dimensions; None for none.

    Raises:
        SpecError: PTK306, if these are no rules.
    """
    if stack is None:
        return Stacks([()] * len(leaves), [])
    if not isinstance(stack, Rules | Mapping | list | tuple):
        fact = f"stack must be rules of dimensions, this is {values.kind(stack)}"
        told = "", "", "stack", "", values.spec(stack)
        fault = Fault("PTK001", *told, fact=fact, note="as {'decoder/layers/**': 0}")
        return Stacks([()] * len(leaves), [fault])
    rules = stack if isinstance(stack, Rules) else Rules(stack)
    found = rules.assign(tree)
    dims: list[tuple[int, ...]] = []
    faults: list[Fault] = []
    for index, (leaf, said) in enumerate(zip(leaves, found.values, strict=True)):
        read = _dims(said, len(shape_of(leaf)))
        if isinstance(read, str):
            faults.append(_fault(found, index, read))
        dims.append(() if isinstance(read, str) else read)
    return Stacks(dims, faults)


def _dims(said: Any, rank: int) -> tuple[int, ...] | str:
    """The dimensions that a value names for a leaf of some rank, or what is wrong."""
    if said is UNMATCHED or said is None or rank == 0:
        return ()
    listed = said if isinstance(said, tuple | list) else (said,)
    if not all(type(dim) is int for dim in listed):
        return "a stacked dimension must be an int, or a tuple of them"
    beyond = [dim for dim in listed if not -rank <= dim < rank]
    if beyond:
        return f"has no dimension {beyond[0]} for a stack"
    dims = tuple(sorted({dim % rank for dim in listed}))
    return dims if len(dims) == len(listed) else "a stacked dimension is named twice"


def _fault(found: Assignment, index: int, fact: str) -> Fault:
    number = found.numbers[index]
    pattern = found.rules.patterns[number].text if number >= 0 else "default"
    said = f"({pattern!r}, {values.spec(found.values[index], 24)})"
    where = place(number, "stack") if number >= 0 else "stack.default"
    leaf = values.leaf(found.leaves[index])
    return Fault("PTK306", "tree", paths.text(found.path(index)), where, leaf, said, fact=fact)
