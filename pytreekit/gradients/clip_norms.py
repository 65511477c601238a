"""`clip_norm=`: one bound for a whole gradient, or one for each part of it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ..faults import Fault
from ..show import values
from ..specs.bind import check_sorts
from ..specs.rest import marked
from ..specs.ruled import is_rules
from ..trees import paths
from .floats import Floats
from .where import bindings, misfits

if TYPE_CHECKING:
    from ..specs.rules import Rules

NAME = "clip_norm"
DEFAULT = "(default)"
"""What the default of rules is called beside the patterns."""


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
    """What is written as clip_norm: a number, a pytree prefix of what is differentiated, rules."""

    spec: Any

    @property
    def is_one(self) -> bool:
        """Whether there is one bound for the whole gradient."""
        return paths.is_leaf(self.spec) and not is_rules(self.spec)

    @functools.cached_property
    def groups(self) -> list[Group]:
        """A group for each entry, and for each rule where there are rules."""
        return _groups(self.spec)

    def grouped(self, values_of: Array) -> Any:
        """The columns of an array, one for each group, in the structure of clip_norm.

        In the place of rules there is a dict, from the text of each pattern.
        """
        columns = iter([values_of[:, index] for index in range(values_of.shape[1])])
        leaves = [
            {name: next(columns) for name, _ in _ruled(leaf)} if is_rules(leaf) else next(columns)
            for leaf in jax.tree.leaves(self.spec)
        ]
        return jax.tree.structure(self.spec).unflatten(leaves)

    def group_of_each(self, floats: Floats, names: Sequence[str], *, single: bool) -> list[int]:
        """The number of the group that each differentiated leaf is in."""
        if self.is_one:
            return [0] * len(floats.indices)
        numbers = {group.place: number for number, group in enumerate(self.groups)}
        found: list[int | None] = []
        for binding in bindings(self.spec, floats.trees, names, NAME, single=single):
            of_path = {its.path: numbers[binding.place(its.spec_path)] for its in binding}
            found += [of_path.get(path) for path, _ in paths.leaves_with_paths(binding.tree)]
        return [number for index in floats.indices if (number := found[index]) is not None]

    def check(self, trees: Sequence[Any], names: Sequence[str], *, single: bool) -> list[Fault]:
        """PTK201 to PTK204 and PTK305: where it does not fit what is differentiated."""
        if self.is_one:
            return []
        return misfits(bindings(self.spec, trees, names, NAME, single=single))


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
    groups = _groups(marked(spec))
    if not groups:
        fact = "there is no bound in it"
        return [Fault("PTK404", "", "", NAME, "", values.spec(spec), fact=fact)]
    faults = []
    for place, bound in groups:
        fact = _wrong(bound)
        if fact:
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


def _groups(spec: Any) -> list[Group]:
    groups = []
    for path, bound in paths.leaves_with_paths(spec, lambda node: node is None):
        place = NAME + paths.text(path)
        if is_rules(bound):
            at = {name: f"[{name!r}]" for name, _ in _ruled(bound)} | {DEFAULT: ".default"}
            groups += [Group(place + at[name], its) for name, its in _ruled(bound)]
        else:
            groups.append(Group(place, bound))
    return groups


def _ruled(rules: Rules) -> list[tuple[str, Any]]:
    """The bound of each rule by the text of its pattern, of which the first wins."""
    bounds: dict[str, Any] = {}
    for rule in rules.entries:
        bounds.setdefault(rule.pattern.text, rule.value)
    return [*bounds.items(), *[(DEFAULT, rules.default)] * rules.has_default]
