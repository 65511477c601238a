"""What differs between a node of a spec and the node that it meets: faults PTK201 to PTK204."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from typing import Any

from ..show import values
from ..trees import paths
from ..trees.leaves import full_name
from ..trees.nodes import differing_fields
from .finding import Finding
from .meeting import Meeting, keyed, likely_pairs


def mismatches(met: Meeting) -> list[Finding]:
    """What keeps a container of the spec from matching; both are looked at one level."""
    if met.leaf or met.tree is None:
        return [_too_deep(met)]
    if type(met.spec) is not type(met.tree):
        return [_types_differ(met)]
    if isinstance(met.tree, dict) and met.spec_keys.keys() != met.keys.keys():
        return _keys_differ(met)
    if len(met.spec_keys) != len(met.keys):
        return [_lengths_differ(met)]
    return [_static_differs(met)]


def _too_deep(met: Meeting) -> Finding:
    what = "is None, which has no leaves" if met.tree is None else "is one leaf"
    fault = met.fault(
        "PTK202",
        found="" if met.tree is None else values.leaf(met.tree),
        wanted=values.spec(met.spec),
        fact=f"{what}, the spec has a {_container(met.spec)}",
    )
    return Finding(fault, met.prefixes())


def _types_differ(met: Meeting) -> Finding:
    here, there = _type_names(met.tree, met.spec)
    fault = met.fault(
        "PTK202",
        found=_container(met.tree),
        wanted=values.spec(met.spec),
        fact=f"is a {here}, the spec has a {there}",
    )
    return Finding(fault, (*met.retyped(), *met.prefixes()))


def _keys_differ(met: Meeting) -> list[Finding]:
    spec_keys, keys = met.spec_keys, met.keys
    extra = [key for key in spec_keys if key not in keys]
    missing = [key for key in keys if key not in spec_keys]
    renamed = likely_pairs(extra, missing)
    repairs = met.rekeyed(renamed)
    findings = []
    for key in extra:
        note = f"its keys are {_listing(keys)}"
        if key in renamed:
            note = f"did you mean {_name(renamed[key])}?"
        fault = met.fault(
            "PTK201",
            found=_container(met.tree),
            wanted=values.spec(spec_keys[key]),
            fact=f"has no key {_name(key)}",
            note=note,
        )
        at_key = dataclasses.replace(fault, spec_path=fault.spec_path + key)
        findings.append(Finding(at_key, repairs))
    for key in missing:
        fault = met.fault(
            "PTK201",
            found=_short(keys[key]),
            wanted="",
            key=key,
            fact="has no entry in the spec",
            note=f"its keys are {_listing(spec_keys)}",
        )
        findings.append(Finding(fault, repairs))
    return findings


def _lengths_differ(met: Meeting) -> Finding:
    fault = met.fault(
        "PTK203",
        found=_container(met.tree),
        wanted=values.spec(met.spec),
        fact=f"has {_entries(met.keys)}, the spec has {_entries(met.spec_keys)}",
    )
    return Finding(fault, (*met.resized(), *met.prefixes()))


def _static_differs(met: Meeting) -> Finding:
    names = differing_fields(met.spec, met.tree)
    code, fact, note = "PTK204", "static data differs", "it must compare equal (==)"
    if names:
        fact, note = f"static {', '.join(names)} differs", ""
    if isinstance(met.tree, collections.OrderedDict):
        code, fact, note = "PTK201", "has its keys in another order", ""
    fault = met.fault(
        code, found=_container(met.tree), wanted=values.spec(met.spec), fact=fact, note=note
    )
    return Finding(fault, (*met.retyped(), *met.prefixes()))


def _type_names(one: Any, other: Any) -> tuple[str, str]:
    """The names of two types, in full where they are the same in short."""
    names = type(one).__name__, type(other).__name__
    return names if names[0] != names[1] else (full_name(type(one)), full_name(type(other)))


def _name(key: str) -> str:
    """A key as the user wrote it, without the brackets of a path."""
    return key[1:-1] if key.startswith("[") else key.removeprefix(".")


def _listing(keys: Iterable[str]) -> str:
    return values.listing([_name(key) for key in keys]) or "none"


def _entries(keys: dict[str, Any]) -> str:
    return values.count(len(keys), "entry", "entries")


def _container(node: Any) -> str:
    return values.tree(node, len(keyed(node)))


def _short(node: Any) -> str:
    return values.leaf(node) if paths.is_leaf(node) else _container(node)
