"""Values that a function makes, made where the shards of a plan are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from ...faults import Fault
from ...show import values as shown
from ...show.errors import raise_faults
from .beside import beside
from .planned import Planned


def init(its: Planned, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What `fn` returns, compiled so that each device makes its own shards.

    Raises:
        SpecError: PTK205, if `fn` makes another tree than the plan is of; PTK001, if it is no
            function, or there are no devices.
    """
    if not callable(fn):
        fault = Fault(
            "PTK001", "fn", "", "", "", "", fact=f"must be callable, this is {shown.kind(fn)}"
        )
        raise_faults([fault], doing="plan.init")
    doing = f"plan.init({shown.function(fn)})"
    its.with_devices(doing)
    is_array = [isinstance(part, jax.ShapeDtypeStruct) for part in its.parts]
    others: list[Any] = []

    def arrays(*args: Any, **kwargs: Any) -> list[Any]:
        found = beside(its, fn(*args, **kwargs), "output")
        raise_faults(found.faults, doing=doing, when="as soon as it returned")
        # What is no array, as the functions in an Equinox module, cannot leave jit.
        others[:] = found.leaves
        return [leaf for leaf, array in zip(found.leaves, is_array, strict=True) if array]

    pairs = zip(its.shardings, is_array, strict=True)
    shardings = [sharding for sharding, array in pairs if array]
    made = iter(jax.jit(arrays, out_shardings=shardings)(*args, **kwargs))
    leaves = [next(made) if array else its for its, array in zip(others, is_array, strict=True)]
    return its.tree(leaves)
