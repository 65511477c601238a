"""PTK109: on Explicit mesh axes, mapped axes must be sharded alike, and shared leaves not so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ..faults import Fault, Place
from ..show import values
from ..specs.finding import Finding
from .call import Call
from .leaves import Leaf


def mesh_axes(leaf: Any, axis: int | None) -> Any:
    """The Explicit mesh axes that an axis of a leaf is sharded over, None for none."""
    try:
        return jax.typeof(leaf).sharding.spec[axis]
    except Exception:  # noqa: BLE001  no array, no sharding, no such axis: JAX looks no further too
        return None


def check_shardings(call: Call, all_leaves: Sequence[Leaf]) -> list[Finding]:
    """What JAX refuses of shardings in types; all leaves must have the axis asked of them."""
    mapped = [leaf for leaf in all_leaves if not (leaf.axis is None or leaf.is_split)]
    over = [mesh_axes(leaf.bound.leaf, leaf.axis) for leaf in mapped]
    if not any(axes is not None for axes in over):
        return []
    first = mapped[0]
    beside = (Place(first.fault("").place, first.fault("").found, _over(first), ""),)
    findings = [
        Finding(
            leaf.fault(
                "PTK109",
                fact=_over(leaf),
                note="reshard one of them (jax.sharding.reshard)",
                beside=beside,
            )
        )
        for leaf, axes in zip(mapped, over, strict=True)
        if axes != over[0]
    ]
    taken = {name for axes in over for name in _names(axes)}
    shared = [leaf for leaf in all_leaves if leaf.axis is None]
    findings += [found for leaf in shared for found in _check_shared(leaf, taken)]
    return findings + _check_spmd(call, over[0])


def _check_shared(leaf: Leaf, taken: set[Any]) -> list[Finding]:
    if leaf.shape is None:
        fact = "is no JAX type, beside axes that are sharded over a mesh it cannot be shared"
        return [Finding(leaf.fault("PTK104", fact=fact))]
    used = {name for axes in _spec(leaf.bound.leaf) or () for name in _names(axes)}
    if not used & taken:
        return []
    names = values.listing([repr(name) for name in sorted(used & taken, key=str)])
    fact = f"is shared, but sharded over {names}, as the mapped axes are"
    return [Finding(leaf.fault("PTK109", fact=fact))]


def _check_spmd(call: Call, axes: Any) -> list[Finding]:
    given = call.spmd_axis_name
    if given is None or axes is None:
        return []
    if (given if isinstance(given, tuple) else (given,)) == _names(axes):
        return []
    fault = Fault(
        "PTK109", "", "", "spmd_axis_name", "", values.spec(given),
        fact=f"the mapped axes are sharded over {axes!r}",
    )  # fmt: skip
    return [Finding(fault)]


def _over(leaf: Leaf) -> str:
    return f"axis {leaf.axis} is sharded over {mesh_axes(leaf.bound.leaf, leaf.axis)!r}"


def _spec(leaf: Any) -> Any:
    sharding = getattr(values.typeof(leaf), "sharding", None)
    return getattr(sharding, "spec", None)


def _names(axes: Any) -> tuple[Any, ...]:
    if axes is None:
        return ()
    return axes if isinstance(axes, tuple) else (axes,)
