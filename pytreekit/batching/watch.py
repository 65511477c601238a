"""Which dtypes and shapes have been found to fit: a call that repeats them is not checked again."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ..compat import is_batched_sparse
from .call import Call
from .typed import declared_arguments

MOST_KEPT = 8
"""How many kinds of call are kept: a loader gives two, whole batches and what is left over."""

_kind = operator.attrgetter("dtype", "shape")


class Watch:
    """Of one structure of arguments, the leaves that annotations speak of, and what they were."""

    def __init__(self, call: Call) -> None:
        hinted = dict(declared_arguments(call, call.declared)) if call.declared else {}
        self._leaves: list[int] = []
        start = 0
        for position, binding in enumerate(call.bindings):
            stop = start + jax.tree.structure(binding.tree, is_leaf=is_batched_sparse).num_leaves
            if position in hinted:
                self._leaves.extend(range(start, stop))
            start = stop
        self._fit: deque[list[Any]] = deque(maxlen=MOST_KEPT)

    def __bool__(self) -> bool:
        return bool(self._leaves)

    def __call__(self, leaves: Sequence[Any], check: Callable[[], None]) -> None:
        """Check a call, unless one of the same kinds was found to fit; a faulty one raises."""
        __tracebackhide__ = True
        kinds = kinds_of([leaves[index] for index in self._leaves])
        if kinds not in self._fit:
            check()
            self._fit.appendleft(kinds)


def kinds_of(leaves: Sequence[Any]) -> list[Any]:
    """The dtype and shape of each leaf; the type of what has none."""
    try:
        return list(map(_kind, leaves))
    except AttributeError:
        return [_kind(leaf) if hasattr(leaf, "dtype") else type(leaf) for leaf in leaves]
