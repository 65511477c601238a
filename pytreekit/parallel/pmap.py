"""The public `pmap`: its options, checked and copied when a function is wrapped."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import jax
import numpy as np

from ..batching.written import Written, raise_written
from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from ..specs.rest import marked
from ..specs.wrapping import copied
from .pmapped import Placed, Pmapped

P = ParamSpec("P")
R = TypeVar("R")


@overload
def pmap(
    fun: Callable[P, R],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Pmapped[P, R]: ...


@overload
def pmap(
    *,
    axis_name: Any = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Callable[[Callable[P, R]], Pmapped[P, R]]: ...


def pmap(
    fun: Any = ...,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: Any = (),
    devices: Any = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: Any = (),
) -> Any:
    """Map a function over devices, as `jax.pmap` does, and tell every fault of a call at once.

    For programs that have `pmap` already; new ones are better off with `ptk.shard_map`, or with
    `jax.jit` and shardings. What `jax.pmap` accepts gives the same values, but for two calls:
    `out_axes=None` for an output that varies is a fault, where JAX keeps the value of one device
    and drops the rest; and a negative axis of out_axes is that of `jax.vmap`, where JAX puts the
    examples together along another one. Beyond that it takes what `ptk.vmap` does: lists, negative
    axes, axes by name and by path, `ptk.SPLIT`, and what is no array under None; and it works where
    `jax.set_mesh` has set a mesh. What is no array is static: the function is
    compiled for that object, as by `jax.jit`, and does not see it change.

    Args:
        fun: A function of one example. Left out, `pmap` is a decorator with options.
        axis_name: A name of the axis for collectives in `fun` such as `jax.lax.psum`.
        in_axes: The axis to map each argument over, as in `ptk.vmap`.
        out_axes: Where the mapped axis goes in each output, as in `ptk.vmap`.
        static_broadcasted_argnums: The arguments, by place, that `fun` gets as they are, and is
            compiled for anew when they change. Negative places count from the end, as in `jax.jit`;
            `jax.pmap` overlooks these.
        devices: The devices to map over, by default all.
        backend: The backend whose devices these are.
        axis_size: The size of the mapped axis, of all processes together.
        donate_argnums: The arguments, by place, whose buffers may be reused.

    Returns:
        The mapped function, with `.plan(*args)`, which tells what a call would do with each leaf,
        `.check(*args)`, which returns its faults, and `.lower(*args)`, as JAX has it.

    Raises:
        SpecError: PTK001, PTK104, PTK105, PTK107 or PTK507, if an option is not what it must be.
            The mapped function raises PTK101 to PTK108, PTK201 to PTK204, PTK305, PTK501, PTK506
            and PTK507, when it is called.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> @ptk.pmap(axis_name="i", in_axes={"w": None, "x": 0})
        ... def share(w, x):
        ...     return w * x / jax.lax.psum(x, "i")
        >>> share(2.0, x=jnp.ones(1)).tolist()
        [2.0]
        >>> [fault.code for fault in share.check(2.0, jnp.ones(1000))]
        ['PTK506']

    After `jax.pmap`.
    """
    options = {
        "axis_name": axis_name,
        "in_axes": in_axes,
        "out_axes": out_axes,
        "static_broadcasted_argnums": static_broadcasted_argnums,
        "devices": devices,
        "backend": backend,
        "axis_size": axis_size,
        "donate_argnums": donate_argnums,
    }
    if fun is ...:
        return functools.partial(pmap, **options)
    if not callable(fun):
        fact = f"fun must be callable, this is {values.kind(fun)}"
        raise_faults([Fault("PTK001", "fun", "", "", "", "", fact=fact)], doing="pmap")
    placed = _placed(fun, options)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)  # as vmap has it, at the top only
    more = {"axis_name": axis_name, "check_types": False, "doing": "pmap"}
    written = Written(fun, marked(in_axes), out_axes, **more)
    raise_written(written)
    written = Written(fun, copied(written.in_axes), copied(out_axes), **more)
    return Pmapped(written, placed)


def _placed(fun: Any, options: dict[str, Any]) -> Placed:
    """The options that say where the function runs.

    Raises:
        SpecError: PTK001 or PTK507, if one is not what it must be.
    """
    faults: list[Fault] = []
    places = {}
    for name in ("static_broadcasted_argnums", "donate_argnums"):
        said = options[name]
        try:
            its = (said,) if not isinstance(said, Iterable) else said
            places[name] = tuple(operator.index(place) for place in its)
        except TypeError:
            fact = f"{name} must be an int, or a collection of these"
            faults.append(Fault("PTK001", "", "", name, "", values.spec(said), fact=fact))
    devices = options["devices"]
    if devices is not None:
        devices = tuple(devices) if isinstance(devices, Iterable) else (devices,)
        if not devices or not all(isinstance(its, jax.Device) for its in devices):
            fact = "devices must be None, or have at least one"
            told = values.spec(options["devices"])
            faults.append(Fault("PTK001", "", "", "devices", "", told, fact=fact))
    size = options["axis_size"]
    if size is not None and not (isinstance(size, int | np.integer) and size > 0):
        fact = "axis_size must be None, or an int of at least 1"
        faults.append(Fault("PTK001", "", "", "axis_size", "", values.spec(size), fact=fact))
    static = places.get("static_broadcasted_argnums", ())
    donated = places.get("donate_argnums", ())
    both = sorted(set(static) & set(donated))
    if both:
        fact = f"argument {both[0]} is static, it cannot be donated"
        faults.append(Fault("PTK507", "", "", "donate_argnums", "", str(donated), fact=fact))
    raise_faults(faults, doing=f"pmap({values.function(fun)})")
    return Placed(static, donated, devices, options["backend"], options["axis_size"])
