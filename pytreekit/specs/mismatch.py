"""What differs between a node of a spec and the node that it meets: faults PTK201 to PTK204."""

from __future__ import annotations

import collections
import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

import jax

from ..faults import Fault
from ..show import values
from ..trees import paths
from ..trees.paths import KeyPath
from .finding import Finding, Replace

_MOST_COMPARED = 10_000
"""Pairs of names that are compared: that takes time in their product."""

Place = Callable[..., Fault]
"""`Fault` with everything filled in that says where."""

_REBUILDABLE = (dict, list, tuple, collections.OrderedDict, collections.defaultdict)


def mismatches(place: Place, path: KeyPath, spec: Any, tree: Any, *, leaf: bool) -> list[Finding]:
    """What keeps `spec`, a container, from matching `tree` at `path`; both are looked at one level.

    Args:
        place: Makes a fault at this place.
        path: The key path of both.
        spec: A node of the spec.
        tree: What the spec meets there.
        leaf: Whether `tree` is a leaf.
    """
    if leaf or tree is None:
        return [_too_deep(place, path, spec, tree)]
    spec_keys, keys = _keys(spec), _keys(tree)
    if type(spec) is not type(tree):
        return [_types_differ(place, path, spec, tree)]
    if isinstance(tree, dict) and spec_keys.keys() != keys.keys():
        return _keys_differ(place, path, spec, tree)
    if len(spec_keys) != len(keys):
        return [_lengths_differ(place, path, spec, tree)]
    return [_static_differs(place, path, spec, tree)]


def _too_deep(place: Place, path: KeyPath, spec: Any, tree: Any) -> Finding:
    what = "is None, which has no leaves" if tree is None else "is one leaf"
    fault = place(
        code="PTK202",
        found=values.tree(None) if tree is None else values.leaf(tree),
        wanted=values.spec(spec),
        fact=f"{what}, the spec has a {values.tree(spec, len(_keys(spec)))}",
    )
    return Finding(fault, _prefixes(path, spec))


def _types_differ(place: Place, path: KeyPath, spec: Any, tree: Any) -> Finding:
    here, there = _type_names(tree, spec)
    fault = place(
        code="PTK202",
        found=values.tree(tree, len(_keys(tree))),
        wanted=values.spec(spec),
        fact=f"is a {here}, the spec has a {there}",
    )
    return Finding(fault, (*_retyped(path, spec, tree), *_prefixes(path, spec)))


def _keys_differ(place: Place, path: KeyPath, spec: Any, tree: Any) -> list[Finding]:
    spec_keys, keys = _keys(spec), _keys(tree)
    extra = [key for key in spec_keys if key not in keys]
    missing = [key for key in keys if key not in spec_keys]
    renamed = _pairs(extra, missing)
    repairs = _with_keys(path, spec, tree, renamed)
    found = values.tree(tree, len(keys))
    findings = []
    for key in extra:
        close = renamed.get(key)
        has = f"did you mean {_name(close)}?" if close else f"its keys are {_listing(keys)}"
        fault = place(code="PTK201", found=found, wanted=values.spec(spec_keys[key]))
        fault = dataclasses.replace(
            fault, spec_path=fault.spec_path + key, fact=f"has no key {_name(key)}", note=has
        )
        findings.append(Finding(fault, repairs))
    for key in missing:
        fault = place(code="PTK201", found=_short(keys[key]), wanted="")
        fault = dataclasses.replace(
            fault,
            path=fault.path + key,
            fact="has no entry in the spec",
            note=f"its keys are {_listing(spec_keys)}",
        )
        findings.append(Finding(fault, repairs))
    return findings


def _lengths_differ(place: Place, path: KeyPath, spec: Any, tree: Any) -> Finding:
    spec_keys, keys = _keys(spec), _keys(tree)
    fault = place(
        code="PTK203",
        found=values.tree(tree, len(keys)),
        wanted=values.spec(spec),
        fact=f"has {len(keys)} entries, the spec has {len(spec_keys)}",
    )
    return Finding(fault, (*_resized(path, spec, tree), *_prefixes(path, spec)))


def _static_differs(place: Place, path: KeyPath, spec: Any, tree: Any) -> Finding:
    names = _differing_fields(spec, tree)
    fact = f"static {', '.join(names)} differs" if names else "static data differs"
    code = "PTK204"
    if isinstance(tree, collections.OrderedDict):
        code, fact = "PTK201", "has its keys in another order"
    fault = place(
        code=code,
        found=values.tree(tree),
        wanted=values.spec(spec),
        fact=fact,
        note="" if names or code == "PTK201" else "it must compare equal (==)",
    )
    return Finding(fault, (*_retyped(path, spec, tree), *_prefixes(path, spec)))


