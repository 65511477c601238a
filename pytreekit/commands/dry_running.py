"""What `pytreekit dry-run` shows: what a step costs by one plan, or by several side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
from jax.sharding import PartitionSpec

from ..dryrun.compare import compare
from ..dryrun.comparison import Comparison
from ..dryrun.dry_run import DOING, dry_run, plans_of
from ..dryrun.programs import program
from ..dryrun.result import DryRun
from ..sharding.plans import report
from ..sharding.plans.sharding_plan import ShardingPlan
from ..show.errors import raise_faults
from .answers import DONE, FAULTS, Answer, Unusable, write
from .targets import asked, its_own_errors

Found: TypeAlias = DryRun | Comparison


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
    if html is not None and its.get("plans"):
        raise Unusable("--html is of one plan, and there are several to compare")
    links = {"bandwidth": bandwidth, "latency": latency}
    with its_own_errors(f"the step of {target}"):
        found = _found(its, memory, **links, mesh=mesh or its.get("mesh"))
    answer.data(**json.loads(found.to_json()))
    if html is not None and isinstance(found, DryRun):
        write(html, _report(its, found))
    answer.text(found)
    runs = found.runs.values() if isinstance(found, Comparison) else [found]
    if strict:
        raise_faults([fault for run in runs for fault in run.findings], doing=f"{DOING} {target}")
    if memory is None or any(run.memory.peak <= memory for run in runs):
        return DONE
    answer.text(f"it takes more than {memory:,.0f} bytes of a device")
    return FAULTS


def _found(its: Mapping[str, Any], memory: Any, **links: Any) -> Found:
    args = tuple(its.get("args", ()))
    if its.get("plans"):
        return compare(its["step"], args, its["plans"], memory=memory, **links)
    return dry_run(its["step"], *args, plan=its.get("plan"), **links)


def _report(its: Mapping[str, Any], run: DryRun) -> str:
    """A dry run as one file of HTML: its arguments, what it takes, and what it sends."""
    plans = plans_of(its.get("plan"), DOING)
    laid_out = program(its["step"], tuple(its.get("args", ())), plans, run.mesh, DOING)
    leaves = dict(zip(laid_out.names, jax.tree.leaves(laid_out.args), strict=True))
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
