"""What `pytreekit tree` shows: the arrays of a tree, alike ones in one row."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax

from ..show import folding
from ..show import values as shown
from ..show.sizes import in_bytes
from ..show.table import Head
from ..trees.leaves import bytes_of
from .answers import DONE, Answer, opened
from .saying import line

MOST_KINDS = 3
"""Dtypes that are told of one row."""


class _Row(NamedTuple):
    """An array, or all of one row."""

    path: str
    found: str
    dtype: str
    leaves: int
    elements: int
    bytes: int


def flat(tree: Any) -> dict[str, Any]:
    """The arrays of a tree by the texts of their paths."""
    pairs = jax.tree.leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in pairs}


def show(answer: Answer, file: str | None, depth: int | None, *, every_leaf: bool) -> int:
    """Show the arrays of a file.

    Args:
        answer: Where to.
        file: The file, as for `opened`.
        depth: How many keys of a path to tell apart, None for all.
        every_leaf: Whether each array has a row, instead of one for all that are alike.
    """
    its = opened(file)
    leaves = flat(its.tree)
    rows = [_row(text, leaf) for text, leaf in leaves.items()]
    total = _joined("total", rows)
    answer.data(
        file=its.name,
        form=its.form,
        total={"leaves": total.leaves, "elements": total.elements, "bytes": total.bytes},
        notes=its.notes,
    )
    answer.more(lambda: {"leaves": list(map(_data, leaves.values(), rows))})
    if depth is not None:
        rows = _grouped(rows, lambda row: _cut(row.path, depth), lambda its: _cut(its[0], depth))
    elif not every_leaf:
        rows = _grouped(rows, lambda row: folding.kind(row.path) + row.found, folding.numberless)
    cells = [_cells(row) for row in [*rows, total]]
    counts = f"{shown.count(total.leaves, 'array')}, {shown.count(total.elements, 'element')}"
    title = f"{line(its.name)}, {its.form}\n{counts}, {in_bytes(total.bytes)}"
    columns = ("path", "arrays", "found", "elements", "bytes")
    answer.table(Head(title, columns, ("arrays", *columns[3:])), cells)
    for note in its.notes:
        answer.text(f"note: {line(note)}")
    return DONE


def _data(leaf: Any, row: _Row) -> dict[str, Any]:
    """An array for programs."""
    return {"path": row.path, "dtype": row.dtype, "shape": leaf.shape, "bytes": row.bytes}


def _row(path: str, leaf: Any) -> _Row:
    return _Row(path, *_alike(leaf.dtype, leaf.shape))


@functools.lru_cache(1024)
def _alike(dtype: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """What stands in the rows of all arrays of one dtype and shape."""
    elements = math.prod(shape)
    return shown.array(dtype, shape), str(dtype), 1, elements, bytes_of(elements, dtype)


def _cut(path: str, depth: int) -> str:
    """The first keys of a path; names of other frameworks have dots between theirs."""
    separator = "/" if "/" in path else "."
    return separator.join(path.split(separator)[:depth]) or folding.ROOT


def _grouped(
    rows: Iterable[_Row], key: Callable[[_Row], str], name: Callable[[Sequence[str]], str]
) -> list[_Row]:
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [_joined(name([row.path for row in its]), its) for its in groups.values()]


def _joined(path: str, rows: Sequence[_Row]) -> _Row:
    """Rows as one."""
    found = {row.found: row.dtype for row in rows}
    kinds = list(dict.fromkeys(map(shown.short_dtype, found.values())))
    told = rows[0].found if len(found) == 1 else shown.listing(kinds, MOST_KINDS)
    leaves, elements = sum(row.leaves for row in rows), sum(row.elements for row in rows)
    return _Row(path, told, "", leaves, elements, sum(row.bytes for row in rows))


def _cells(row: _Row) -> tuple[str, ...]:
    return (row.path, f"{row.leaves:,}", row.found, f"{row.elements:,}", f"{row.bytes:,}")
