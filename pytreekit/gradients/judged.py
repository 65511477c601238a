"""What ghost clipping does with each leaf of a call, told in its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from .ghost.verdicts import GHOST, Verdict
from .loss import NORMS, TRACES, Example
from .mapped_loss import MappedLoss
from .plan import PlannedGradient


def with_verdicts(
    planned: Sequence[PlannedGradient],
    mapped: MappedLoss,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    only_norms: bool,
) -> tuple[PlannedGradient, ...]:
    """Planned leaves, with what ghost clipping does with each of them and why.

    Args:
        planned: The leaves.
        mapped: The loss, which is traced for one example.
        args: The positional arguments of the call.
        kwargs: Its keywords.
        only_norms: Whether the norms of the gradients are all that is taken of them.
    """
    found: list[tuple[Verdict, int]] = []

    def finish(example: Example) -> Any:
        found[:] = zip(example.verdicts, map(_bytes, example.gradients), strict=True)
        return example.value

    want = NORMS if only_norms else TRACES
    mapped.vmapped(finish, count=len(args), want=want).plan(*args, outputs=True, **kwargs)
    rest = iter(found)
    return tuple(leaf if leaf.left else _judged(leaf, *next(rest)) for leaf in planned)


def _judged(leaf: PlannedGradient, verdict: Verdict, size: int) -> PlannedGradient:
    size = size if verdict.how == GHOST else leaf.bytes
    return leaf._replace(how=verdict.how, why=verdict.why, bytes=size)


def _bytes(gradient: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(gradient))
