"""A function that gives something of each example of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec

from ..batching.call import Call
from ..faults import Fault
from ..show import values
from .choice import TWO_PASS, is_sharded, no_ghosts
from .judged import judged
from .loss import GRADIENTS, NORMS, Example
from .mapped_loss import MappedLoss
from .plan import GradientPlan, planned
from .reading import read

P = ParamSpec("P")


class PerExample(Generic[P]):
    """A function that gives something of each example of a batch: what `per_example_grad` returns.

    It is called as the loss is, with batched arguments.
    """

    __wrapped__: Callable[P, Any]

    def __init__(
        self,
        mapped: MappedLoss,
        finish: Callable[[Example], Any],
        chunk_size: int | None,
        want: str = GRADIENTS,
    ) -> None:
        functools.update_wrapper(self, mapped.loss.fun, updated=())
        self._mapped = mapped
        self._finish = finish
        self._chunk_size = chunk_size
        self._want = want

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Take the gradients.

        Raises:
            SpecError: If the call has a fault, before the loss is entered; or if the loss returns
                no scalar.
        """
        __tracebackhide__ = True
        mapped = self._mapped.resolved(args, kwargs)
        call = mapped.checked(args, kwargs)
        args, kwargs = mapped.varying(args, kwargs)  # type: ignore[assignment]
        want = self._wanted(call)
        over = mapped.vmapped(self._finish, self._chunk_size, count=len(args), want=want)
        return over(*args, **kwargs)

    def plan(self, *args: Any, **kwargs: Any) -> GradientPlan:
        """What a call would differentiate. Takes `jax.ShapeDtypeStruct`s as it does arrays.

        Raises:
            SpecError: If the call has a fault.
        """
        __tracebackhide__ = True
        call = self._mapped.resolved(args, kwargs).checked(args, kwargs, look=True)
        size, gradients, examples = planned(self._mapped.loss, call)
        if self._wanted(call) == NORMS:
            reading = read(self._mapped.resolved(args, kwargs), args, kwargs)
            self._mapped.loss.refuse(reading.faults)
            if reading.work is not None:
                gradients = judged(gradients, reading.work, TWO_PASS)
        told = self._mapped.loss.told
        return GradientPlan(told, size, self._chunk_size, gradients, examples)

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """All that is wrong with a call, told by shapes. Raises only what the loss does."""
        return self._mapped.faults(args, kwargs)

    def _wanted(self, call: Call) -> str:
        """What is to be taken of each example, where that is possible."""
        return GRADIENTS if no_ghosts(sharded=is_sharded(call)) else self._want

    def __reduce__(self) -> Any:
        return type(self), (self._mapped, self._finish, self._chunk_size, self._want)

    def __repr__(self) -> str:
        loss = self._mapped.loss
        return f"<{loss.doing} of {values.function(loss.fun)}>"
