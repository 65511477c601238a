"""Values into the shards of a plan: piece by piece, nothing whole on any one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import NamedSharding

from ...faults import Fault
from ...show.errors import raise_faults
from ...show.progress import Advance, progress
from .beside import beside, castable, leaf_faults, never, number_as
from .planned import Planned

NAME = "tree"
"""What messages call the tree."""

Index: TypeAlias = tuple[slice, ...]


def place(its: Planned, tree: Any, *, cast: bool, show_progress: bool | None) -> Any:
    """The values of a tree, or those that a function reads, laid out by a plan.

    Raises:
        SpecError: PTK205, if the values are not those that the plan is of; PTK001, if it has no
            devices.
    """
    doing = "plan.place"
    its.with_devices(doing)
    placer = _Placer(its, cast)
    total = sum(leaf.bytes for leaf in its.leaves)
    if callable(tree):
        with progress("placing", total, show=show_progress) as advance:
            placed, faults = placer.read(tree, advance)
        raise_faults(faults, doing=doing)
        return its.tree(placed)
    found = beside(its, tree, NAME, fits=castable if cast else never)
    raise_faults(found.faults, doing=doing, when="before placing")
    with progress("placing", total, show=show_progress) as advance:
        placed = [placer.put(number, leaf, advance) for number, leaf in enumerate(found.leaves)]
    return its.tree(placed)


class _Placer:
    """Places leaves, and knows where the pieces of alike ones go."""

    def __init__(self, its: Planned, cast: bool) -> None:  # noqa: FBT001
        self._its = its
        self._fits = castable if cast else never
        self._pieces: dict[Any, list[tuple[Index, list[Any]]]] = {}

    def read(
        self, read: Callable[[str, Any], Any], advance: Advance
    ) -> tuple[list[Any], list[Fault]]:
        """What a function reads for each leaf; once one is wrong, nothing more is placed."""
        placed: list[Any] = []
        faults: list[Fault] = []
        for number, (leaf, part) in enumerate(zip(self._its.leaves, self._its.parts, strict=True)):
            if leaf.shape is None:
                placed.append(part)
                continue
            value = number_as(part, read(leaf.text, part))
            faults += leaf_faults(self._its, number, value, NAME, fits=self._fits)
            if faults:
                placed.clear()
            else:
                placed.append(self.put(number, value, advance))
        return placed, faults

    def put(self, number: int, leaf: Any, advance: Advance) -> Any:
        """One leaf."""
        part, sharding = self._its.parts[number], self._its.shardings[number]
        if not isinstance(part, jax.ShapeDtypeStruct):
            return leaf
        if isinstance(leaf, jax.Array):  # JAX cuts it where it is
            same = leaf.dtype == part.dtype
            placed = jax.device_put(leaf if same else leaf.astype(part.dtype), sharding)
        else:
            placed = self._from_host(leaf, part, sharding)
        advance(self._its.leaves[number].bytes)
        return placed

    def _from_host(self, leaf: Any, part: jax.ShapeDtypeStruct, sharding: NamedSharding) -> Any:
        """One piece at a time is read, and goes to every device that is to have it."""
        shards: list[jax.Array] = []
        for index, devices in self._pieces_of(part.shape, sharding):
            piece = np.asarray(leaf[index])
            if piece.dtype != part.dtype:
                piece = piece.astype(part.dtype)
            shards += jax.device_put([piece] * len(devices), devices)
        return jax.make_array_from_single_device_arrays(
            part.shape, sharding, shards, dtype=part.dtype
        )

    def _pieces_of(
        self, shape: tuple[int, ...], sharding: NamedSharding
    ) -> Sequence[tuple[Index, list[Any]]]:
        key = shape, sharding.spec
        if key not in self._pieces:
            found: dict[Any, tuple[Index, list[Any]]] = {}
            for device, index in sharding.addressable_devices_indices_map(shape).items():
                bounds = tuple((part.start, part.stop) for part in index or ())
                found.setdefault(bounds, (index or (), []))[1].append(device)
            self._pieces[key] = list(found.values())
        return self._pieces[key]
