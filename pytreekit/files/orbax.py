"""Checkpoints of orbax: its tree from its metadata, each shape from the store of its arrays.

orbax itself opens all arrays at once to tell their shapes, and one that cannot be opened has it end
with what the others say printed beside. Here tensorstore, which it stores them with, opens one
after the other, so that each that is damaged is told by its name.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax

from ..faults import Fault
from ..show.values import listing
from .arrays import dtype_of, wrong_shape
from .opening import (
    LONGEST_FACT,
    MOST_FAULTS,
    brief,
    fault,
    json_of,
    opened,
    read_all,
    refuse,
    refuse_all,
    short,
)

METADATA = "_METADATA"
STORE = "manifest.ocdbt"
DEFAULT = "default"

MOST_ENTRIES = 100_000
"""Entries of a folder that are looked at."""

MOST_DIGITS = 18
"""Digits of the number of a step."""

DEEPEST = 100
"""How deep a tree may be nested."""

PATIENCE = 60.0
"""Seconds to wait for one array."""

SEQUENCE = 1
"""What orbax writes down of a key that is an index."""

_NO_ARRAY: dict[str, Any] = {"Dict": {}, "List": [], "Tuple": ()}
_NOTHING = {"None", "NamedTuple", "string"}


def find(folder: Path, name: str, *, steps: bool = True) -> Path | None:
    """The folder of a tree in a folder of orbax: of the last step, and of its only item.

    Args:
        folder: Where to look.
        name: What it is called.
        steps: Whether there may be steps in it.

    Raises:
        SpecError: PTK702, if there are several items.
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
        refuse(fault("PTK702", name, fact), name)
    return (named or items or [None])[0]


def _folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        few = itertools.islice(entries, MOST_ENTRIES)
        return [Path(entry.path) for entry in few if entry.is_dir()]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


class _Entry(NamedTuple):
    """An entry of the metadata.

    Attributes:
        keys: The keys of its path, each with whether it is an index.
        kind: What orbax calls its type.
    """

    keys: tuple[tuple[str, bool], ...]
    kind: str

    @property
    def text(self) -> str:
        """Its path."""
        return "/".join(key for key, _ in self.keys)

    @property
    def name(self) -> str:
        """What its array is called in the store."""
        return ".".join(key for key, _ in self.keys)


Opener: TypeAlias = Callable[[str], Any]
"""What opens an array by its name in the store."""


def read(folder: Path, name: str) -> Any:
    """The tree of a checkpoint, as `jax.ShapeDtypeStruct`s; what is no array is None in it.

    Tuples are lists in it, and nodes of other types dicts: that is how orbax writes them down.

    Raises:
        SpecError: PTK702, if tensorstore is not installed; PTK701 and PTK704, if its metadata
            cannot be read; PTK705, for each entry that is no array, and if there is none; PTK707,
            for each that leads out of the folder.
    """
    told = f"{name}/{METADATA}"
    refuse_all(list(itertools.islice(_no_files(folder, name), MOST_FAULTS)), name)
    with opened(folder / METADATA, told) as stream:
        data = json_of(read_all(stream, told), told)
    rows = data.get("tree_metadata") if isinstance(data, dict) else None
    if not isinstance(rows, dict):
        refuse(fault("PTK704", told, "has no mapping 'tree_metadata'"), name)
    if data.get("use_ocdbt") is True and not (folder / STORE).exists():
        refuse(fault("PTK704", name, f"has no {STORE}, which says where its arrays are"), name)
    faults: list[Fault] = []
    open_array = _opener(folder, name, zarr3=data.get("use_zarr3") is True)
    root = _Branch()
    for key, row in rows.items():
        if len(faults) >= MOST_FAULTS:
            break
        entry = _entry(row)
        fact = entry if isinstance(entry, str) else _put(root, entry, open_array)
        if fact:
            code = "PTK707" if fact == _OUT else "PTK705"
            faults.append(fault(code, name, fact, key if isinstance(entry, str) else entry.text))
    refuse_all(faults, name)
    tree = _finished(root, "", faults, name)
    refuse_all(faults, name)
    if not jax.tree.leaves(tree):
        refuse(fault("PTK705", name, "has no arrays in it"), name)
    return tree


_OUT = "leads out of its folder"


