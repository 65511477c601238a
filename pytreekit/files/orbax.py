"""Checkpoints of orbax: its tree from its metadata, each shape from the store of its arrays.

orbax itself ends with the first array that cannot be opened, and what the others say is printed
beside. Here tensorstore, which it stores them with, is asked for each, so that each that is damaged
is told by its name.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ..faults import Fault
from ..show.values import listing
from .opening import (
    MOST_FAULTS,
    brief,
    fault,
    json_of,
    opened,
    read_all,
    refuse,
    refuse_all,
    short,
    wrong_path,
)
from .store import DATABASE, OUT, Store

METADATA = "_METADATA"
DEFAULT = "default"

MOST_ENTRIES = 100_000
"""Entries of a folder that are looked at."""

MOST_DIGITS = 18
"""Digits of the number of a step."""

DEEPEST = 100
"""How deep a tree may be nested."""

SEQUENCE = 1
"""What orbax writes down of a key that is an index."""

_EMPTY: dict[str, type] = {"Dict": dict, "List": list, "Tuple": tuple}
_NOTHING = {"None", "NamedTuple", "string"}


def find(folder: Path, name: str, *, steps: bool = True) -> Path | None:
    """The folder of a tree in a folder of orbax: of the last step, and of its only item.

    Args:
        folder: Where to look.
        name: What it is called.
        steps: Whether there may be steps in it.

    Raises:
        SpecError: PTK802, if there are several items.
    """
    if (folder / METADATA).is_file():
        return folder
    below = _folders(folder)
    items = [one for one in below if (one / METADATA).is_file()]
    numbered = [one for one in below if _is_number(one.name)]
    if not items and numbered and steps:
        return find(max(numbered, key=lambda one: int(one.name)), name, steps=False)
    named = [one for one in items if one.name == DEFAULT]
    if len(items) > 1 and not named:
        names = listing(sorted(short(one.name) for one in items))
        fact = f"holds {len(items)} trees: name one, {names}"
        refuse(fault("PTK802", name, fact), name)
    return (named or items or [None])[0]


def _folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        few = [Path(entry.path) for entry in itertools.islice(entries, MOST_ENTRIES)]
    return [one for one in few if one.is_dir()]  # a loop of links is none: `entry` would raise


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


class _Entry(NamedTuple):
    """An entry of the metadata.

    Attributes:
        text: Its path, or what stands in its place.
        keys: The keys of its path, each with whether it is an index.
        kind: What orbax calls its type.
        fact: What is wrong with it, `""` for nothing.
    """

    text: str
    keys: tuple[tuple[str, bool], ...] = ()
    kind: str = ""
    fact: str = ""

    @property
    def name(self) -> str:
        """What its array is called in the store."""
        return ".".join(key for key, _ in self.keys)

    @property
    def is_array(self) -> bool:
        """Whether it is an array, by what orbax says."""
        return not self.fact and self.kind not in _NOTHING and self.kind not in _EMPTY


def read(folder: Path, name: str) -> Any:
    """The tree of a checkpoint, as `jax.ShapeDtypeStruct`s; what is no array is None in it.

    Tuples are lists in it, and nodes of other types dicts: that is how orbax writes them down.

    Raises:
        SpecError: PTK802, if tensorstore is not installed; PTK801 and PTK804, if its metadata
            cannot be read; PTK805, for each entry that is no array, and if there is none; PTK807,
            for each that leads out of the folder.
    """
    told = f"{name}/{METADATA}"
    refuse_all(list(itertools.islice(_no_files(folder, name), MOST_FAULTS)), name)
    with opened(folder / METADATA, told) as stream:
        data = json_of(read_all(stream, told), told)
    rows = data.get("tree_metadata") if isinstance(data, dict) else None
    if not isinstance(rows, dict):
        refuse(fault("PTK804", told, "has no mapping 'tree_metadata'"), name)
    if data.get("use_ocdbt") is True and not (folder / DATABASE).exists():
        refuse(fault("PTK804", name, f"has no {DATABASE}, which says where its arrays are"), name)
    store = Store(folder, name, zarr3=data.get("use_zarr3") is True)
    faults: list[Fault] = []
    root = _Branch()
    for entry, found in _leaves(store, list(map(_entry, rows, rows.values()))):
        fact = found if isinstance(found, str) else _put(root, entry, found)
        if fact:
            faults.append(fault("PTK807" if fact == OUT else "PTK805", name, fact, entry.text))
        if len(faults) >= MOST_FAULTS:
            break
    refuse_all(faults, name)
    tree = _finished(root, "", faults, name)
    refuse_all(faults, name)
    if not jax.tree.leaves(tree):
        refuse(fault("PTK805", name, "has no arrays in it"), name)
    return tree


def _leaves(store: Store, entries: list[_Entry]) -> Iterator[tuple[_Entry, Any]]:
    """What each entry stands for, what is wrong if it is text."""
    arrays = store.shapes(entry.name for entry in entries if entry.is_array)
    for entry in entries:
        if entry.fact:
            yield entry, entry.fact
        elif entry.is_array:
            yield entry, next(arrays)
        else:
            yield entry, _EMPTY.get(entry.kind, type(None))()


def _no_files(folder: Path, name: str) -> Iterator[Fault]:
    """PTK801 for all that would keep a reader waiting."""
    seen = 0
    for place, _, files in os.walk(folder):
        for file in files:
            path, seen = Path(place, file), seen + 1
            if seen > MOST_ENTRIES:
                return
            if path.exists() and not path.is_file():
                told = f"{name}/{path.relative_to(folder).as_posix()}"
                yield fault("PTK801", told, "is no regular file")


def _entry(text: str, row: Any) -> _Entry:
    """An entry of the metadata."""
    its = row if isinstance(row, dict) else {}
    keys, value = its.get("key_metadata"), its.get("value_metadata")
    kind = value.get("value_type") if isinstance(value, dict) else None
    if not isinstance(keys, list) or not keys or not isinstance(kind, str):
        return _Entry(text, fact=f"is {brief(row)}, not the keys and the type of an entry")
    pairs = [(key.get("key"), key.get("key_type")) for key in keys if isinstance(key, dict)]
    if len(pairs) < len(keys) or not all(isinstance(key, str) for key, _ in pairs):
        return _Entry(text, fact=f"has the keys {brief(keys)}")
    if len(keys) > DEEPEST:
        return _Entry(text, fact=f"is nested more than {DEEPEST} deep")
    path = tuple((str(key), number == SEQUENCE) for key, number in pairs)
    told = "/".join(key for key, _ in path)
    return _Entry(told, path, kind, wrong_path(told))


class _Branch:
    """A node of the tree that is being made: what is below it, and whether by index."""

    def __init__(self) -> None:
        self.below: dict[str, Any] = {}
        self.indexed: set[bool] = set()


def _put(root: _Branch, entry: _Entry, leaf: Any) -> str:
    """Put a leaf at its place, and say what is wrong with that, `""` for nothing."""
    node = root
    for key, is_index in entry.keys[:-1]:
        node.indexed.add(is_index)
        node = node.below.setdefault(key, _Branch())
        if not isinstance(node, _Branch):
            return "lies below an array"
    key, is_index = entry.keys[-1]
    if key in node.below:
        return "is there twice"
    node.indexed.add(is_index)
    node.below[key] = leaf
    return ""


def _finished(node: Any, place: str, faults: list[Fault], name: str) -> Any:
    """A node with all below it: a list, if its keys are indices, else a dict."""
    if not isinstance(node, _Branch):
        return node
    below = {
        key: _finished(child, f"{place}/{key}" if place else key, faults, name)
        for key, child in node.below.items()
    }
    if node.indexed != {True}:
        return below
    numbers = [str(number) for number in range(len(below))]
    if set(numbers) != below.keys():
        faults.append(fault("PTK805", name, "is a list that lacks some of its indices", place))
        return None
    return [below[number] for number in numbers]
