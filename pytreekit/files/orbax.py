"""Checkpoints of orbax: the shapes that its own library finds in their metadata."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..faults import Fault
from ..show import values
from .opening import fault, json_of, opened, read_all, refuse, refuse_all, short

METADATA = "_METADATA"
ARRAYS = "array_metadatas"
DEFAULT = "default"

MOST_ENTRIES = 100_000
"""Entries of a folder that are looked at."""

QUIET, LONGEST_WAIT = 0.2, 5.0
"""Seconds without a complaint after which there is none to come, and seconds to wait at most."""

MOST_DIGITS = 18
"""Digits of the number of a step."""


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
        names = values.listing(sorted(short(one.name) for one in items))
        fact = f"holds {len(items)} trees: name one, {names}"
        refuse(fault("PTK702", name, fact), name)
    return (named or items or [None])[0]


def _folders(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        few = itertools.islice(entries, MOST_ENTRIES)
        return [Path(entry.path) for entry in few if entry.is_dir()]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def read(folder: Path, name: str) -> Any:
    """The tree of a checkpoint, as `jax.ShapeDtypeStruct`s; what is no array is None in it.

    Tuples are lists in it, and nodes of other types dicts: that is how orbax writes them down.

    Raises:
        SpecError: PTK702, if orbax is not installed; PTK701 and PTK704, if its metadata cannot be
            read; PTK705, for each array that has no shape, and if there is none.
    """
    for file in _metadata(folder):
        told = f"{name}/{file.relative_to(folder).as_posix()}"
        with opened(file, told) as stream:
            json_of(read_all(stream, told), told)
    faults: list[Fault] = []
    paths, structure = jax.tree_util.tree_flatten_with_path(_tree(folder, name), is_leaf=_is_end)
    leaves = [_leaf(value, path, faults, name) for path, value in paths]
    refuse_all(faults, name)
    if all(leaf is None for leaf in leaves):
        refuse(fault("PTK705", name, "has no arrays in it"), name)
    return structure.unflatten(leaves)


def _metadata(folder: Path) -> Iterator[Path]:
    """The files of JSON that orbax reads."""
    yield folder / METADATA
    others = [folder / "_CHECKPOINT_METADATA", folder / "_sharding"]
    arrays = folder / ARRAYS
    if arrays.is_dir():
        others += [arrays / one for one in sorted(os.listdir(arrays))[:MOST_ENTRIES]]  # noqa: PTH208
    yield from (file for file in others if os.path.lexists(file))


def _tree(folder: Path, name: str) -> Any:
    try:
        import orbax.checkpoint as ocp
        from etils import epath
    except ImportError:
        fact = "is a checkpoint of orbax, which is not installed"
        refuse(fault("PTK702", name, fact, note="pip install orbax-checkpoint"), name)
    try:
        with _quiet_after_an_error(str(folder.resolve())):
            found: Any = ocp.StandardCheckpointHandler().metadata(epath.Path(folder.resolve()))
    except Exception as error:  # noqa: BLE001  of damaged files it raises anything
        said = values.error(error, 120).replace(str(folder.resolve()), name)
        refuse(fault("PTK704", name, f"orbax cannot read it: {said}"), name)
    return getattr(found, "tree", found)


@contextlib.contextmanager
def _quiet_after_an_error(folder: str) -> Iterator[None]:
    """Nothing is printed of the arrays that are still being opened when the first of them fails.

    orbax opens all at once, and ends its event loop with the first error. Of each that is opened
    later, tensorstore complains where Python prints what nobody can catch; of each that fails
    later, asyncio tells when its task is forgotten, unless somebody has asked for its error.

    Args:
        folder: The folder that they are opened in, which is told in their errors.
    """
    before, last = sys.unraisablehook, time.monotonic()

    def hook(raised: Any) -> None:
        nonlocal last
        if str(raised.exc_value) == "Event loop is closed":
            last = time.monotonic()
        else:
            before(raised)

    sys.unraisablehook = hook
    try:
        yield
    except Exception:
        last, end = time.monotonic(), time.monotonic() + LONGEST_WAIT
        while time.monotonic() < min(last + QUIET, end):
            time.sleep(QUIET / 10)
        for its in gc.get_objects():
            if type(its) is asyncio.Task and its.done() and folder in repr(its):
                with contextlib.suppress(asyncio.CancelledError):
                    its.exception()
        raise
    finally:
        sys.unraisablehook = before


def _is_end(node: Any) -> bool:
    return node is None or hasattr(node, "shape")


def _leaf(value: Any, path: Any, faults: list[Fault], name: str) -> Any:
    if value is None or not hasattr(value, "shape"):
        return None
    text = jax.tree_util.keystr(path, simple=True, separator="/")
    if value.shape is None or value.dtype is None:
        faults.append(fault("PTK705", name, "has no shape and dtype", text))
        return None
    return jax.ShapeDtypeStruct(tuple(value.shape), np.dtype(value.dtype))
