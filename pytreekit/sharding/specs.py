"""`ptk.partition_specs`, `ptk.partition_plan`: the spec of each leaf of a tree."""

from __future__ import annotations

from typing import Any

from ..show.errors import raise_faults
from .assigning import Assigned, assign
from .options import options_of
from .plan import SpecPlan


def partition_specs(
    tree: Any,
    rules: Any = None,
    *,
    mesh: Any = None,
    axes: Any = None,
    stack: Any = None,
    on_indivisible: Any = "error",
    missing_axes: str = "error",
) -> Any:
    """X."""
    its = {"stack": stack, "on_indivisible": on_indivisible, "missing_axes": missing_axes}
    return _assigned(tree, rules, "partition_specs", mesh=mesh, axes=axes, **its).tree


def partition_plan(
    tree: Any,
    rules: Any = None,
    *,
    mesh: Any = None,
    axes: Any = None,
    stack: Any = None,
    on_indivisible: Any = "error",
    missing_axes: str = "error",
) -> SpecPlan:
    """X."""
    its = {"stack": stack, "on_indivisible": on_indivisible, "missing_axes": missing_axes}
    return _assigned(tree, rules, "partition_plan", mesh=mesh, axes=axes, **its).plan()


def _assigned(
    tree: Any,
    rules: Any,
    doing: str,
    *,
    mesh: Any,
    axes: Any,
    stack: Any,
    on_indivisible: Any,
    missing_axes: Any,
) -> Assigned:
    options = options_of(mesh, axes, on_indivisible, missing_axes, doing)
    found = assign(tree, rules, options, stack, doing)
    raise_faults(found.faults, doing=doing, where="rules", when="before placing")
    return found
