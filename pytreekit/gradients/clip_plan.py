"""What a call of `ptk.clipped_grad` is going to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..show import table
from .plan import GradientPlan


@dataclasses.dataclass(frozen=True)
class ClipPlan(GradientPlan):
    """What a call of `ptk.clipped_grad` does with each leaf, by which method, and how safe it is.

    Attributes:
        method: `"materialize"`, `"chunked"`, `"ghost"` or `"two_pass"`.
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
