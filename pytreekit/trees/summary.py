"""`ptk.summary`: what a tree holds, as a table of its leaves or of its subtrees."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, NamedTuple

from ..faults import Fault
from ..show import table, values
from ..show.errors import raise_faults
from . import leaves, paths
from .sorts import check_sorts

MOST_ROWS = 200
"""Rows that are shown; `rows` has them all."""

MOST_KINDS = 3
"""Dtypes that are told of one subtree."""


class SummaryRow(NamedTuple):
    """A leaf, or a subtree that is told in one row.

    Attributes:
        path: Where, as `jax.tree_util.keystr` prints it.
        found: A leaf as `"f32[32,8]"`, or its type; the dtypes and types of several.
        shape: The shape, if this is a single array.
        dtype: The name of the dtype that all its arrays have, `""` where there is none.
        leaves: The number of leaves. `None` is no leaf.
        elements: The elements of all its arrays together; symbolic where shapes are.
        bytes: The bytes of all its arrays together, likewise. Only arrays count.
    """

    path: str
    found: str
    shape: tuple[int, ...] | None
    dtype: str
    leaves: int
    elements: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a tree holds: what `ptk.summary` returns. `print` and notebooks show it as a table.

    Attributes:
        rows: A `SummaryRow` for each leaf, or for each subtree at the depth that was asked for.
        total: The row of the whole tree.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> found = ptk.summary({"w": jnp.ones((3, 4)), "act": "relu"})
        >>> found.total.elements, found.total.bytes, [row.found for row in found.rows]
        (12, 48, ['str', 'f32[3,4]'])
    """

    rows: tuple[SummaryRow, ...]
    total: SummaryRow

    def __str__(self) -> str:
        return table.plain(self._headed(), self._cells())

    def __rich__(self) -> Any:
        return table.rich(self._headed(), self._cells())

    def _repr_html_(self) -> str:
        return table.html(self._headed(), self._cells())

    def _headed(self) -> table.Head:
        counts = values.count(self.total.leaves, "leaf", "leaves")
        columns = ("path", "found", "leaves", "elements", "bytes")
        title = f"{counts}, {_number(self.total.bytes)} bytes"
        return table.Head(title, columns, columns[2:])

    def _cells(self) -> list[tuple[str, ...]]:
        shown = [_cells(row, row.path or "(root)") for row in self.rows[:MOST_ROWS]]
        if len(self.rows) > MOST_ROWS:
            shown.append((f"... and {len(self.rows) - MOST_ROWS:,} more", "", "", "", ""))
        return [*shown, _cells(self.total, "total")]


def summary(tree: Any, depth: Any = None) -> Summary:
    """A table of what a tree holds: paths, shapes, dtypes, numbers of elements, bytes, and totals.

    Leaves may be of any kind. Only arrays count for elements and bytes: those of JAX, PRNG keys
    included, of NumPy, and `jax.ShapeDtypeStruct`s. `None` has a row, though it is no leaf.

    Args:
        tree: Any pytree.
        depth: How many keys of a path to tell apart: what lies deeper is told in one row. By
            default each leaf has its own. With 0 there is one row.

    Returns:
        A table: `.rows` and `.total` as data; the text is cut after 200 rows.

    Raises:
        SpecError: PTK001, if `depth` is neither None nor an int of 0 or more; PTK104, if JAX cannot
            flatten the tree.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> layer = {"w": jnp.ones((64, 64)), "b": jnp.ones(64)}
        >>> print(ptk.summary({"encoder": [layer, layer], "step": jnp.zeros((), int)}, depth=1))
        5 leaves, 33,284 bytes
        +-------------+-------+--------+----------+--------+
        | path        | found | leaves | elements |  bytes |
        +-------------+-------+--------+----------+--------+
        | ['encoder'] | f32   |      4 |    8,320 | 33,280 |
        | ['step']    | i32[] |      1 |        1 |      4 |
        | total       |       |      5 |    8,321 | 33,284 |
        +-------------+-------+--------+----------+--------+
    """
    is_depth = depth is None or (type(depth) is int and depth >= 0)
    if not is_depth:
        fact = f"must be None or an int of 0 or more, this is {values.spec(depth)}"
        raise_faults([Fault("PTK001", "depth", "", "", "", "", fact=fact)], doing="summary")
    raise_faults(check_sorts(tree, "tree"), doing="summary")
    ends = paths.leaves_with_paths(tree, lambda node: node is None)
    single = [_row(paths.text(path[:depth]), leaf) for path, leaf in ends]
    rows = [_joined(place, its) for place, its in itertools.groupby(single, lambda row: row.path)]
    return Summary(tuple(rows), _joined("", single)._replace(found="", shape=None))


def _row(path: str, leaf: Any) -> SummaryRow:
    if leaf is None:
        return SummaryRow(path, "None", None, "", 0, 0, 0)
    if not leaves.is_array(leaf):
        return SummaryRow(path, leaves.type_told(leaf), None, "", 1, 0, 0)
    elements = math.prod(leaf.shape)
    taken = elements * leaf.dtype.itemsize
    shape, dtype = tuple(leaf.shape), str(leaf.dtype)
    return SummaryRow(path, values.array(dtype, shape), shape, dtype, 1, elements, taken)


def _joined(path: str, rows: Iterable[SummaryRow]) -> SummaryRow:
    """Rows as one."""
    rows = list(rows)
    if len(rows) == 1:
        return rows[0]._replace(path=path)
    kinds = list(dict.fromkeys(map(_kind, rows)))
    dtypes = {row.dtype for row in rows if row.dtype}
    sums = (sum(column) for column in _counts(rows))
    dtype = dtypes.pop() if len(dtypes) == 1 else ""
    return SummaryRow(path, values.listing(kinds, MOST_KINDS), None, dtype, *sums)


def _kind(row: SummaryRow) -> str:
    """The dtype of an array in short, the type of what is none."""
    return values.short_dtype(row.dtype) if row.dtype else row.found


def _counts(rows: list[SummaryRow]) -> Iterator[list[int]]:
    yield [row.leaves for row in rows]
    yield [row.elements for row in rows]
    yield [row.bytes for row in rows]


def _cells(row: SummaryRow, path: str) -> tuple[str, ...]:
    return (path, row.found, *map(_number, (row.leaves, row.elements, row.bytes)))


def _number(number: Any) -> str:
    """A number as `1,024`, or what it is in the symbols of a shape."""
    return f"{number:,}" if isinstance(number, Integral) else str(number)
