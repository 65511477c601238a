"""`ptk.dry_run`: what a training step would cost on a mesh that is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..show.errors import raise_faults
from ..show.progress import waiting
from . import hlo
from .asking import asked
from .collectives import Collective, Known, collectives
from .compiling import Compiled, compiled
from .links import Links, PerAxis
from .programs import Program, as_plans, mesh_of, program, request
from .result import DryRun, notes
from .surprises import surprises
from .work import work

DOING = "dry_run"


def dry_run(
    step: Callable[..., Any],
    *args: Any,
    plan: Any = None,
    mesh: Any = None,
    bandwidth: PerAxis | None = None,
    latency: PerAxis = 0.0,
    progress: bool | None = None,
) -> DryRun:
    """Compile a step for a mesh of devices that need not be there, and tell what it would cost.

    Nothing is run and nothing is placed. Where this process has too few devices, the step is traced
    here and compiled in another process, which simulates them on the CPU.

    Args:
        step: The step, a function of arrays, or what `jax.jit` returned, with its own donated
            arguments and shardings.
        args: Its arguments: arrays or `jax.ShapeDtypeStruct`s, with their shardings, as
            `plan.abstract()` gives them. One without any is laid out by `plan`, where it has the
            plan's structure and shapes or is the optimizer state of these, else whole on each
            device.
        plan: A `ShardingPlan`, or several.
        mesh: A `Mesh`, an `AbstractMesh` or a dict of axis names and sizes; by default that of the
            plan, of the arguments, or that `jax.set_mesh` has set. The step finds it as if it were
            set, whatever else is. A `Mesh` is compiled for as it is, also one of accelerators.
        bandwidth: Bytes per second that a device can send: over all of its links, or a dict with
            those along each axis of the mesh. With it each collective has a lower bound in seconds.
        latency: Seconds that a collective takes at least, a number or one for each axis.
        progress: Whether to show that it is at work; None does on a terminal.

    Returns:
        A `DryRun`: memory of each device, FLOPs, collectives with their causes, and findings; a
        table for `print` and notebooks.

    Raises:
        SpecError: PTK001, if an argument is of a wrong kind, or there is no mesh; PTK104, if it is
            no JAX type; PTK301 to PTK304, if it does not fit its sharding; PTK701, if the step
            cannot be taken to another process; PTK702, if it is not compiled there.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> shapes = {"up": jax.ShapeDtypeStruct((64, 256), jnp.float32),
        ...           "down": jax.ShapeDtypeStruct((256, 64), jnp.float32)}
        >>> plan = ptk.ShardingPlan(shapes, [("up", "_ model"), ("down", "model _")],
        ...                         {"data": 2, "model": 4})
        >>> x = jax.ShapeDtypeStruct((32, 64), jnp.float32)
        >>> forward = lambda params, x: jnp.tanh(x @ params["up"]) @ params["down"]
        >>> found = ptk.dry_run(forward, plan.abstract(), x, mesh=plan.mesh)
        >>> [(one.kind, one.axes, one.bytes) for one in found.collectives]
        [('all-reduce', ('model',), 8192)]
    """
    _, found = programmed(step, args, plan, mesh, bandwidth, latency, progress)
    return found


def programmed(
    step: Any,
    args: Sequence[Any],
    plan: Any,
    mesh: Any,
    bandwidth: Any = None,
    latency: Any = 0.0,
    progress: Any = None,
) -> tuple[Program, DryRun]:
    """A dry run, and the program that it is of: the step is traced once for both.

    Args:
        step: The step.
        args: Its arguments.
        plan: As for `dry_run`.
        mesh: As for `dry_run`.
        bandwidth: As for `dry_run`.
        latency: As for `dry_run`.
        progress: As for `dry_run`.
    """
    its_mesh = mesh_of(mesh, plan, step, args)
    raise_faults(asked(step, {"plan": plan}, [its_mesh], bandwidth, latency, progress), doing=DOING)
    its = request(step, args, as_plans(plan), its_mesh, DOING)
    with waiting(f"compiling {its.name} for {its.mesh.size} devices", show=progress):
        traced = program(its, f"{DOING}({its.name})")
        made = compiled(traced, f"{DOING}({its.name})")
    return traced, read(traced, made, links_of(bandwidth, latency))


def links_of(bandwidth: PerAxis | None, latency: PerAxis) -> Links | None:
    """What a user says of the links, None for nothing."""
    return None if bandwidth is None else Links(bandwidth, latency)


def read(its: Program, made: Compiled, links: Links | None) -> DryRun:
    """What a compiled step tells of itself."""
    module = hlo.read(made.text)
    names = made.names or hlo.names(module)
    known = Known(its.sizes, names, links, made.platform == "cpu")
    found = collectives(module, known)
    done = work(module)
    return DryRun(
        step=its.name,
        mesh=its.sizes,
        platform=made.platform,
        memory=made.memory,
        flops=done.flops,
        bytes_read=done.read,
        bytes_written=done.written,
        compile_seconds=made.seconds,
        collectives=tuple(sorted((one.told for one in found), key=_cost)),
        findings=surprises(its, module, found, [*its.specs, *made.specs]),
        notes=notes(made.platform, [one.told for one in found], done.unknown),
    )


def _cost(one: Collective) -> tuple[Any, ...]:
    return -(one.seconds or 0.0), -one.accelerator_sent, one.kind, one.leaf, one.file, one.line
