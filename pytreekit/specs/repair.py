"""Repair a spec tree: write repairs into a copy of it, and say in text what changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax

from ..show import values as shown
from ..trees import paths
from ..trees.replace import replaced
from .bind import Binding
from .finding import Replace, Revalue
from .ruled import is_rules

if TYPE_CHECKING:
    from .rules import Rules

MOST_CHANGES = 2
"""Changes that a hint spells out."""

LONGEST_VALUE = 160
"""Characters of a value that a hint writes out: one that is cut nobody can follow."""

LONG_STATEMENT = 60
"""Characters from which on a dict is not written out for one key that changes."""

_DEEPEST_PREFIX = 32


def respecified(binding: Binding, repairs: Sequence[Replace | Revalue]) -> Any:
    """The spec of a binding with repairs written into it; the binding's own spec is left alone."""
    if is_rules(binding.spec):
        return binding.spec | _overriding(binding.spec, binding, repairs)
    new = {repair.path: repair.spec for repair in repairs if isinstance(repair, Replace)}
    values = {repair.path: repair.value for repair in repairs if isinstance(repair, Revalue)}
    if values and not new:
        for path, value, subtree in binding.entries:
            leaves = paths.leaves_with_paths(subtree, binding.is_leaf)
            its = [values.get(path + below, value) for below, _ in leaves]
            if not all(paths.same(one, value) for one in its):
                new[path] = _prefix(subtree, its, binding.is_leaf)
    return replaced(binding.spec, new)


def _overriding(rules: Rules, binding: Binding, repairs: Sequence[Replace | Revalue]) -> Rules:
    """A rule for each leaf that is to have another value.

    Raises:
        TypeError: If no rule can say what is to be repaired.
    """
    from .globs import escaped

    pairs = []
    for repair in repairs:
        text = binding.text(repair.path)
        if text is None or not isinstance(repair, Revalue):
            raise TypeError("rules give values to leaves that they match")
        keys = text.split("/") if text or repair.path else []
        pairs.append(("/" + "/".join(map(escaped, keys)), repair.value))
    return type(rules)(pairs, split=rules.split)


def _prefix(tree: Any, values: list[Any], also: Any, depth: int = 0) -> Any:
    """The shortest prefix of `tree` that gives its leaves these values."""
    if all(paths.same(value, values[0]) for value in values):
        return values[0]
    if depth == _DEEPEST_PREFIX:
        return jax.tree.structure(tree, is_leaf=also).unflatten(values)
    children, structure = paths.children(tree)
    below = iter(values)
    nodes = [
        (child, list(itertools.islice(below, paths.count_leaves(child, also))))
        for _, child in children
    ]
    return structure.unflatten(
        [_prefix(child, its, also, depth + 1) if its else None for child, its in nodes]
    )


def change(name: str, old: Any, new: Any) -> str:
    """What to write to get from one spec to another: `in_axes[0]['b'] = None`."""
    said = list(_changes(name, old, new))
    more = len(said) - MOST_CHANGES
    alike = [f"and {more} more alike"] if more > 0 else []
    return "; ".join([*said[:MOST_CHANGES], *alike])


def _added(name: str, old: Rules, new: Rules) -> Iterator[str]:
    """A statement for each rule that now comes before those that there were."""
    for rule in new.entries[: len(new.entries) - len(old.entries)]:
        yield f"{name} |= ptk.Rules([({rule.pattern.text!r}, {rule.value!r})])"


def _changes(name: str, old: Any, new: Any) -> Iterator[str]:
    """A statement for each of the smallest places that differ."""
    pending: list[tuple[str, Any, Any]] = [(name, old, new)]
    while pending:
        place, old, new = pending.pop()
        if is_rules(old) and is_rules(new):
            yield from _added(place, old, new)
            continue
        if _is_value(old) or _is_value(new) or not _alike(old, new):
            if not equal(old, new):
                yield _statement(place, old, new)
            continue
        pairs = zip(paths.children(old)[0], paths.children(new)[0], strict=True)
        below = [
            (place + paths.text((key,)), one, other)
            for (key, one), (_, other) in pairs
            if one is not other
        ]
        pending.extend(reversed(below))


def _statement(place: str, old: Any, new: Any) -> str:
    whole = f"{place} = {shown.spec(new, LONGEST_VALUE)}"
    if type(old) is not dict or type(new) is not dict or len(whole) < LONG_STATEMENT:
        return whole
    added = [key for key in new if key not in old]
    gone = [key for key in old if key not in new]
    if len(added) == 1 and not gone:
        return f"{place}[{added[0]!r}] = {shown.spec(new[added[0]])}"
    return f"del {place}[{gone[0]!r}]" if len(gone) == 1 and not added else whole


def _alike(old: Any, new: Any) -> bool:
    (_, structure), (_, new_structure) = paths.children(old), paths.children(new)
    return paths.same_level(old, structure, new, new_structure)


def _is_value(spec: Any) -> bool:
    return spec is None or paths.is_leaf(spec)


def equal(one: Any, other: Any) -> bool:
    """Whether two specs are the same: containers, values and the types of both."""
    pending = [(one, other)]
    while pending:
        one, other = pending.pop()
        if _is_value(one) or _is_value(other):
            if type(one) is not type(other) or not paths.same(one, other):
                return False
        elif not _alike(one, other):
            return False
        else:
            below = zip(paths.children(one)[0], paths.children(other)[0], strict=True)
            pending.extend((child, its) for (_, child), (_, its) in below)
    return True
