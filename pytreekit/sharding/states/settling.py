"""Leaves whose shape can be read in several ways: told apart by a probe of `init`, or by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax.sharding import PartitionSpec

from ...trees import paths
from ...trees.boxes import Ends
from ...trees.paths import KeyPath
from ..shapes import shape_of
from .found import Given, Open, StateSpecs
from .overlay import text
from .probe import Probed, probe
from .shape_reading import Reading, by_spec, readings

ROWS, COLUMNS = "v_row", "v_col"
"""The fields of Adafactor: means over the largest dimension of a parameter, and over the next one.

The last of equal dimensions counts as the largest. So it is in optax, and in all that has these
names from there.
"""

Init = Callable[[Any], Any]


def settle(found: StateSpecs, state: Any, init: Init | None) -> str:
    """Give leaves that can be read in several ways the right one of these.

    Args:
        found: The specs so far; what is settled is put there.
        state: The state.
        init: What made it.

    Returns:
        Why `init` was of no help, if it failed.
    """
    several = [its for its in found.open if its.candidates]
    if not several:
        return ""
    probed = None if init is None else _probed(found, state, init, several)
    names = _Names(found, state)
    settled: set[int] = set()
    for its in several:
        reading = _by_probe(its, found, probed)
        told = "told by init" if reading else "by its name"
        reading = reading or names.reading(its)
        if reading is not None:
            note = (("by-name", f"{told}: without init= it may be otherwise"),)
            spec = reading.spec(_spec(its, found))
            how = f"{reading.how}, {told}"
            found.given[its.leaf] = Given(spec, how, note if told == "by its name" else ())
            settled.add(its.leaf)
    found.open = [its for its in found.open if its.leaf not in settled]
    return probed.failure if probed else ""


def _spec(its: Open, found: StateSpecs) -> PartitionSpec:
    return found.params.specs[its.param]


def _probed(found: StateSpecs, state: Any, init: Init, several: Sequence[Open]) -> Probed:
    params = found.params
    return probe(init, params.leaves, params.structure, {its.param for its in several}, state)


def _by_probe(its: Open, found: StateSpecs, probed: Probed | None) -> Reading | None:
    """The one reading that also fits what `init` makes of the widened parameter."""
    shape = probed.shapes.get(its.leaf) if probed else None
    if probed is None or shape is None:
        return None
    there = readings(shape, probed.wide[its.param])
    both = [reading for reading in _readings(its, found) if reading in there]
    given = by_spec(both, _spec(its, found))
    return next(iter(given.values())) if len(given) == 1 else None


def _readings(its: Open, found: StateSpecs) -> tuple[Reading, ...]:
    return readings(shape_of(found.ends.leaves[its.leaf]), found.params.shapes[its.param])


class _Names:
    """The names of fields of a state: what stands before the path of a parameter."""

    def __init__(self, found: StateSpecs, state: Any) -> None:
        self._found, self._state = found, state
        self._fields: dict[KeyPath, set[str]] = {}

    @functools.cached_property
    def _params(self) -> list[KeyPath]:
        return Ends(self._found.params.tree).texts

    def reading(self, its: Open) -> Reading | None:
        """How the shape of Adafactor's rows or columns is read, None if this is neither."""
        path, below = self._found.ends.texts[its.leaf], self._params[its.param]
        place = len(path) - len(below) - 1
        field = text(path[place]) if place >= 0 else ""
        if field not in {ROWS, COLUMNS} or not _alike(path[place + 1 :], below):
            return None
        if not {ROWS, COLUMNS} <= self._beside(path[:place]):
            return None
        shape = self._found.params.shapes[its.param]
        by_size = sorted(range(len(shape)), key=lambda dim: (shape[dim], dim))
        lost = by_size[-1 if field == ROWS else -2]
        kept = tuple(dim for dim in range(len(shape)) if dim != lost)
        fitting = (reading for reading in _readings(its, self._found) if reading.dims == kept)
        return next(fitting, None)

    def _beside(self, path: KeyPath) -> set[str]:
        """The names of the children of a node of the state."""
        if path not in self._fields:
            node = self._state
            for key in path:
                node = dict(paths.children(node)[0])[key]
            self._fields[path] = {text(key) for key, _ in paths.children(node)[0]}
        return self._fields[path]


def _alike(path: KeyPath, other: KeyPath) -> bool:
    return path == other or [text(key) for key in path] == [text(key) for key in other]
