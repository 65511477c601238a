"""What a call of `ptk.clipped_grad` is going to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from ..show import table
from .ghost.verdicts import GHOST, Verdict
from .loss import Example
from .mapped_loss import MappedLoss
from .plan import GradientPlan, PlannedGradient


@dataclasses.dataclass(frozen=True)
class ClipPlan(GradientPlan):
    """What a call of `ptk.clipped_grad` does with each leaf, by which method, and how safe it is.

    Attributes:
        method: `"materialize"`, `"chunked"` or `"ghost"`.
        reason: Why that, where `"auto"` chose it or the size of the chunks; else `""`.
        bounds: Each entry of clip_norm with what it clips to.
        sensitivity: The most that adding or removing one example moves the result, in norm.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> clipped = ptk.clipped_grad(lambda w, x: w @ x, 1.0, reduction="mean")
        >>> plan = clipped.plan(jnp.ones(2), jnp.ones((8, 2)))
        >>> plan.method, plan.chunk_size, plan.sensitivity
        ('materialize', None, 0.25)
    """

    method: str = ""
    reason: str = ""
    bounds: tuple[tuple[str, Any], ...] = ()
    sensitivity: Any = None

    def _tables(self) -> Iterator[table.Table]:
        yield from super()._tables()
        why = [("why", self.reason)] if self.reason else []
        rows = [("method", f"{self.method}, {self._chunks}"), *why]
        rows += [(place, str(bound)) for place, bound in self.bounds]
        head = table.Head("how it is clipped", ("", "is"))
        yield head, [*rows, ("sensitivity", str(self.sensitivity))]


def with_verdicts(
    planned: Sequence[PlannedGradient],
    mapped: MappedLoss,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[PlannedGradient, ...]:
    """Planned leaves, with what ghost clipping does with each of them and why.

    Args:
        planned: The leaves.
        mapped: The loss, which is traced for one example.
        args: The positional arguments of the call.
        kwargs: Its keywords.
    """
    found: list[tuple[Verdict, int]] = []

    def finish(example: Example) -> Any:
        found[:] = zip(example.verdicts, map(_bytes, example.gradients), strict=True)
        return example.value

    mapped.vmapped(finish, count=len(args), ghost=True).plan(*args, outputs=True, **kwargs)
    rest = iter(found)
    return tuple(leaf if leaf.left else _judged(leaf, *next(rest)) for leaf in planned)


def _judged(leaf: PlannedGradient, verdict: Verdict, size: int) -> PlannedGradient:
    size = size if verdict.how == GHOST else leaf.bytes
    return leaf._replace(how=verdict.how, why=verdict.why, bytes=size)


def _bytes(gradient: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(gradient))
