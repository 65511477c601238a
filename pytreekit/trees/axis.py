"""Checks of an axis that every array of a tree must have, or is to get: PTK101."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..faults import Fault
from ..show import values
from . import leaves, paths
from .paths import KeyPath


def check_axis(axis: Any) -> list[Fault]:
    """An axis of `ptk.stack` is an int: None would say that there is none."""
    if type(axis) is int:
        return []
    fact = f"must be an int, this is a {type(axis).__name__}"
    return [Fault("PTK001", "axis", "", "", "", "", fact=fact)]


def check_has_axis(
    arrays: Sequence[tuple[KeyPath, Any]], axis: int, name: str, *, new: bool = False
) -> list[Fault]:
    """Every array must have the axis.

    Args:
        arrays: The arrays with their paths.
        axis: The axis.
        name: What messages call the tree.
        new: Whether the arrays are to get it, and so have one axis less now.
    """
    faults = []
    for path, array in arrays:
        rank = np.ndim(array) if leaves.is_number(array) else len(array.shape)
        if not -(rank + new) <= axis < rank + new:
            note = ("the new axis may be " if new else "its axes are ") + _axes(rank + new)
            fault = Fault(
                "PTK101", name, paths.text(path), "axis", leaves.told(array), values.spec(axis),
                fact=f"there is no axis {axis}",
                note=note if rank + new else "it has no axes",
            )  # fmt: skip
            faults.append(fault)
    return faults


def _axes(rank: int) -> str:
    return "0 (or -1)" if rank == 1 else f"0 to {rank - 1} (or -{rank} to -1)"
