"""Which dtypes and shapes have been found to fit: a call that repeats them is not checked again."""

from __future__ import annotations

import itertools
import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..compat import is_batched_sparse
from ..trees import paths
from .call import Call
from .typed import declared_arguments

MOST_KEPT = 8
"""How many kinds of call are kept: a loader gives two, whole batches and what is left over."""

_aval = operator.attrgetter("aval")
_kind = operator.attrgetter("dtype", "shape")


class Watch:
    """Of one structure of arguments, the leaves that annotations speak of, and what they were."""

    def __init__(self, call: Call) -> None:
        hinted = declared_arguments(call)
        self._spans: list[slice] = []
        start = 0
        for position, binding in enumerate(call.bindings):
            stop = start + paths.count_leaves(binding.tree, is_batched_sparse)
            if position in hinted and stop > start:
                self._spans.append(slice(start, stop))
            start = stop
        self._fit: deque[list[Any]] = deque(maxlen=MOST_KEPT)

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __call__(self, leaves: Sequence[Any], check: Callable[[], None]) -> None:
        """Check a call, unless one of the same kinds was found to fit; a faulty one raises."""
        __tracebackhide__ = True
        spoken_of = [leaves[span] for span in self._spans]
        try:
            # Of arrays of one kind this is one object: compared by identity, at once.
            kinds = list(map(_aval, itertools.chain.from_iterable(spoken_of)))
        except AttributeError:
            kinds = kinds_of(list(itertools.chain.from_iterable(spoken_of)))
        if kinds not in self._fit:
            check()
            self._fit.appendleft(kinds)


def kinds_of(leaves: Sequence[Any]) -> list[Any]:
    """The dtype and shape of each leaf; the type of what has none."""
    try:
        return list(map(_kind, leaves))
    except AttributeError:
        return [_kind(leaf) if hasattr(leaf, "dtype") else type(leaf) for leaf in leaves]
