"""Losses read without running them: what they take, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from ..faults import Fault
from ..show import values
from ..trees.structures import StructureCache
from .ghost.work import LossWork
from .mapped_loss import MappedLoss

_MOST = 32
"""For how many kinds of leaves of one structure a reading is kept."""


class Reading(NamedTuple):
    """What is known of a loss.

    Attributes:
        work: What it takes, of one example; None if it cannot be traced.
        faults: PTK409.
        failed: Why it cannot be traced, `""` if it can.
    """

    work: LossWork | None
    faults: tuple[Fault, ...] = ()
    failed: str = ""


class Readings:
    """Reads losses, those of one kind of call once."""

    def __init__(self) -> None:
        self._known = StructureCache()

    def of(self, mapped: MappedLoss, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
        """What is known of the loss of a call without fault. Raises nothing."""
        leaves, structure = jax.tree.flatten((args, dict(kwargs)))
        key = tuple(map(_kind, leaves))
        known = self._known.get(structure)
        if known is None:
            known = {}
            self._known.put(structure, known)
        found = known.get(key)
        if found is None:
            found = read(mapped, args, kwargs)
            if len(known) >= _MOST:
                known.clear()
            known[key] = found
        return found


def read(mapped: MappedLoss, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    """What is known of the loss of a call without fault. Raises nothing."""
    try:
        work, faults = mapped.read(args, kwargs)
    except Exception as error:  # noqa: BLE001  the call itself will raise it, if it must
        return Reading(None, failed=values.error(error))
    return Reading(work, tuple(faults))


def _kind(leaf: Any) -> Any:
    """What of a leaf can make a difference: its shape and dtype, or which Python object it is."""
    aval = values.typeof(leaf)
    if isinstance(leaf, bool | int | str):  # which may decide what a loss does
        return type(leaf), leaf
    return id(leaf) if aval is None else (tuple(aval.shape), str(aval.dtype))
