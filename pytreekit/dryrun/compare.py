"""`ptk.compare`: one step under several plans, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..show.errors import raise_faults
from ..show.progress import progress as bar
from .asking import arguments, asked, device_memory, many_plans
from .comparison import Comparison
from .compiling import Compiled, compiled, elsewhere
from .dry_run import links_of, read
from .links import Links, PerAxis
from .lowering import Carried
from .programs import Program, Request, as_plans, mesh_of, program, request
from .result import DryRun

DOING = "compare"


def compare(
    step: Callable[..., Any],
    args: Sequence[Any],
    plans: Mapping[str, Any],
    *,
    memory: float | int | None = None,
    mesh: Any = None,
    bandwidth: PerAxis | None = None,
    latency: PerAxis = 0.0,
    progress: bool | None = None,
) -> Comparison:
    """A dry run of one step under each of several plans.

    Args:
        step: The step, as for `ptk.dry_run`.
        args: Its arguments, a tuple. What a plan is of needs no sharding: the plan lays it out, and
            the optimizer state of these.
        plans: A `ShardingPlan`, or several for one run, by the name that the table gives them. Each
            may have a mesh of its own.
        memory: The bytes of a device's memory.
        mesh: As for `ptk.dry_run`.
        bandwidth: As for `ptk.dry_run`.
        latency: As for `ptk.dry_run`.
        progress: Whether to show a progress bar; None does on a terminal.

    Returns:
        A `Comparison`: a `ptk.DryRun` by name, and `best`, the name of the plan that fits in the
        memory and sends least or, with a `bandwidth`, whose collectives take least time.

    Raises:
        SpecError: What `ptk.dry_run` raises.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from jax.sharding import PartitionSpec as P
        >>> import pytreekit as ptk
        >>> mesh = {"data": 4}
        >>> shapes = {"w": jax.ShapeDtypeStruct((512, 512), jnp.float32)}
        >>> whole, split = (ptk.ShardingPlan(shapes, spec, mesh) for spec in (P(), P("data")))
        >>> batch = ptk.ShardingPlan(jax.ShapeDtypeStruct((64, 512), jnp.float32), P("data"), mesh)
        >>> found = ptk.compare(lambda params, x: x @ params["w"], (shapes, batch.abstract()),
        ...                     {"whole": whole, "split": split}, memory=2_000_000)
        >>> {name: round(run.communication) for name, run in found.runs.items()}, found.best
        ({'whole': 0, 'split': 786432}, 'whole')
    """
    faults = [*arguments(args), *many_plans(plans)]
    named = {} if faults else dict(plans)
    meshes = {name: mesh_of(mesh, plan, step, args) for name, plan in named.items()}
    places = {f"plans[{name!r}]": plan for name, plan in named.items()}
    known = list(meshes.values()) or [its for its in [mesh] if its is not None]
    more = [*faults, *device_memory(memory)]
    raise_faults(asked(step, places, known, bandwidth, latency, progress, more), doing=DOING)
    requests = {
        name: request(step, args, as_plans(plan), meshes[name], f"{DOING}, {name!r}")
        for name, plan in named.items()
    }
    runs = every_run(requests, links_of(bandwidth, latency), DOING, progress=progress)
    return Comparison(runs, memory, {})


def every_run(
    requests: Mapping[str, Request], links: Links | None, doing: str, *, progress: bool | None
) -> dict[str, DryRun]:
    """A dry run of each request, by its name.

    Args:
        requests: The requests by name.
        links: What is known of the links.
        doing: What is being done.
        progress: Whether to show a progress bar.
    """
    programs = {name: program(its, f"{doing}, {name!r}") for name, its in requests.items()}
    with bar("compiling", len(programs), show=progress, unit="plans") as done:
        made = _all_compiled(programs, doing, done)
        runs = {name: read(programs[name], one, links) for name, one in made}
    return {name: runs[name] for name in programs}


def _all_compiled(
    programs: Mapping[str, Program], doing: str, done: Callable[[int], None]
) -> Iterator[tuple[str, Compiled]]:
    """Compile programs: here if there are devices enough, the others in one process for each size.

    Args:
        programs: The programs by name.
        doing: What is being done.
        done: What is called when one is compiled.
    """
    away: dict[int, list[str]] = {}
    for name, its in programs.items():
        if isinstance(its.ready, Carried):
            away.setdefault(its.mesh.size, []).append(name)
            continue
        yield name, compiled(its, f"{doing}, {name!r}")
        done(1)
    for names in away.values():
        its_own = [programs[name] for name in names]
        yield from zip(names, elsewhere(its_own, doing, done), strict=True)
