"""The leaves of a state explained: by rules, by the parameters, by being small."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from ...trees.boxes import Ends
from ..options import Options
from ..shapes import is_single, shape_of
from .found import WHOLE, Given, Open, Params, StateSpecs
from .overlay import Bond, Overlay
from .rules import StateRules
from .shape_reading import SINGLE, Reading, Shape, by_spec, is_settled, readings

SMALL = 64
"""Elements up to which an array that is no parameter's is whole on every device.

Raw keys, coefficients and short histories have fewer; all that is larger must be explained.
"""

UNEXPLAINED = Given(WHOLE, "not explained")


def overlay_of(params: Params) -> Overlay:
    """The parameters, to be laid over states."""
    shapes = params.shapes

    def fits(leaf: Any, bond: Bond) -> bool:
        return bool(readings(shape_of(leaf), shapes[bond.param], bond.dim))

    return Overlay(params.tree, params.structure, params.leaves, fits)


def explain(
    state: Any, params: Params, overlay: Overlay, options: Options, rules: StateRules | None
) -> StateSpecs:
    """The spec of each leaf, as far as structures and shapes say it."""
    ends = Ends(state, paths_first=False)
    bonds = overlay.bonds(state, ends.structure)
    found = StateSpecs(params, ends, bonds, [UNEXPLAINED] * len(bonds), [], options)
    known: dict[Any, tuple[Given | None, dict[Any, Reading]]] = {}
    kinds = _kinds(params)
    for index, (leaf, bond) in enumerate(zip(ends.leaves, bonds, strict=True)):
        ruled = None if rules is None else rules.of(index)
        if ruled is not None:
            found.given[index], bonds[index] = Given(*ruled), None
            continue
        key = shape_of(leaf), kinds[bond.param] if bond else None, bond.dim if bond else None
        if bond is None:
            key = (*key, getattr(leaf, "dtype", None))
        if key not in known:
            known[key] = _by_shape(leaf, bond, params)
        given, candidates = known[key]
        if given is None:
            found.open.append(Open(index, bond, candidates))
        else:
            found.given[index] = given
    return found


def _kinds(params: Params) -> list[int]:
    """A number for each parameter, the same for those with one shape and one spec."""
    numbers: dict[Any, int] = {}
    rows = zip(params.shapes, params.specs, strict=True)
    return [numbers.setdefault(row, len(numbers)) for row in rows]


def _by_shape(
    leaf: Any, bond: Bond | None, params: Params
) -> tuple[Given | None, dict[Any, Reading]]:
    if bond is None:
        return _of_none(leaf), {}
    spec = params.specs[bond.param]
    found = readings(shape_of(leaf), params.shapes[bond.param], bond.dim)
    candidates = by_spec(found, spec)
    if not is_settled(found, candidates):
        return None, candidates
    ((its, reading),) = candidates.items()
    return Given(its, reading.how), candidates


def _of_none(leaf: Any) -> Given | None:
    """What a leaf gets that is no parameter's, None if it is too large for that."""
    shape = shape_of(leaf)
    if is_single(shape):
        return Given(WHOLE, SINGLE if hasattr(leaf, "shape") else "no array")
    if _is_key(leaf):
        return Given(WHOLE, "PRNG keys")
    if _elements(shape) > SMALL:
        return None
    text = f"small, and no parameter's: {_elements(shape)} elements"
    return Given(WHOLE, "small, and no parameter's", (("small", text),))


def _elements(shape: Shape) -> int:
    """The elements of an array; more than are small, where that is not known."""
    known = all(isinstance(size, int) for size in shape)
    return math.prod(shape) if known else SMALL + 1


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
