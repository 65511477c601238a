"""The public `data_parallel`: its options, looked at when a step is wrapped."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from ..faults import Fault
from ..sharding.options import ERROR, REPLICATE
from ..show import values
from ..show.errors import raise_faults
from ..specs.wrapping import kept
from .step_call import specs_of
from .stepped import DataParallel, Step

P = ParamSpec("P")
R = TypeVar("R")


@overload
def data_parallel(
    step: Callable[P, R],
    /,
    *,
    mesh: Any = None,
    batch: Any = None,
    state: Any = None,
    on_indivisible: str = "error",
    donate_state: bool = False,
) -> DataParallel[P, R]: ...


@overload
def data_parallel(
    step: None = None,
    /,
    *,
    mesh: Any = None,
    batch: Any = None,
    state: Any = None,
    on_indivisible: str = "error",
    donate_state: bool = False,
) -> Callable[[Callable[P, R]], DataParallel[P, R]]: ...


def data_parallel(
    step: Any = None,
    /,
    *,
    mesh: Any = None,
    batch: Any = None,
    state: Any = None,
    on_indivisible: str = "error",
    donate_state: bool = False,
) -> Any:
    """A training step on all devices of a mesh: the batch split, the state whole or by a plan.

    The step is written for one device and the whole batch, `step(state, batch) -> (state,
    metrics)`; a mean in it is the mean over the whole batch. It becomes one program for all devices
    by `jax.jit`, and XLA puts in the sums between them: the numbers are those of one device, up to
    the order of additions. Arguments are placed where they are to be, and cost nothing if they are
    there; the new state is where the old one was; metrics are whole on every device. The mesh is
    set within the step, so that specs alone will do there: in `jax.lax.with_sharding_constraint` on
    Auto axes, and on Explicit ones in `jax.reshard` and as the `out_sharding` that a product over a
    split dimension needs. Within a `jax.jit` of your own, Explicit axes need the mesh to be set by
    `jax.set_mesh`.

    Args:
        step: A function of a state, a batch, and whatever else, which is whole on every device.
            Left out, `data_parallel` is a decorator.
        mesh: The mesh; None for the one that `jax.set_mesh` has set. An `AbstractMesh`, or a dict
            of sizes, which is for plans alone.
        batch: How the batch is split: a `PartitionSpec`, or a pytree prefix of the batch, or
            `ptk.Rules`. None splits dimension 0 of every array over all axes of the mesh.
        state: How the state is: what has a tree of `shardings`, as a plan does, or a pytree prefix
            of `NamedSharding`s or `PartitionSpec`s, or `ptk.Rules`. None has it whole on every
            device.
        on_indivisible: What becomes of a dimension of the batch that does not divide, as that of a
            last batch: `"error"` tells it; `"replicate"` has it whole on every device, which does
            the work of all.
        donate_state: Whether the buffers of the state may be reused for the new one.

    Returns:
        The step, with `.plan(...)`, which tells how a call splits each leaf, and needs no devices;
        `.check(...)`, which returns its faults; and `.lower(...)`, as `jax.jit` has it.

    Raises:
        SpecError: PTK001, if `step` is not callable or `on_indivisible` is neither. The step raises
            PTK001, PTK104, PTK201 to PTK205, PTK301 to PTK306, PTK501 and PTK508, when it is
            called.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> def step(w, batch):
        ...     loss = lambda w: jnp.mean((batch["x"] @ w - batch["y"]) ** 2)
        ...     value, gradient = jax.value_and_grad(loss)(w)
        ...     return w - 0.1 * gradient, {"loss": value}
        >>> batch = {"x": jnp.ones((8, 3)), "y": jnp.ones(8)}
        >>> mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        >>> w, metrics = ptk.data_parallel(step, mesh=mesh)(jnp.zeros(3), batch)
        >>> float(metrics["loss"])
        1.0
        >>> ptk.data_parallel(step, mesh={"data": 4}).plan(w, batch).leaves[1].shard
        'f32[2,3]'

    After data parallelism by `jax.jit` with shardings.
    """
    options = {
        "mesh": mesh,
        "batch": batch,
        "state": state,
        "on_indivisible": on_indivisible,
        "donate_state": donate_state,
    }
    if step is None:
        return functools.partial(data_parallel, **options)
    if not callable(step):
        fact = f"step must be callable, this is {values.kind(step)}"
        raise_faults([Fault("PTK001", "step", "", "", "", "", fact=fact)], doing="data_parallel")
    faults = check_choice(on_indivisible, REPLICATE)
    raise_faults(faults, doing=f"data_parallel({values.function(step)})", when="on wrapping")
    specs = kept(batch), kept(specs_of(state))
    return DataParallel(Step(step, mesh, *specs, on_indivisible, donate_state))


def check_choice(said: Any, other: str) -> list[Fault]:
    """PTK001: `on_indivisible` is one of two words."""
    if isinstance(said, str) and said in {ERROR, other}:
        return []
    fact = f"on_indivisible must be {ERROR!r} or {other!r}"
    return [Fault("PTK001", "", "", "on_indivisible", "", values.spec(said), fact=fact)]
