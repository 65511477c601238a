"""`ptk.suggest`: simple families of plans, each compiled, and the best of those that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax.sharding import PartitionSpec

from ..sharding.fsdp import fsdp_plan
from ..sharding.meshes import Axes, axes_of
from ..sharding.plan import SpecPlan
from ..sharding.plans.sharding_plan import ShardingPlan
from ..sharding.specs import partition_plan
from ..show.errors import raise_faults
from ..show.sizes import in_bytes
from .asking import arguments, asked, device_memory
from .compare import every_run
from .comparison import Comparison
from .dry_run import links_of
from .links import PerAxis
from .programs import mesh_of, request

DOING = "suggest"


def suggest(
    params: Any,
    step: Callable[..., Any],
    mesh: Any,
    *,
    memory: float | int | None = None,
    args: Sequence[Any] = (),
    rules: Any = None,
    stack: Any = None,
    bandwidth: PerAxis | None = None,
    latency: PerAxis = 0.0,
    progress: bool | None = None,
) -> Comparison:
    """Compile a step under simple plans of its parameters, and name the best of those that fit.

    The plans are: all whole on each device; each large array split over one mesh axis, or over all
    of them, as `ptk.fsdp_specs` does; as `rules` say; and by these and over one more axis. A plan
    whose parameters alone do not fit is not compiled.

    Args:
        params: The parameters, as arrays or shapes.
        step: The step, `step(params, *args)`.
        mesh: A `Mesh`, an `AbstractMesh` or a dict of axis names and sizes.
        memory: The bytes of a device's memory.
        args: The other arguments of the step, as for `ptk.dry_run`. The batch needs a sharding of
            its own: whole on each device, no plan saves work. The state of an optimizer follows
            the parameters.
        rules: Tensor parallelism: rules, a tree of specs, or what `ptk.partition_plan` returned.
        stack: Rules of the dimensions that are stacks of layers, as for `ptk.fsdp_specs`.
        bandwidth: As for `ptk.dry_run`.
        latency: As for `ptk.dry_run`.
        progress: Whether to show a progress bar; None does on a terminal.

    Returns:
        A `Comparison`; its `plan` is the `ptk.ShardingPlan` that fits and communicates least, None
        if none fits.

    Raises:
        SpecError: What `ptk.dry_run` and `ptk.partition_specs` raise.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> mesh = {"data": 4}
        >>> params = {"w": jax.ShapeDtypeStruct((512, 512), jnp.float32)}
        >>> x = jax.ShapeDtypeStruct((64, 512), jnp.float32)
        >>> found = ptk.suggest(params, lambda params, x: x @ params["w"], mesh,
        ...                     args=(x,), memory=1_500_000)
        >>> list(found.runs), found.best, found.plan.specs
        (['whole', 'split over data'], 'whole', {'w': P()})
    """
    its_mesh = mesh_of(mesh, None, step, ())
    more = [*device_memory(memory), *arguments(args)]
    raise_faults(asked(step, {}, [its_mesh], bandwidth, latency, progress, more), doing=DOING)
    plans = dict(_families(params, axes_of(its_mesh, DOING), rules, stack))
    fit, left_out = _within(plans, memory)
    requests = {
        name: request(step, (params, *args), (plan,), its_mesh, f"{DOING}, {name!r}")
        for name, plan in fit.items()
    }
    runs = every_run(requests, links_of(bandwidth, latency), DOING, progress=progress)
    return Comparison(runs, memory, left_out, plans)


def _families(params: Any, its: Axes, rules: Any, stack: Any) -> Iterator[tuple[str, ShardingPlan]]:
    """Plans by name; what is the same as one before is left out."""
    seen: list[Any] = []
    for name, specs in _specs(params, its, rules, stack):
        plan = ShardingPlan(params, specs, its.mesh)
        if plan not in seen:
            seen.append(plan)
            yield name, plan


def _specs(params: Any, its: Axes, rules: Any, stack: Any) -> Iterator[tuple[str, Any]]:
    options = {"mesh": its.mesh, "stack": stack}
    names = [name for name, size in its.sizes.items() if size > 1]
    over: list[tuple[str, ...]] = [(name,) for name in names]
    over += [tuple(names)] if len(names) > 1 else []
    yield "whole", PartitionSpec()
    for each in over:
        yield f"split over {'+'.join(each)}", fsdp_plan(params, axis=each, **options)
    if rules is None:
        return
    base = rules if isinstance(rules, SpecPlan) else partition_plan(params, rules, **options)
    yield "rules", base
    for name in names:
        yield f"rules, split over {name}", fsdp_plan(params, base, axis=name, **options)


def _within(
    plans: dict[str, ShardingPlan], memory: float | int | None
) -> tuple[dict[str, ShardingPlan], dict[str, str]]:
    """The plans whose parameters fit, and why others were left out."""
    sizes = {name: plan.memory().per_device for name, plan in plans.items()}
    fit = {name: plan for name, plan in plans.items() if memory is None or sizes[name] <= memory}
    why = "the parameters alone take {} of each device"
    left = {name: why.format(in_bytes(sizes[name])) for name in plans if name not in fit}
    return fit, left
