"""The options of `ptk.clipped_grad`, and what can be wrong with them: PTK001, PTK404, PTK407."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..faults import Fault
from ..show import values
from .choice import IN_TWO, METHODS, Asked, check_choice
from .clip_norms import ClipNorms, check_clip_norm
from .floats import Floats

SUM, MEAN = "sum", "mean"


@dataclasses.dataclass(frozen=True)
class ClipOptions:
    """How a batch of gradients becomes one.

    Attributes:
        clip_norms: What the norms are clipped to.
        single: Whether one argument is differentiated, rather than a tuple of them.
        method: One of `METHODS`.
        chunk_size: How many gradients to take at once, None where that is left open.
        reduction: `"sum"` or `"mean"`.
        normalize_by: What the sum is divided by, None for nothing.
        nan_safe: Whether an example whose gradient is not finite counts for nothing.
        rescale: Whether what is clipped is divided by the norm that it is clipped to.
        memory: How many bytes a call should take, None where that is left open.
        strict: Whether gradients of examples that take more than that are a fault.
    """

    clip_norms: ClipNorms
    single: bool
    method: str
    chunk_size: int | None
    reduction: str
    normalize_by: Any
    nan_safe: bool
    rescale: bool
    memory: int | None = None
    strict: bool = False

    @property
    def asked(self) -> Asked:
        """What decides on how a call is done."""
        several = not self.clip_norms.is_one
        return Asked(self.method, self.chunk_size, self.memory, several)

    def check(self) -> list[Fault]:
        """What is wrong with the options before any call."""
        faults = [*check_clip_norm(self.clip_norms.spec), *_check_divisor(self.normalize_by)]
        for name, known in (("method", METHODS), ("reduction", (SUM, MEAN))):
            faults += check_choice(name, getattr(self, name), known)
        if self.reduction == MEAN and self.normalize_by is not None:
            fact = "a mean is divided by the number of examples, the sum by normalize_by: not both"
            faults.append(_wrong("normalize_by", self.normalize_by, fact))
        faults += _check_memory(self.memory, strict=self.strict)
        if self.method in IN_TWO and not self.clip_norms.is_one:
            note = "one gradient of reweighted losses has one weight for all leaves of an example"
            told = repr(self.method)
            faults.append(Fault("PTK407", "", "", "method", "", told, note=note))
        return faults

    def check_call(self, floats: Floats, names: list[str], size: Any) -> list[Fault]:
        """PTK201 to PTK204 of clip_norm, and PTK406."""
        faults = self.clip_norms.check(floats.trees, names, single=self.single)
        if size == 0 and self.reduction == MEAN:
            note = "reduction='sum', or a given normalize_by, makes zeros of it"
            faults.append(Fault("PTK406", "", "", "reduction", "", repr(MEAN), note=note))
        return faults


def _check_memory(memory: Any, *, strict: Any) -> list[Fault]:
    """PTK001: memory is a positive int, which strict needs."""
    faults = []
    if memory is not None and (type(memory) is not int or memory < 1):
        faults.append(_wrong("memory", memory, "memory must be a positive int, in bytes"))
    if type(strict) is not bool:
        faults.append(_wrong("strict", strict, "strict must be a bool"))
    elif strict and memory is None:
        faults.append(_wrong("strict", strict, "strict needs memory, in bytes"))
    return faults


def _check_divisor(divisor: Any) -> list[Fault]:
    """PTK001: normalize_by is a positive number. What is traced is trusted."""
    if divisor is None or isinstance(divisor, Tracer):
        return []
    aval = values.typeof(divisor)
    fact = "must be a positive number"
    if aval is None or aval.shape != () or not _is_real(aval.dtype):
        return [_wrong("normalize_by", divisor, fact)]
    is_divisor = 0 < float(divisor) < math.inf
    return [] if is_divisor else [_wrong("normalize_by", divisor, fact)]


def _is_real(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, np.integer) or jnp.issubdtype(dtype, np.floating)


def _wrong(name: str, value: Any, fact: str) -> Fault:
    return Fault("PTK001", "", "", name, "", values.spec(value), fact=fact)
