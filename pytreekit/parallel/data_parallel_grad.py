"""The public `data_parallel_grad`: its options, looked at when a loss is wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from ..specs.wrapping import kept
from .data_parallel import check_choice
from .mean_call import PAD
from .mean_grad import Mean, MeanGrad

P = ParamSpec("P")


def data_parallel_grad(
    loss: Callable[P, Any],
    *,
    mesh: Any = None,
    axis: Any = None,
    batch: Any = None,
    has_aux: bool = False,
    on_indivisible: str = "error",
) -> MeanGrad[P]:
    """The mean of a loss over the examples on all devices, and its gradient.

    The loss is written for one example, `loss(params, *example)`, as for `ptk.per_example_grad`,
    and is mapped by `ptk.vmap`. Each device has its own examples and all parameters; sums are
    reduced over devices once, where it is right: within `jax.shard_map` JAX adds up the gradients
    of what is the same on every device by itself, so that a mean of them taken there is too large
    by the number of devices. Within a `jax.jit` of your own, Explicit axes need the mesh to be set
    by `jax.set_mesh`.

    Args:
        loss: The loss of one example, a real scalar. Its first parameter is differentiated.
        mesh: The mesh; None for the one that `jax.set_mesh` has set. An `AbstractMesh`, or a dict
            of sizes, which is for plans alone.
        axis: The mesh axis that examples are split over, or a tuple of these; None for all.
        batch: Where the examples are: a `PartitionSpec` for all arguments but the first; or a tuple
            with an entry for each of these; or a dict by parameter name, where `...` stands for the
            others; entries may be pytree prefixes. Examples are along the dimension that names
            `axis`; what names none is shared by all examples. None is `P(axis)`: along dimension 0
            of every array.
        has_aux: Whether the loss returns a pair: the loss, and what else.
        on_indivisible: What becomes of a number of examples that does not divide by the number of
            devices, as that of a last batch: `"error"` tells it; `"pad"` repeats the last one, and
            counts these for nothing.

    Returns:
        A function that is called as the loss is, with batches. It returns `(mean loss, mean
        gradient)`; with `has_aux`, `((mean loss, aux), mean gradient)`, where aux is that of every
        example, in their order. Gradients of leaves that are no floats are None. `.plan(...)` tells
        how a call splits each leaf, and needs no devices; `.check(...)` returns its faults.

    Raises:
        SpecError: PTK001, if `loss` is not callable or `on_indivisible` is neither. The function
            raises PTK001, PTK102 to PTK106, PTK201 to PTK204, PTK301 to PTK303, PTK402, PTK403,
            PTK406, PTK501, PTK509 and PTK601 to PTK604, when it is called.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        >>> mean = ptk.data_parallel_grad(lambda w, x: w * x, mesh=mesh)
        >>> value, gradient = mean(2.0, jnp.arange(8.0))
        >>> float(value), float(gradient)
        (7.0, 3.5)

    After data parallelism by `jax.shard_map`.
    """
    doing = "data_parallel_grad"
    if not callable(loss):
        fact = f"loss must be callable, this is {values.kind(loss)}"
        raise_faults([Fault("PTK001", "loss", "", "", "", "", fact=fact)], doing=doing)
    faults = [*check_choice(on_indivisible, PAD), *_check_axis(axis)]
    raise_faults(faults, doing=f"{doing}({values.function(loss)})", when="on wrapping")
    batch = tuple(batch) if isinstance(batch, list) else batch
    return MeanGrad(Mean(loss, mesh, axis, kept(batch), has_aux, on_indivisible))


def _check_axis(axis: Any) -> list[Fault]:
    names = axis if isinstance(axis, tuple) else (axis,)
    if axis is None or (names and all(isinstance(name, str) for name in names)):
        return []
    fact = "axis must be the name of a mesh axis, a tuple of names, or None"
    return [Fault("PTK001", "", "", "axis", "", values.spec(axis), fact=fact)]
