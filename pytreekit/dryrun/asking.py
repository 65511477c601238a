"""What a user asks of a dry run: all that is of a wrong kind, found before anything is traced."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import jax
from jax.sharding import AxisType

from ..faults import Fault
from ..sharding.meshes import HOW, axes_of, no_mesh
from ..sharding.plans.sharding_plan import ShardingPlan
from ..show import values as shown
from ..show.errors import SpecError
from .programs import as_plans

STAGES = jax.stages.Traced, jax.stages.Lowered, jax.stages.Compiled


def asked(
    step: Any,
    plans: Mapping[str, Any],
    meshes: Sequence[Any],
    bandwidth: Any,
    latency: Any,
    progress: Any,
    more: Iterable[Fault] = (),
) -> Iterator[Fault]:
    """PTK001, for what every dry run takes, in the order of its arguments.

    Args:
        step: The step.
        plans: What is given as plans, by its place.
        meshes: The meshes to compile for, as `mesh_of` tells them, None for none.
        bandwidth: What is said of the links.
        latency: The same.
        progress: Whether to show progress.
        more: The faults of what only this one takes.
    """
    yield from _step(step)
    yield from more
    of_plans = [fault for place, plan in plans.items() for fault in _plan(place, plan)]
    yield from of_plans
    # What is no plan has no mesh: that none is there is no second fault.
    read = [(mesh, _mesh(mesh)) for mesh in meshes if mesh is not None or not of_plans]
    yield from dict.fromkeys(fault for _, wrong in read for fault in wrong)
    good = [axes_of(mesh, "").sizes for mesh, wrong in read if not wrong]
    axes = dict.fromkeys(axis for sizes in good for axis in sizes)
    yield from _number("bandwidth", bandwidth, axes, least="above 0")
    yield from _number("latency", latency, axes, least="of 0 or more")
    if progress is not None and not isinstance(progress, bool):
        yield _fault("progress", f"must be a bool or None, this is {_written(progress)}")


def arguments(args: Any) -> Iterator[Fault]:
    """PTK001, if the arguments of a step are no tuple."""
    if not isinstance(args, tuple | list):
        fact = f"must be a tuple of the step's arguments, this is {shown.kind(args)}"
        yield _fault("args", fact)


def device_memory(memory: Any) -> Iterator[Fault]:
    """PTK001, if the memory of a device is no number of bytes."""
    if memory is not None and not (_is_number(memory) and memory > 0):
        yield _fault("memory", f"must be a number of bytes above 0, this is {_written(memory)}")


def many_plans(plans: Any) -> Iterator[Fault]:
    """PTK001, if plans are not named, or there is none."""
    if not isinstance(plans, Mapping):
        yield _fault("plans", f"must be a dict of plans by name, this is {shown.kind(plans)}")
    elif not plans:
        yield _fault("plans", "has no plan", note='as {"whole": plan, "split": another}')


def _step(step: Any) -> Iterator[Fault]:
    if isinstance(step, STAGES) or not callable(step):
        fact = f"must be a function, this is {shown.kind(step)}"
        note = "give the function itself, or what jax.jit returned" * isinstance(step, STAGES)
        yield _fault("step", fact, note=note)
    try:
        jax.sharding.get_mesh()
    except ValueError:  # so JAX says it
        yield _fault("step", "is asked for while another function is traced: do so outside of it")


def _plan(place: str, plan: Any) -> Iterator[Fault]:
    for one in as_plans(plan):
        if not isinstance(one, ShardingPlan):
            yield _fault(place, f"must be a ShardingPlan or several, this is {shown.kind(one)}")


def _mesh(mesh: Any) -> Sequence[Fault]:
    if mesh is None:
        return [no_mesh()]
    try:
        its = axes_of(mesh, "")
    except SpecError as error:
        return error.faults
    if AxisType.Manual in its.mesh.axis_types:
        return [_fault("mesh", "has Manual axes, which only jax.shard_map makes: take Auto ones")]
    return [] if its.sizes else [_fault("mesh", "has no axes", note=HOW)]


def _number(name: str, value: Any, axes: Iterable[str], least: str) -> Iterator[Fault]:
    if value is None and name == "bandwidth":
        return
    rows = dict(value) if isinstance(value, Mapping) else {None: value}
    for axis in axes:
        if None not in rows and axis not in rows:
            yield _fault(name, f"says nothing of the mesh axis {axis!r}")
    for axis, number in rows.items():
        if not _is_number(number) or number < 0 or (least == "above 0" and number == 0):
            fact = f"must be a number {least}, this is {_written(number)}"
            yield _fault(name, fact, "" if axis is None else f"[{axis!r}]")


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number; NaN is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _written(value: Any) -> str:
    return shown.spec(value, 24)


def _fault(name: str, fact: str, path: str = "", note: str = "") -> Fault:
    return Fault("PTK001", name, path, "", "", "", fact=fact, note=note)
