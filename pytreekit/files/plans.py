"""The JSON of a `ShardingPlan` as a tree of shapes."""

from __future__ import annotations

from typing import Any

import jax

from ..sharding.plans import as_json
from ..sharding.plans.planned import Planned


def is_plan(data: Any) -> bool:
    """Whether what a JSON file holds is a plan."""
    return isinstance(data, dict) and data.get("format") == as_json.FORMAT


def tree_of(its: Planned) -> dict[str, Any]:
    """The arrays of a plan by the texts of their paths."""
    pairs = zip(its.places, its.parts, strict=True)
    return {place.text: part for place, part in pairs if isinstance(part, jax.ShapeDtypeStruct)}
