"""The faults of leaves of a state that are not explained, with what they might be."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax

from ...faults import Fault, Place
from ...show import values as shown
from ...trees import paths
from ..shapes import shape_of
from .found import Open, Params, StateSpecs
from .overlay import Node
from .reading import explain, overlay_of
from .rules import NAME
from .shape_reading import ITS

MOST_PLACES = 3
"""Parameters that are told of one leaf."""

MOST_PARTS = 200
"""Parts of the parameters that are tried as what a state might be of."""

RULES = "rules= can say what it gets"


class Unexplained:
    """What is not explained of a state."""

    def __init__(self, found: StateSpecs, state: Any, *, has_init: bool, failure: str) -> None:
        """Take what was found.

        Args:
            found: The specs.
            state: The state.
            has_init: Whether there was an `init`.
            failure: Why it was of no help.
        """
        self._found, self._state = found, state
        self._has_init, self._failure = has_init, failure

    def faults(self) -> Iterator[Fault]:
        """PTK308 for what can be read in several ways, PTK309 for what no parameter explains."""
        for its in self._found.open:
            if its.candidates:
                yield self._several(its)
            elif its.bond is not None:
                yield self._other_shape(its)
            else:
                yield self._of_none(its)

    def _several(self, its: Open) -> Fault:
        note = "" if self._has_init else "init= may tell which; "
        note = f"init raises {self._failure}; " if self._failure else note
        rows = [
            Place(shown.spec(spec), reading.how.removeprefix(f"{ITS} "), "", "")
            for spec, reading in its.candidates.items()
        ]
        place = self._found.params.place(its.param)
        fact = f"its shape fits that of {place} in {len(rows)} ways"
        return self._fault("PTK308", its, fact, f"{note}{RULES}", rows)

    def _other_shape(self, its: Open) -> Fault:
        fact = f"its shape does not follow from that of {self._found.params.place(its.param)}"
        return self._fault("PTK309", its, fact, RULES)

    def _of_none(self, its: Open) -> Fault:
        params = self._found.params
        shape = shape_of(self._found.ends.leaves[its.leaf])
        alike = [n for n, other in enumerate(params.shapes) if other == shape]
        rows = [Place(params.place(n), "has its shape", "", "") for n in alike[:MOST_PLACES]]
        fault = self._fault("PTK309", its, "is of no parameter", RULES, rows)
        return dataclasses.replace(fault, hint=self._part)

    def _fault(
        self, code: str, its: Open, fact: str, note: str, rows: list[Place] | None = None
    ) -> Fault:
        params, leaf = self._found.params, self._found.ends.leaves[its.leaf]
        where = wanted = ""
        if its.bond is not None:
            of = params.leaves[its.param]
            where, wanted = (
                f"specs{paths.text(params.keys(its.param))}",
                shown.spec(params.specs[its.param]),
            )
            note = f"{params.place(its.param)} is {shown.leaf(of)}; {note}"
        told = self._found.path(its.leaf), where, shown.leaf(leaf), wanted
        return Fault(code, NAME, *told, fact=fact, note=note, beside=tuple(rows or ()))

    @functools.cached_property
    def _part(self) -> str:
        """The part of the parameters that the state is of, if there is one that explains all."""
        first = next(its.leaf for its in self._found.open if its.bond is None)
        overlay = overlay_of(self._found.params)
        above = list(_above(self._state, first))
        for keys, part in _parts(overlay.root):
            if not any(overlay.lies_over(*node, part) for node in above):
                continue
            sub = _sub(self._found.params, part)
            again = explain(self._state, sub, overlay_of(sub), self._found.options, None)
            if not any(not one.candidates for one in again.open):
                return f"pass params{paths.text(keys)} and its specs"
        return ""


def _above(tree: Any, index: int) -> Iterator[tuple[Any, Any]]:
    """The nodes above a leaf, from the root, each with its structure."""
    node, structure = tree, jax.tree.structure(tree)
    while structure.num_nodes > 1:
        yield node, structure
        for (_, child), its in zip(paths.children(node)[0], structure.children(), strict=True):
            if index < its.num_leaves:
                node, structure = child, its
                break
            index -= its.num_leaves


def _parts(root: Node) -> Iterator[tuple[tuple[Any, ...], Node]]:
    """The nodes below the root that are no leaves, the topmost first."""
    level: list[tuple[tuple[Any, ...], Node]] = [((), root)]
    left = MOST_PARTS
    while level:
        below: list[tuple[tuple[Any, ...], Node]] = []
        for keys, node in level:
            below += (((*keys, key), child) for key, child in node.children.items())
        level = [(keys, node) for keys, node in below if node.structure.num_nodes > 1][:left]
        left -= len(level)
        yield from level


def _sub(params: Params, part: Node) -> Params:
    first, last = part.first, part.first + part.structure.num_leaves
    keys = params.keys
    return Params(
        part.value,
        part.structure,
        params.leaves[first:last],
        params.specs[first:last],
        lambda index: keys(first + index),
    )
