"""`clip_norm=`: one bound for a whole gradient, or one for each part of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ..faults import Fault
from ..show import values
from ..specs.bind import check_sorts
from ..specs.rest import marked
from ..trees import paths
from .floats import Floats
from .where import bindings

NAME = "clip_norm"


class Group(NamedTuple):
    """The leaves whose joint norm has one bound: all that one entry of clip_norm governs.

    Attributes:
        place: The entry, as it is written: `"clip_norm['encoder']"`.
        bound: What the norm is clipped to.
    """

    place: str
    bound: Any


@dataclasses.dataclass(frozen=True)
class ClipNorms:
    """What is written as clip_norm: a number, or a pytree prefix of what is differentiated."""

    spec: Any

    @property
    def is_one(self) -> bool:
        """Whether there is one bound for the whole gradient."""
        return paths.is_leaf(self.spec)

    @property
    def groups(self) -> list[Group]:
        """A group for each entry."""
        return [Group(NAME + paths.text(path), bound) for path, bound in _entries(self.spec)]

    def grouped(self, values_of: Array) -> Any:
        """The columns of an array, one for each group, in the structure of clip_norm."""
        columns = [values_of[:, index] for index in range(values_of.shape[1])]
        return jax.tree.structure(self.spec).unflatten(columns)

    def group_of_each(self, floats: Floats, names: Sequence[str], *, single: bool) -> list[int]:
        """The number of the group that each differentiated leaf is in."""
        if self.is_one:
            return [0] * len(floats.indices)
        numbers = {group.place: number for number, group in enumerate(self.groups)}
        of_all: list[int] = []
        for binding in bindings(self.spec, floats.trees, names, NAME, single=single):
            for entry in binding.entries:
                number = numbers[binding.place(entry.path)]
                of_all += [number] * paths.count_leaves(entry.subtree)
        return [of_all[index] for index in floats.indices]

    def check(self, trees: Sequence[Any], names: Sequence[str], *, single: bool) -> list[Fault]:
        """PTK201 to PTK204: where the prefix does not fit what is differentiated."""
        if self.is_one:
            return []
        found = bindings(self.spec, trees, names, NAME, single=single)
        return [fault for binding in found for fault in binding.faults]


def read(spec: Any) -> ClipNorms:
    """A copy of what is written as clip_norm: later changes to it have no effect."""
    try:
        return ClipNorms(jax.tree.map(lambda bound: bound, marked(spec)))
    except Exception:  # noqa: BLE001  keys that do not sort: told as a fault
        return ClipNorms(spec)


def check_clip_norm(spec: Any) -> list[Fault]:
    """PTK404: a bound that is no number of 0 or more. What is traced is trusted."""
    unsorted = check_sorts(marked(spec), Fault("PTK104", "", "", NAME, "", ""))
    if unsorted:
        return [finding.fault for finding in unsorted]
    entries = _entries(marked(spec))
    if not entries:
        fact = "there is no bound in it"
        return [Fault("PTK404", "", "", NAME, "", values.spec(spec), fact=fact)]
    faults = []
    for path, bound in entries:
        fact = _wrong(bound)
        if fact:
            place = NAME + paths.text(path)
            faults.append(Fault("PTK404", "", "", place, "", _written(bound), fact=fact))
    return faults


def _wrong(bound: Any) -> str:
    """What is wrong with a bound, `""` for nothing."""
    aval = values.typeof(bound)
    if bound is None:
        return "None is no bound (math.inf clips nothing)"
    if aval is None or aval.shape != () or not jnp.issubdtype(aval.dtype, np.number):
        return f"a bound must be a number, this is {_told(bound)}"
    if jnp.issubdtype(aval.dtype, np.complexfloating):
        return "a bound must be a real number"
    if isinstance(bound, Tracer):
        return ""
    number = float(bound)
    return "" if number >= 0 else f"a bound must be 0 or more, this is {_kind(number)}"


def _kind(number: float) -> str:
    return "NaN" if math.isnan(number) else "negative"


def _written(bound: Any) -> str:
    return values.leaf(bound) if np.ndim(bound) else values.spec(bound)


def _told(bound: Any) -> str:
    return values.leaf(bound) if values.typeof(bound) is not None else f"a {type(bound).__name__}"


def _entries(spec: Any) -> list[tuple[Any, Any]]:
    return paths.leaves_with_paths(spec, lambda node: node is None)
