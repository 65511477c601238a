"""The public `shard_map`: its options, looked at when a function is wrapped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Set
from typing import Any, ParamSpec, TypeVar, overload

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from ..specs.wrapping import kept
from .shard_call import INFER
from .sharded import Sharded, Split

P = ParamSpec("P")
R = TypeVar("R")


@overload
def shard_map(
    fun: Callable[P, R],
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Any = None,
    axis_names: Set[Any] = frozenset(),
    check_vma: bool = True,
) -> Sharded[P, R]: ...


@overload
def shard_map(
    fun: None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Any = None,
    axis_names: Set[Any] = frozenset(),
    check_vma: bool = True,
) -> Callable[[Callable[P, R]], Sharded[P, R]]: ...


def shard_map(
    fun: Any = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Map a function over shards, as `jax.shard_map` does, and tell every fault of a call at once.

    What `jax.shard_map` accepts gives the same values and the same jaxpr, but for a spec that has a
    mesh axis twice, which JAX refuses only where it sees it: here that is always a fault. What JAX
    refuses is refused before `fun` is entered, or for `out_specs` as soon as it returns, by one
    `SpecError` that names each argument, path, shape, spec and mesh axis.

    Args:
        fun: A function of one shard of each argument. Left out, `shard_map` is a decorator.
        out_specs: How the shards of each output are put together: a `PartitionSpec`, or a pytree
            prefix of the output. An output that is whole in its spec must be the same on every
            shard. Where `ptk.Rules` stand, they speak of the paths below: `fun` is then traced once
            more for each kind of call.
        in_specs: How each argument is split. As in JAX: a `PartitionSpec` for all, or a tuple with
            an entry for each argument, itself a spec or a pytree prefix of specs; None passes an
            argument to `fun` as it is. Or by name: a dict keyed by parameters, where `...` stands
            for all that are not named; it governs keywords, too. Or by path: `ptk.Rules`, over all
            arguments or in the place of a spec of one, whose values may be spec text, as for
            `ptk.partition_specs`. Left out, JAX takes it from the types of the arguments, which
            have it on Explicit mesh axes.
        mesh: The mesh; None for the one that `jax.set_mesh` has set. An `AbstractMesh`, or a dict
            of sizes, which is for plans alone: `{"data": 8}`.
        axis_names: The mesh axes to map over, none for all of them.
        check_vma: Whether to check that what is whole in out_specs is the same on every shard.

    Returns:
        The mapped function, with `.plan(*args)`, which tells what each shard sees of each leaf, and
        needs no devices; `.check(*args)`, which returns the faults of a call; and `.over(mesh)`,
        the same function over another mesh.

    Raises:
        SpecError: PTK001, if `fun` is not callable. The mapped function raises PTK001, PTK104 to
            PTK106, PTK201 to PTK204, PTK301 to PTK306 and PTK501 to PTK505, when it is called.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from jax.sharding import PartitionSpec as P
        >>> import pytreekit as ptk
        >>> mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        >>> @ptk.shard_map(mesh=mesh, in_specs={"w": P(), "x": P("data")}, out_specs=P())
        ... def total(w, x):
        ...     return jax.lax.psum((x @ w).sum(), "data")
        >>> float(total(jnp.ones(3), x=jnp.ones((8, 3))))
        24.0
        >>> [fault.code for fault in total.over({"data": 4}).check(jnp.ones(3), jnp.ones((6, 3)))]
        ['PTK303']

    After `jax.shard_map`, whose rules for `in_specs` and `out_specs` hold here.
    """
    in_specs = INFER if in_specs is ... else in_specs
    options = {
        "out_specs": out_specs,
        "in_specs": in_specs,
        "mesh": mesh,
        "axis_names": axis_names,
        "check_vma": check_vma,
    }
    if fun is None:
        return functools.partial(shard_map, **options)
    if not callable(fun):
        fact = f"fun must be callable, this is {values.kind(fun)}"
        raise_faults([Fault("PTK001", "fun", "", "", "", "", fact=fact)], doing="shard_map")
    if not isinstance(check_vma, bool):
        fact = f"check_vma must be True or False, this is {values.kind(check_vma)}"
        fault = Fault("PTK001", "", "", "check_vma", "", values.spec(check_vma), fact=fact)
        raise_faults([fault], doing=f"shard_map({values.function(fun)})", when="on wrapping")
    specs = kept(in_specs), kept(out_specs)
    return Sharded(Split(fun, mesh, *specs, axis_names, check_vma))
