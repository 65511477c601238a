"""A step, traced once, and made ready for the compiler: of this process, or of another one.

What goes to another process is no Python, but what `jax.export` makes of the step: closures,
lambdas and what a notebook defines may go.
"""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import jax
from jax import export
from jax.sharding import AbstractMesh, Mesh, PartitionSpec

from ..faults import Fault
from ..show.errors import SpecError
from .around import Refused, Way, in_the_first_way
from .naming import specs_in
from .unwrapping import Call

DEVICES = "--xla_force_host_platform_device_count"


class Carried(NamedTuple):
    """A program as it goes to another process: a pickle, and the paths of the arguments it uses."""

    blob: bytes
    names: tuple[str, ...]


class Lowered(NamedTuple):
    """A traced step.

    Attributes:
        call: It and its arguments, as it was traced with them.
        outputs: What it returns, as shapes.
        specs: All that it says itself of how arrays are split.
        ready: What is compiled: a `jax.stages.Lowered`, or what is `Carried` to another process.
    """

    call: Call
    outputs: Any
    specs: Collection[PartitionSpec]
    ready: Any


def lowered(
    over: Callable[..., Call], mesh: Mesh | AbstractMesh, name: str, doing: str, *, is_spread: bool
) -> Lowered:
    """Trace a step, with the mesh set that was asked for, if that is possible.

    Args:
        over: What lays the arguments of the step out on a mesh.
        mesh: The mesh that was asked for.
        name: What messages call the step.
        doing: What is being done.
        is_spread: Whether arguments without a sharding are whole on each device.

    Raises:
        SpecError: PTK701, if the step cannot be taken to another process.
    """

    def in_way(way: Way) -> Lowered:
        call = over(way.mesh, is_spread=is_spread)
        if not (is_spread or way.is_set or _has_shardings(call)):
            call = over(way.mesh, is_spread=True)
        traced = call.handed(call.step.trace)
        ready = traced.lower() if way.is_here else carried(call, traced, mesh)
        return Lowered(call, traced.out_info, specs_in(traced.jaxpr.jaxpr), ready)

    try:
        return in_the_first_way(mesh, in_way)
    except Refused as error:
        raise told(_stays(name, mesh.size), doing, str(error)) from None


def _has_shardings(call: Call) -> bool:
    """Whether a jitted step, or an argument, says over how many devices it goes."""
    if any(getattr(leaf, "sharding", None) is not None for leaf in jax.tree.leaves(call.every)):
        return True
    text = call.handed(call.step.trace).lower(lowering_platforms=("cpu",)).as_text()
    found = re.search(r"num_partitions = (\d+)", text)
    return found is not None and int(found[1]) > 1


def carried(call: Call, traced: Any, mesh: Mesh | AbstractMesh) -> Carried:
    """A traced step as it goes to another process.

    Raises:
        Refused: If it cannot.
    """
    try:  # JAX knows that it is traced already
        exported = call.handed(export.export(call.step, platforms=["cpu"]))
        donated = [its.donated for its in jax.tree.leaves(traced.args_info, is_leaf=_is_info)]
        kept = tuple(exported.module_kept_var_idx)
        names = traced.jaxpr.jaxpr.debug_info.arg_names  # static arguments are none of these
        its = {
            "exported": _flat(exported),
            "kept": kept,
            "donated": tuple(place for place, number in enumerate(kept) if donated[number]),
            "mesh": (mesh.axis_names, mesh.axis_sizes, mesh.axis_types),
        }
        blob = pickle.dumps(its)
    except Exception as error:  # noqa: BLE001  a step may hold anything
        raise Refused(f"{type(error).__name__}: {error}") from None
    if exported.nr_devices != mesh.size:
        raise Refused(f"it is a program for {exported.nr_devices} devices")
    return Carried(blob, tuple(names[number] for number in kept))


def _is_info(node: Any) -> bool:
    return hasattr(node, "donated")


def _flat(exported: Any) -> Any:
    """The program over its leaves, so that no other process needs to know of any node."""
    inputs = jax.tree.structure((tuple(range(len(exported.in_avals))), {}))
    outputs = jax.tree.structure(tuple(range(len(exported.out_avals))))
    fields = {one.name: getattr(exported, one.name) for one in dataclasses.fields(exported)}
    # No pickle holds a closure, as its gradient is one.
    closures = {name: None for name, its in fields.items() if callable(its) and name[0] == "_"}
    return dataclasses.replace(exported, in_tree=inputs, out_tree=outputs, **closures)


def _stays(name: str, count: int) -> Fault:
    fact = f"the step cannot be taken to a process with {count} devices"
    note = (
        "callbacks cannot go there, nor can a Mesh of other devices; with "
        f"JAX_PLATFORMS=cpu XLA_FLAGS={DEVICES}={count} it is compiled in this process"
    )
    return Fault("PTK701", name, "", "", "", "", fact=fact, note=note)


def told(fault: Fault, doing: str, said: str) -> SpecError:
    """A fault as an error, with what JAX says as a note: its words differ between its versions."""
    error = SpecError([fault], doing=doing)
    error.add_note(f"what JAX says: {said}")
    return error
