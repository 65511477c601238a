"""What `pytreekit dry-run` shows: what a step costs by one plan, or by several side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ..dryrun.compare import compare
from ..dryrun.comparison import Comparison
from ..dryrun.dry_run import DOING, programmed
from ..dryrun.programs import Program
from ..dryrun.result import DryRun
from ..sharding.plans import report
from ..sharding.plans.sharding_plan import ShardingPlan
from ..show.errors import raise_faults
from .answers import DONE, FAULTS, Answer, Unusable, write
from .targets import asked, its_own_errors


def show(
    answer: Answer,
    target: str,
    *,
    mesh: dict[str, int] | None = None,
    memory: float | int | None = None,
    bandwidth: float | int | None = None,
    latency: float | int = 0.0,
    strict: bool = False,
    html: str | None = None,
) -> int:
    """Show what the step that a function returns would cost.

    Args:
        answer: Where to.
        target: `module:function`, of a module that can be imported from here. The function takes
            nothing and returns `(step, *args)`, the arguments with their shardings; or a dict of
            these: `step`, `args`, and `plan`, a `ShardingPlan`, or `plans`, a dict of some.
        mesh: The axes of the mesh; by default `mesh` of that dict, else those of the arguments.
        memory: The bytes of a device: what does not fit is a fault.
        bandwidth: Bytes per second that a device can send.
        latency: Seconds that a collective takes at least.
        strict: Whether findings are faults.
        html: Where a report is to be written, None for nowhere.
    """
    its = asked(target)
    if html is not None and its.get("plans") is not None:
        raise Unusable("--html is of one plan, and there are several to compare")
    with its_own_errors(f"the step of {target}"):
        found, program = _found(its, memory, bandwidth, latency, mesh or its.get("mesh"))
    answer.data(**json.loads(found.to_json()))
    if html is not None and program is not None and isinstance(found, DryRun):
        write(html, _report(program, found))
    answer.text(found)
    runs = found.runs.values() if isinstance(found, Comparison) else [found]
    if strict:
        raise_faults([fault for run in runs for fault in run.findings], doing=f"{DOING} {target}")
    if memory is None or any(run.memory.peak <= memory for run in runs):
        return DONE
    answer.text(f"it takes more than {memory:,.0f} bytes of a device")
    return FAULTS


def _found(
    its: Mapping[str, Any], memory: Any, bandwidth: Any, latency: Any, mesh: Any
) -> tuple[DryRun, Program] | tuple[Comparison, None]:
    """What a dry run found, and of which program; of several plans there is no one program."""
    args = tuple(its.get("args", ()))
    if its.get("plans") is not None:
        links = {"bandwidth": bandwidth, "latency": latency}
        return compare(its["step"], args, its["plans"], memory=memory, mesh=mesh, **links), None
    program, run = programmed(its["step"], args, its.get("plan"), mesh, bandwidth, latency)
    return run, program


def _report(program: Program, run: DryRun) -> str:
    """A dry run as one file of HTML: its arguments, what it takes, and what it sends."""
    leaves = dict(zip(program.names, jax.tree.leaves(program.args), strict=True))
    arrays = {name: leaf for name, leaf in leaves.items() if hasattr(leaf, "shape")}
    specs = {name: _spec(leaf) for name, leaf in arrays.items()}
    sends = [
        {
            "what": one.accelerator,
            "over": ", ".join(one.axes),
            "bytes": f"{one.accelerator_bytes:,}",
            "times": f"{one.times:,}",
            "sent": f"{one.accelerator_sent:,.0f}",
            "operation": one.operation,
            "from": one.source or one.leaf,
        }
        for one in run.collectives
    ]
    more = [("outputs", run.memory.outputs), ("temporaries", run.memory.temporaries)]
    plan = ShardingPlan(arrays, specs, run.mesh)
    return report.html(plan, run.step, memory=more, collectives=sends)


def _spec(leaf: Any) -> PartitionSpec:
    return getattr(leaf.sharding, "spec", PartitionSpec())
