"""The arrays that orbax has stored, opened by tensorstore for their shapes alone."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax

from .arrays import dtype_of, wrong_shape
from .opening import LONGEST_FACT, brief, fault, refuse

DATABASE = "manifest.ocdbt"
"""The file that says where the arrays are, if they are not in a folder each."""

OUT = "leads out of its folder"

PATIENCE = 60.0
"""Seconds to wait for one array."""

AT_ONCE = 256
"""Arrays that are opened at once."""


class Store:
    """The arrays in a folder."""

    def __init__(self, folder: Path, name: str, *, zarr3: bool) -> None:
        """Look at a folder.

        Args:
            folder: The folder.
            name: What it is called.
            zarr3: Whether arrays are stored in the third version of zarr.

        Raises:
            SpecError: PTK802, if tensorstore is not installed; PTK804, if the database cannot be
                read.
        """
        try:
            import tensorstore
        except ImportError:
            fact = "is a checkpoint of orbax, which is not installed"
            refuse(fault("PTK802", name, fact, note="pip install orbax-checkpoint"), name)
        self._tensorstore, self._context = tensorstore, tensorstore.Context()
        self._place = f"{os.path.abspath(folder)}/"  # noqa: PTH100  links stay as they are
        self._base = {"driver": "file", "path": self._place}
        self._name = name
        self._driver = "zarr3" if zarr3 else "zarr"
        self._has_database = (folder / DATABASE).exists()
        if self._has_database:
            self._check_database()

    def shapes(self, names: Iterable[str]) -> Iterator[Any]:
        """A `jax.ShapeDtypeStruct`, or what is wrong, for each array.

        Args:
            names: What the arrays are called.
        """
        left = iter(names)
        while batch := list(itertools.islice(left, AT_ONCE)):
            yield from map(self._shape, [self._opened(name) for name in batch])

    def _check_database(self) -> None:
        store = self._tensorstore.KvStore.open({"driver": "ocdbt", "base": self._base})
        try:
            store.result(timeout=PATIENCE).read("").result(timeout=PATIENCE)
        except (ValueError, TimeoutError) as error:
            said = f"its {DATABASE} cannot be read: {self._said(error)}"
            refuse(fault("PTK804", self._name, said), self._name)

    def _opened(self, name: str) -> Any:
        """An array that is being opened; what is wrong, if it will not be."""
        store = {**self._base, "path": f"{self._place}{name}/"}
        if self._has_database:
            store = {"driver": "ocdbt", "base": self._base, "path": f"{name}/"}
        elif not _is_below(name):
            return OUT
        spec = {"driver": self._driver, "kvstore": store}
        return self._tensorstore.open(spec, open=True, read=True, context=self._context)

    def _shape(self, opened: Any) -> Any:
        if isinstance(opened, str):
            return opened
        try:
            array = opened.result(timeout=PATIENCE)
        except (ValueError, TimeoutError) as error:  # of damaged files, and of slow ones
            return f"cannot be opened: {self._said(error)}"
        shape, dtype = list(array.shape), dtype_of(array.dtype.name)
        if dtype is None:
            return f"has no dtype {brief(array.dtype.name)}"
        return wrong_shape(shape) or jax.ShapeDtypeStruct(tuple(shape), dtype)

    def _said(self, error: Exception) -> str:
        """What tensorstore says of a file, without its options."""
        said = str(error).partition(" [")[0].replace(self._place, f"{self._name}/")
        return said[:LONGEST_FACT] or "it takes too long"


def _is_below(name: str) -> bool:
    """Whether a name is that of a file in the folder, or in a folder below it, on any system."""
    return not set(name) & set("\\:\0") and not name.startswith("/") and ".." not in name.split("/")