def _no_files(folder: Path, name: str) -> Iterator[Fault]:
    """PTK701 for all that would keep a reader waiting."""
    seen = 0
    for place, _, files in os.walk(folder):
        for file in files:
            path, seen = Path(place, file), seen + 1
            if seen > MOST_ENTRIES:
                return
            if path.exists() and not path.is_file():
                told = f"{name}/{path.relative_to(folder).as_posix()}"
                yield fault("PTK701", told, "is no regular file")


def _entry(row: Any) -> _Entry | str:
    """An entry of the metadata; what is wrong with it, if it is none."""
    its = row if isinstance(row, dict) else {}
    keys, value = its.get("key_metadata"), its.get("value_metadata")
    kind = value.get("value_type") if isinstance(value, dict) else None
    if not isinstance(keys, list) or not keys or not isinstance(kind, str):
        return f"is {brief(row)}, not the keys and the type of an entry"
    if len(keys) > DEEPEST:
        return f"is nested more than {DEEPEST} deep"
    pairs = [(key.get("key"), key.get("key_type")) for key in keys if isinstance(key, dict)]
    if len(pairs) < len(keys) or not all(isinstance(key, str) for key, _ in pairs):
        return f"has the keys {brief(keys)}"
    return _Entry(tuple((str(key), number == SEQUENCE) for key, number in pairs), kind)


class _Branch:
    """A node of the tree that is being made: what is below it, and whether by index."""

    def __init__(self) -> None:
        self.below: dict[str, Any] = {}
        self.indexed: set[bool] = set()


def _put(root: _Branch, entry: _Entry, open_array: Opener) -> str:
    """Put an entry at its place, and say what is wrong with it, `""` for nothing."""
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
    if entry.kind in _NOTHING or entry.kind in _NO_ARRAY:
        node.below[key] = _NO_ARRAY.get(entry.kind)
        return ""
    found = open_array(entry.name)
    node.below[key] = found
    return found if isinstance(found, str) else ""


def _opener(folder: Path, name: str, *, zarr3: bool) -> Opener:
    """What opens arrays of a folder: a `jax.ShapeDtypeStruct`, or what is wrong, for each name."""
    try:
        import tensorstore
    except ImportError:
        fact = "is a checkpoint of orbax, which is not installed"
        refuse(fault("PTK702", name, fact, note="pip install orbax-checkpoint"), name)
    place, context = f"{os.path.abspath(folder)}/", tensorstore.Context()  # noqa: PTH100
    base = {"driver": "file", "path": place}
    in_one = (folder / STORE).exists()
    if in_one:
        _check_store(tensorstore, base, name)

    def open_array(array: str) -> Any:
        if not in_one and not _is_below(array):
            return _OUT
        store = {**base, "path": f"{place}{array}/"}
        if in_one:
            store = {"driver": "ocdbt", "base": base, "path": f"{array}/"}
        spec = {"driver": "zarr3" if zarr3 else "zarr", "kvstore": store}
        try:
            found = tensorstore.open(spec, open=True, read=True, context=context)
            return _shape(found.result(timeout=PATIENCE))
        except (ValueError, TimeoutError) as error:  # of damaged files, and of slow ones
            return f"cannot be opened: {_said(error, place)}"

    return open_array


def _check_store(tensorstore: Any, base: dict[str, str], name: str) -> None:
    """PTK704, if the file cannot be read that says where the arrays are."""
    store = tensorstore.KvStore.open({"driver": "ocdbt", "base": base})
    try:
        store.result(timeout=PATIENCE).read("").result(timeout=PATIENCE)
    except (ValueError, TimeoutError) as error:
        said = _said(error, base["path"])
        refuse(fault("PTK704", name, f"its {STORE} cannot be read: {said}"), name)


def _shape(array: Any) -> Any:
    """An array of tensorstore as a `jax.ShapeDtypeStruct`; what is wrong, if it can be none."""
    shape, dtype = list(array.shape), dtype_of(array.dtype.name)
    if dtype is None:
        return f"has no dtype {brief(array.dtype.name)}"
    return wrong_shape(shape) or jax.ShapeDtypeStruct(tuple(shape), dtype)


def _said(error: Exception, place: str) -> str:
    """What tensorstore says of a file, without its options."""
    said = str(error).partition(" [")[0].replace(place, "")
    return said[:LONGEST_FACT] or "it takes too long"


def _is_below(name: str) -> bool:
    """Whether a name is that of a file in the folder, or in a folder below it, on any system."""
    return not set(name) & set("\\:\0") and not name.startswith("/") and ".." not in name.split("/")


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
        faults.append(fault("PTK705", name, "is a list that lacks some of its indices", place))
        return None
    return [below[number] for number in numbers]
