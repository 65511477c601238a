"""A model in several safetensors files, and the index that says which array is in which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import values
from ..show.errors import SpecError
from ..trees.leaves import size_in_bytes
from . import safetensors
from .opening import brief, fault, few, refuse, refuse_all, short

ENDING = ".safetensors.index.json"

MOST_FILES = 10_000
"""Files of one model."""


class Indexed(NamedTuple):
    """What an index leads to.

    Attributes:
        tree: The arrays by their names.
        notes: What is right, and might still not be meant.
        files: The names of the files that hold them.
    """

    tree: dict[str, Any]
    notes: list[str]
    files: list[str]


def is_index(data: Any) -> bool:
    """Whether what a JSON file holds is an index."""
    return isinstance(data, dict) and isinstance(data.get("weight_map"), dict)


def read(data: dict[str, Any], folder: Path, name: str) -> Indexed:
    """The arrays that an index names, from the headers of the files in its folder.

    Files may be links to elsewhere, as they are in the cache of Hugging Face; it is the index that
    must not lead out of its folder.

    Args:
        data: What is in the index.
        folder: Where it lies.
        name: What it is called.

    Raises:
        SpecError: PTK804, if it is no index; PTK806, for arrays that its files lack; PTK807, for
            files out of its folder; and what is wrong with any of the files.
    """
    places: dict[str, str] = data["weight_map"]
    files = _files(places, name)
    held: dict[str, dict[str, Any]] = {}
    faults: list[Fault] = []
    for file in files:
        try:
            held[file] = safetensors.read(folder / file, file)
        except SpecError as error:
            faults += error.faults
    refuse_all(faults, name)
    refuse_all(few(_missing(places, held, name)), name)
    tree = {key: held[file][key] for key, file in places.items()}
    return Indexed(tree, list(_notes(data, tree, held)), files)


def _files(places: dict[str, Any], name: str) -> list[str]:
    """The files that an index names."""
    wrong = (
        fault("PTK804", name, f"must be in a file, not in {brief(file)}", key)
        for key, file in places.items()
        if not isinstance(file, str)
    )
    refuse_all(few(wrong), name)
    files = list(dict.fromkeys(places.values()))
    out = (
        fault("PTK807", name, f"names {short(file)!r}, which is not the name of a file beside it")
        for file in files
        if not is_beside(file)
    )
    refuse_all(few(out), name)
    if len(files) > MOST_FILES:
        fact = f"names {len(files):,} files, {MOST_FILES:,} are the most"
        refuse(fault("PTK804", name, fact), name)
    return files


def is_beside(file: str) -> bool:
    """Whether a text is the name of a file in the same folder, on any system.

    >>> [is_beside(name) for name in ("a.safetensors", "../a", "/a", "c:a", "..", "")]
    [True, False, False, False, False, False]
    """
    return file not in {"", ".", ".."} and not set(file) & set("/\\:\0")


def _missing(places: dict[str, str], held: dict[str, dict[str, Any]], name: str) -> Iterator[Fault]:
    for key, file in places.items():
        if key not in held[file]:
            elsewhere = next((its for its, arrays in held.items() if key in arrays), "")
            note = f"it is in {short(elsewhere)}" if elsewhere else ""
            yield fault("PTK806", name, f"is not in {short(file)}", key, note=note)


def _notes(
    data: dict[str, Any], tree: dict[str, Any], held: dict[str, dict[str, Any]]
) -> Iterator[str]:
    others = [key for arrays in held.values() for key in arrays if key not in tree]
    if others:
        counts = values.count(len(others), "array")
        yield f"its files hold {counts} that the index does not name: {short(others[0])}"
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    taken = sum(map(size_in_bytes, tree.values()))
    if type(total) is int and total != taken:
        yield f"the index says that its arrays have {_number(total)} bytes, they have {taken:,}"


def _number(number: int) -> str:
    return f"{number:,}" if abs(number) < 10**18 else "very many"
