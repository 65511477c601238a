"""The JSON of a `ShardingPlan` as a tree of shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from ..faults import Fault
from ..sharding.plans import as_json
from ..sharding.plans.planned import Planned
from .opening import LONGEST_PATH, fault, wrong_path

ESCAPED = 10
"""How many characters `keystr` may make of one, with all around it."""


def is_plan(data: Any) -> bool:
    """Whether what a JSON file holds is a plan."""
    return isinstance(data, dict) and data.get("format") == as_json.FORMAT


def wrong(its: Planned, name: str) -> Iterator[Fault]:
    """PTK805 for each leaf of a plan whose path is too long to be told."""
    for place in its.places:
        fact = wrong_path(place.text) or wrong_path(place.path, ESCAPED * LONGEST_PATH)
        if fact:
            yield fault("PTK805", name, fact, place.text)


def tree_of(its: Planned) -> dict[str, Any]:
    """The arrays of a plan by the texts of their paths."""
    pairs = zip(its.places, its.parts, strict=True)
    return {place.text: part for place, part in pairs if isinstance(part, jax.ShapeDtypeStruct)}
