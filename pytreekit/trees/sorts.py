"""Whether JAX can flatten a tree at all: the keys of each dict must sort."""

from __future__ import annotations

from typing import Any

from ..faults import Fault
from . import paths


def check_sorts(tree: Any, name: str) -> list[Fault]:
    """The fault of a dict whose keys do not sort, if there is one in the tree called `name`."""
    try:
        paths.count_leaves(tree)
    except ValueError:
        path = paths.unsortable(tree)
        if path is None:
            raise
        fact = "has keys that do not sort, so JAX cannot flatten it"
        return [Fault("PTK104", name, paths.text(path), "", "dict", "", fact=fact)]
    return []