def _prefixes(path: KeyPath, spec: Any) -> tuple[Replace, ...]:
    """One value for all that lies below: each that the spec has there, then None."""
    below = jax.tree.leaves(spec, is_leaf=lambda node: node is None)
    distinct = [value for i, value in enumerate(below[:8]) if value not in below[:i]]
    distinct.sort(key=lambda value: value is None)
    return tuple(Replace(path, value) for value in [*distinct, *[None] * (None not in distinct)])


def _retyped(path: KeyPath, spec: Any, tree: Any) -> tuple[Replace, ...]:
    """The spec's entries in a container like the tree's, by key, else by position."""
    spec_children, _ = paths.children(spec)
    children, structure = paths.children(tree)
    if len(spec_children) != len(children):
        return ()
    by_key = _keys(spec)
    ordered = [
        by_key.get(paths.text((key,)), by_position[1])
        for (key, _), by_position in zip(children, spec_children, strict=True)
    ]
    return _rebuilt(path, structure, ordered)


def _resized(path: KeyPath, spec: Any, tree: Any) -> tuple[Replace, ...]:
    """The spec cut to the tree's length, or filled up with None."""
    if type(tree) not in _REBUILDABLE:
        return ()
    entries = list(_keys(spec).values())
    children, structure = paths.children(tree)
    filled = [*entries[: len(children)], *[None] * (len(children) - len(entries))]
    return _rebuilt(path, structure, filled)


def _with_keys(path: KeyPath, spec: Any, tree: Any, renamed: dict[str, str]) -> tuple[Replace, ...]:
    """The spec with exactly the tree's keys: renamed where one is close, None where one lacks."""
    spec_keys = _keys(spec)
    source = {new: old for old, new in renamed.items()}
    children, structure = paths.children(tree)
    texts = [paths.text((key,)) for key, _ in children]
    filled = [spec_keys.get(source.get(key, key)) for key in texts]
    return _rebuilt(path, structure, filled)


def _rebuilt(path: KeyPath, structure: Any, entries: list[Any]) -> tuple[Replace, ...]:
    """A node of the tree's type with spec values in it: what the user would have to write."""
    try:
        return (Replace(path, structure.unflatten(entries)),)
    except Exception:  # noqa: BLE001  a user's constructor may refuse; then there is no such repair
        return ()


def _keys(node: Any) -> dict[str, Any]:
    return {paths.text((key,)): child for key, child in paths.children(node)[0]}


def _pairs(extra: list[str], missing: list[str]) -> dict[str, str]:
    """Which extra key was probably meant for which missing one."""
    if len(extra) == len(missing) == 1:
        return {extra[0]: missing[0]}
    pairs: dict[str, str] = {}
    if len(extra) * len(missing) > _MOST_COMPARED:
        return pairs
    for key in extra:
        free = [other for other in missing if other not in pairs.values()]
        close = difflib.get_close_matches(key, free, n=1)
        pairs |= {key: close[0]} if close else {}
    return pairs


def _type_names(one: Any, other: Any) -> tuple[str, str]:
    names = type(one).__name__, type(other).__name__
    if names[0] != names[1]:
        return names
    return _full_name(type(one)), _full_name(type(other))


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _differing_fields(one: Any, other: Any) -> list[str]:
    """The dataclass fields that are no children and differ, where that can be told."""
    if not dataclasses.is_dataclass(one):
        return []
    dynamic = {paths.plain(key) for key, _ in paths.children(one)[0]}
    static = [field.name for field in dataclasses.fields(one) if field.name not in dynamic]
    return [name for name in static if not _equal(one, other, name)]


def _equal(one: Any, other: Any, name: str) -> bool:
    try:
        return bool(getattr(one, name, None) == getattr(other, name, None))
    except Exception:  # noqa: BLE001  arrays have no truth value, and users write __eq__
        return False


def _name(key: str) -> str:
    """A key as the user wrote it, without the brackets of a path."""
    return key[1:-1] if key.startswith("[") else key.removeprefix(".")


def _listing(keys: Any) -> str:
    return values.listing([_name(key) for key in keys]) or "none"


def _short(node: Any) -> str:
    return values.leaf(node) if paths.is_leaf(node) else values.tree(node, len(_keys(node)))
