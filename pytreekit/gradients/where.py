"""`where=`: which leaves of what is differentiated to differentiate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..faults import Fault
from ..show import values
from ..specs.bind import Binding, Bound
from ..trees import paths
from ..trees.leaves import type_told
from .floats import is_float


def bindings(
    spec: Any, trees: Sequence[Any], names: Sequence[str], spec_name: str, *, single: bool
) -> list[Binding]:
    """A spec bound to each differentiated tree: one for each in a tuple, or one for all."""
    one_each = not single and isinstance(spec, tuple) and len(spec) == len(trees)
    specs = spec if one_each else [spec] * len(trees)
    places = [f"{spec_name}[{index}]" if one_each else spec_name for index in range(len(trees))]
    rows = zip(specs, trees, names, places, strict=True)
    return [Binding(its, tree, name, place) for its, tree, name, place in rows]


def chosen(where: Any, trees: Sequence[Any], names: Sequence[str], *, single: bool) -> list[bool]:
    """Whether each leaf is to be differentiated, if it can be."""
    found: list[bool] = []
    for binding in bindings(where, trees, names, "where", single=single):
        of_path = {place.path: bool(choice) for place, choice in _choices(binding)}
        found += [of_path.get(path, False) for path, _ in paths.leaves_with_paths(binding.tree)]
    return found


def misfits(bound: Sequence[Binding]) -> list[Fault]:
    """Where specs do not fit. What is no float needs no rule."""
    faults = []
    for binding in bound:
        leaves = paths.leaves_with_paths(binding.tree) if binding.faults else []
        others = {paths.text(path) for path, leaf in leaves if not is_float(leaf)}
        faults += [its for its in binding.faults if its.code != "PTK305" or its.path not in others]
    return faults


def check_where(
    where: Any, trees: Sequence[Any], names: Sequence[str], *, single: bool
) -> list[Fault]:
    """PTK201 to PTK204 of its structure, PTK305 of rules; PTK001 of a choice that is no bool."""
    if where is None:
        return []
    bound = bindings(where, trees, names, "where", single=single)
    faults = misfits(bound)
    if faults:
        return faults
    for binding in bound:
        for place, choice in _choices(binding):
            if not isinstance(choice, bool | np.bool_):
                gave = "the function gave one" if callable(place.value) else "this is"
                fact = f"a choice must be a bool, {gave} of type {type(choice).__name__}"
                told = type_told(place.leaf), values.spec(place.value)
                faults.append(binding.fault("PTK001", place, *told, fact=fact))
    return faults


def _choices(binding: Binding) -> Iterator[tuple[Bound, Any]]:
    """The choice for each leaf, with its place."""
    for place in binding:
        choice = place.value
        if callable(choice):  # what cannot be differentiated is nothing that it would expect
            choice = choice(place.leaf) if is_float(place.leaf) else False
        yield place, choice
