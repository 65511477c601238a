"""The public `vmap`: its options, checked and copied when a function is wrapped."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from ..faults import Fault
from ..show.errors import SpecError
from ..specs.rest import marked
from ..specs.wrapping import copied
from .inferring import Inferring
from .vmapped import Vmapped
from .written import Written, raise_written

P = ParamSpec("P")
R = TypeVar("R")


@overload
def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: Any = None,
    spmd_axis_name: Any = None,
    *,
    chunk_size: int | None = None,
    remat: bool = False,
    check_types: bool = True,
    checks: bool = True,
) -> Vmapped[P, R]: ...


@overload
def vmap(
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: Any = None,
    spmd_axis_name: Any = None,
    chunk_size: int | None = None,
    remat: bool = False,
    check_types: bool = True,
    checks: bool = True,
) -> Callable[[Callable[P, R]], Vmapped[P, R]]: ...


def vmap(
    fun: Any = ...,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: Any = None,
    spmd_axis_name: Any = None,
    *,
    chunk_size: Any = None,
    remat: bool = False,
    check_types: bool = True,
    checks: bool = True,
) -> Any:
    """Map a function over a batch axis, as `jax.vmap` does, and tell every fault of a call at once.

    What `jax.vmap` accepts gives the same values and the same jaxpr. What it refuses is refused
    before `fun` is entered, or for `out_axes` as soon as it returns, by one `SpecError` that
    names each argument, path, shape and axis, and says how to fix it.

    Args:
        fun: A function of one example. Left out, `vmap` is a decorator with options.
        in_axes: The axis to map each argument over. As in JAX: an int for all, None to share, or a
            tuple with an entry for each positional argument, itself an int, None or a pytree prefix
            of that argument; keywords are then mapped over axis 0. Or by name: a dict keyed by
            parameters, `{"params": None, "x": 0, ...: 0}`, where `...` stands for all that are not
            named; it governs keywords too, and an argument without an entry is a fault. Or by path:
            `ptk.Rules` over all arguments, whose paths begin with the name of the parameter,
            `params/encoder/w` or `xs/0` of `*xs`; in the place of a spec of one argument, rules
            speak of the paths in it. In the place of an axis there may be `ptk.SPLIT`, for a PRNG
            key, or a function of the leaf, such as `ptk.if_array(0)`. Or `"infer"`, for a function
            annotated for one example: an argument that fits its annotation is shared, any other is
            mapped over the axis that it has over. It is copied: later changes to it have no effect.
        out_axes: Where the mapped axis goes in each output: an int, None for an output that does
            not vary, or a pytree prefix of the output.
        axis_name: A name of the axis for collectives in `fun` such as `jax.lax.psum`.
        axis_size: The size of the axis, needed where no argument is mapped.
        spmd_axis_name: The mesh axis to shard the mapped axis over, as in `jax.vmap`.
        chunk_size: How many examples to map at once, None for all: chunk after chunk, by
            `jax.lax.scan`, so that temporaries take the memory of one chunk. It goes with any
            axes, but not with axis_name, over which a collective would see one chunk.
        remat: Whether a gradient computes each chunk again, rather than keep what it needs of all.
        check_types: Whether what one example has must fit the annotations of `fun`, where jaxtyping
            has a say in them: `x: Float[Array, "d"]`. They are checked before tracing, names of
            dimensions across all arguments. Of a function without such annotations, nothing is.
        checks: Whether faults are explained; `False` is `jax.vmap` itself, behind the same specs.

    Returns:
        The mapped function, with `.plan(*args)`, which tells what a call would do with each leaf
        and traces nothing, and `.check(*args)`, which returns the faults of a call.

    Raises:
        SpecError: PTK001, PTK104, PTK105, PTK107 or PTK110, if an option is not what it must be.
            The mapped function raises PTK101 to PTK109, PTK201 to PTK204, PTK305 and PTK601 to
            PTK605, when it is called.

    Warns:
        SpecWarning: PTK901 to PTK905, once for each mapped function, where the spec itself gives
            away that a call which JAX accepts computes something else than is meant.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> @ptk.vmap(in_axes=(None, 0))
        ... def predict(params, x):
        ...     return x @ params["w"] + params["b"]
        >>> params = {"w": jnp.ones((8, 3)), "b": jnp.zeros(3)}
        >>> predict(params, jnp.ones((32, 8))).shape
        (32, 3)
        >>> predict.plan(params, jnp.ones((32, 8))).axis_size
        32
        >>> [fault.code for fault in predict.check(params, jnp.ones(()))]
        ['PTK101']
        >>> from jaxtyping import Array, Float
        >>> @ptk.vmap(in_axes="infer")
        ... def dot(w: Float[Array, "d"], x: Float[Array, "d"]) -> Float[Array, ""]:
        ...     return w @ x
        >>> dot(jnp.ones(8), jnp.ones((32, 8))).shape
        (32,)
        >>> by_name = ptk.vmap(predict.__wrapped__, in_axes={"params": None, "x": 0}, chunk_size=10)
        >>> by_name(x=jnp.ones((32, 8)), params=params).shape
        (32, 3)

    After `jax.vmap`, whose rules for `in_axes` and `out_axes` hold here exactly.
    """
    options = {
        "in_axes": in_axes,
        "out_axes": out_axes,
        "axis_name": axis_name,
        "axis_size": axis_size,
        "spmd_axis_name": spmd_axis_name,
        "chunk_size": chunk_size,
        "remat": remat,
        "check_types": check_types,
        "checks": checks,
    }
    if fun is ...:
        return functools.partial(vmap, **options)
    if not callable(fun):
        fact = f"fun must be callable, this is a {type(fun).__name__}"
        raise SpecError([Fault("PTK001", "fun", "", "", "", "", fact=fact)], doing="vmap") from None
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)  # as JAX has it, at the top only
    more = (axis_name, spmd_axis_name, chunk_size, remat, checks and check_types)
    written = Written(fun, marked(in_axes), out_axes, *more)
    if checks or not written.is_plain:
        raise_written(written)
        written = Written(fun, copied(written.in_axes), copied(out_axes), *more)
    kind = Inferring if written.infers else Vmapped
    return kind(written, axis_size, checks=checks)
