"""A fault on its way to its hint: what was found, and repairs to try, as data."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..faults import Fault
from ..trees.paths import KeyPath


class Replace(NamedTuple):
    """Write `spec` at `path` of the spec tree."""

    path: KeyPath
    spec: Any


class Revalue(NamedTuple):
    """Give the leaf at `path` of the tree the spec `value`; its neighbours keep theirs."""

    path: KeyPath
    value: Any


class Finding(NamedTuple):
    """A fault without its hint, and repairs to try in this order.

    `Binding` finds `Replace` and `Revalue`; a transformation may add kinds of its own, for what it
    checks to write in.
    """

    fault: Fault
    repairs: tuple[Any, ...] = ()
