"""`ptk.compare`: one step under several plans, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from ..show.progress import progress as bar
from .comparison import Comparison
from .compiling import Compiled, carry, compiled, devices_of, elsewhere
from .dry_run import links_of, plans_of, read
from .links import PerAxis
from .programs import Program, program

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
        memory and sends least.

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
    _check(args, plans, memory)
    programs = {
        name: program(step, args, plans_of(plan, DOING), mesh, f"{DOING}, {name!r}")
        for name, plan in plans.items()
    }
    links = {name: links_of(bandwidth, latency, its.sizes, DOING) for name, its in programs.items()}
    with bar("compiling", len(programs), show=progress, unit="plans") as done:
        made = all_compiled(programs, DOING, done)
        runs = {name: read(programs[name], one, links[name]) for name, one in made}
    return Comparison({name: runs[name] for name in programs}, memory, {})


def _check(args: Any, plans: Any, memory: Any) -> None:
    faults: list[Fault] = []
    if not isinstance(args, tuple | list):
        fact = f"must be a tuple of the step's arguments, this is {shown.kind(args)}"
        faults.append(Fault("PTK001", "args", "", "", "", "", fact=fact))
    if not isinstance(plans, Mapping) or not plans:
        fact = f"must be a dict of plans by name, this is {shown.kind(plans)}"
        faults.append(Fault("PTK001", "plans", "", "", "", "", fact=fact))
    raise_faults([*faults, *memory_faults(memory)], doing=DOING)


def memory_faults(memory: Any) -> list[Fault]:
    """PTK001, if the memory of a device is no number of bytes."""
    is_number = isinstance(memory, int | float) and not isinstance(memory, bool)
    if memory is None or (is_number and memory > 0):
        return []
    fact = f"must be a number of bytes above 0, this is {shown.spec(memory, 24)}"
    return [Fault("PTK001", "memory", "", "", "", "", fact=fact)]


def all_compiled(
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
        if devices_of(its) is None:
            away.setdefault(its.mesh.size, []).append(name)
            continue
        yield name, compiled(its, f"{doing}, {name!r}")
        done(1)
    for names in away.values():
        its_own = [programs[name] for name in names]
        carried = [
            carry(one, f"{doing}, {name!r}") for name, one in zip(names, its_own, strict=True)
        ]
        yield from zip(names, elsewhere(its_own, carried, doing, done), strict=True)
