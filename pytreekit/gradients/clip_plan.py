"""What a call of `ptk.clipped_grad` is going to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..show import table
from .estimates import Estimate
from .plan import GradientPlan


@dataclasses.dataclass(frozen=True)
class ClipPlan(GradientPlan):
    """What a call of `ptk.clipped_grad` does with each leaf, by which method, and how safe it is.

    Attributes:
        method: `"materialize"`, `"chunked"`, `"ghost"` or `"two_pass"`.
        reason: Why that, where `"auto"` chose it or the size of the chunks; else `""`.
        bounds: Each entry of clip_norm with what it clips to.
        sensitivity: The most that adding or removing one example moves the result, in norm.
        estimates: What the best way by each method would take, the least first, where one was
            chosen; else nothing.

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
    estimates: tuple[Estimate, ...] = ()

    def _tables(self) -> Iterator[table.Table]:
        yield from super()._tables()
        why = [("why", self.reason)] if self.reason else []
        rows = [("method", f"{self.method}, {self._chunks}"), *why]
        rows += [(place, str(bound)) for place, bound in self.bounds]
        head = table.Head("how it is clipped", ("", "is"))
        yield head, [*rows, ("sensitivity", str(self.sensitivity))]
        if self.estimates:
            yield _ESTIMATED, [_row(its, self.estimates[0].cost) for its in self.estimates]


_ESTIMATED = table.Head(
    "what the methods are estimated to take",
    ("method", "at a time", "GFLOPs", "moves MiB", "holds MiB", "time"),
    ("GFLOPs", "moves MiB", "holds MiB", "time"),
)


def _row(its: Estimate, least: float) -> tuple[str, ...]:
    at_once = str(its.chunk_size) if its.chunk_size else "all"
    sizes = (its.flops / 1e9, its.bytes / 2**20, its.memory / 2**20)
    told = [f"{size:,.3g}" for size in sizes]
    return (its.method, at_once, *told, f"{its.cost / least:.2f}x")
