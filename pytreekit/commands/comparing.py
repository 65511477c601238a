"""What `pytreekit diff` shows: two checkpoints, or two plans, side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..files.reading import STANDARD_INPUT, Stored
from ..sharding.plans import comparing
from ..trees.diff import diff
from ..trees.difference import TreeDiff
from .answers import DONE, FAULTS, Answer, Unusable, opened
from .trees import flat


def show(answer: Answer, a: str, b: str) -> int:
    """Show in what two files differ.

    Args:
        answer: Where to.
        a: A file, as for `opened`.
        b: Another.
    """
    if a == b == STANDARD_INPUT:
        raise Unusable("A and B cannot both be the standard input")
    first, second = opened(a), opened(b)
    found = _compared(first, second, (a, b))
    answer.data(a=a, b=b)
    answer.more(lambda: {"differences": [dataclasses.asdict(one) for one in found]})
    answer.text(found)
    return FAULTS if found else DONE


def _compared(first: Stored, second: Stored, names: tuple[str, str]) -> TreeDiff:
    if first.plan and second.plan:
        return comparing.diff(first.plan, second.plan, names)
    trees: list[dict[str, Any]] = [flat(one.tree) for one in (first, second)]
    return diff(*trees, names=names)
