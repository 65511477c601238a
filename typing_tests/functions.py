"""Functions, mapped with and without options: seen as what they are.

The files of this folder are checked, never run. `tests/test_typing.py` has four type checkers read
them, and wants from each exactly the lines that are marked:

    # error                      a fault that is planted here, which all of them must tell
    # error: not ty, pyrefly     one that these cannot see, for the reason that stands above it
    # false alarm: mypy          no fault, but these tell one, for the reason that stands above it
"""

from __future__ import annotations

from typing import Any, TypeVar, assert_type

import jax
from jax import Array

import pytreekit as ptk
from pytreekit.batching.plan import VmapPlan
from pytreekit.batching.vmapped import Vmapped
from pytreekit.parallel.pmapped import Pmapped
from pytreekit.parallel.shard_plan import ShardPlan
from pytreekit.parallel.sharded import Sharded

T = TypeVar("T")
S = TypeVar("S")


@ptk.vmap
def plain(x: Array, scale: float = 1.0) -> Array:
    return x * scale


@ptk.vmap(in_axes=(None, 0), out_axes=0, axis_name="i", chunk_size=8)
def with_options(params: dict[str, Array], x: Array, *, label: str = "") -> tuple[Array, int]:
    return params[label] @ x, 1


@ptk.vmap(in_axes={"x": 0, "key": ptk.SPLIT, ...: None})
def by_name(x: Array, /, *extra: Array, key: Array, **more: int) -> Array:
    return x


def one(x: Array, y: int) -> dict[str, Array]:
    return {"x": x * y}


def called(x: Array, params: dict[str, Array]) -> None:
    assert_type(plain(x), Array)
    assert_type(plain(x, 2.0), Array)
    assert_type(plain(x, scale=2.0), Array)
    assert_type(with_options(params, x), tuple[Array, int])
    assert_type(with_options(params, x=x, label="w"), tuple[Array, int])
    assert_type(by_name(x, x, x, key=x, more=1), Array)
    assert_type(ptk.vmap(one)(x, 1), dict[str, Array])
    assert_type(ptk.vmap(one, (0, None), 0)(x, y=1), dict[str, Array])
    assert_type(ptk.vmap(in_axes=0)(one)(x, 1), dict[str, Array])
    assert_type(ptk.vmap(ptk.vmap(one))(x, 1), dict[str, Array])
    assert_type(ptk.vmap(one, in_axes="infer", check_types=False)(x, 1), dict[str, Array])
    assert_type(ptk.vmap(check_types=True)(one)(x, 1), dict[str, Array])
    assert_type(ptk.vmap(lambda x: x, in_axes=0)(1), Any)


def called_wrongly(x: Array, params: dict[str, Array]) -> None:
    plain()  # error
    ptk.vmap(one, check_types="no")  # error
    plain("x")  # error
    plain(x, "2")  # error
    plain(x, 2.0, 3.0)  # error
    plain(x, unknown=2.0)  # error
    plain(x).unknown()  # error
    with_options(x, params)  # error
    with_options(params, x, "w")  # error
    with_options(params, x, label=1)  # error
    by_name(x=x, key=x)  # error
    by_name(x)  # error
    by_name(x, 1, key=x)  # error
    by_name(x, key=x, more="1")  # error
    ptk.vmap(one)(x)  # error
    ptk.vmap(one, (0, None), 0)(x, y="1")  # error
    ptk.vmap(in_axes=0)(one)(1, x)  # error
    ptk.vmap(ptk.vmap(one))(x)  # error
    ptk.vmap(lambda x: x)(1, 2)  # error
    assert_type(plain(x), int)  # error
    len(plain(x).at)  # error
    assert_type(with_options(params, x), tuple[Array, Array])  # error


def planned_and_checked(x: Array) -> None:
    assert_type(plain.plan(x), VmapPlan)
    assert_type(plain.plan(jax.ShapeDtypeStruct((3,), "float32"), outputs=True), VmapPlan)
    assert_type(plain.plan(x).leaves[0].path, str)
    assert_type(plain.check(x, scale=2.0), tuple[ptk.Fault, ...])
    assert_type(plain.in_chunks(8)(x), Array)
    assert_type(plain.__wrapped__(x), Array)
    assert_type(plain.__name__, str)
    plain.plan(x).unknown()  # error
    plain.check(x, unknown=2.0)  # error
    plain.check("x")  # error
    plain.in_chunks("8")  # error
    plain.in_chunks(8)("x")  # error
    plain.__wrapped__("x")  # error
    plain.unknown()  # error


def wrapped_wrongly() -> None:
    ptk.vmap(3)  # error
    ptk.vmap(in_axes=0)(3)  # error
    ptk.vmap(one, unknown=0)  # error
    ptk.vmap(one, chunk_size="8")  # error
    ptk.vmap(one, checks="no")  # error
    ptk.vmap(one, 0, 0, None, None, None, 8)  # error
    ptk.vmap(remat=1.0)  # error


def passed_on(x: Array) -> None:
    def takes(fun: Vmapped[[Array, int], dict[str, Array]]) -> Array:
        return fun(x, 1)["x"]

    def compose(f: Vmapped[[T], S], x: T) -> S:
        return f(x)

    takes(ptk.vmap(one))
    assert_type(compose(ptk.vmap(jax.nn.relu), x), Array)
    takes(plain)  # error


def swap(x: T, y: S) -> tuple[S, T]:
    return y, x


@ptk.vmap
def swap_all(x: T, y: S) -> tuple[S, T]:
    return y, x


def of_any_types(x: Array, y: int) -> None:
    assert_type(ptk.vmap(swap)(x, y), tuple[int, Array])
    assert_type(ptk.vmap(swap)(y=x, x=y), tuple[Array, int])
    ptk.vmap(swap)(x)  # error
    assert_type(ptk.vmap(swap)(x, y), tuple[Array, int])  # error
    # pyrefly loses the type variables of what it decorates.
    assert_type(swap_all(x, y), tuple[int, Array])  # false alarm: pyrefly
    swap_all(x)  # error


@ptk.shard_map(in_specs=jax.P("data"), out_specs=jax.P())
def over_shards(x: Array, *, scale: float = 1.0) -> tuple[Array, int]:
    return x * scale, 1


@ptk.pmap(in_axes=(None, 0), axis_name="i")
def over_devices(params: dict[str, Array], x: Array) -> Array:
    return params["w"] @ x


def over_meshes(x: Array, params: dict[str, Array]) -> None:
    assert_type(over_shards(x, scale=2.0), tuple[Array, int])
    assert_type(over_shards.over({"data": 4}).plan(x), ShardPlan)
    assert_type(ptk.shard_map(one, in_specs=jax.P(), out_specs=jax.P())(x, 1), dict[str, Array])
    assert_type(over_devices(params, x), Array)
    assert_type(ptk.pmap(one, "i")(x, y=1), dict[str, Array])
    its: Sharded[[Array, int], dict[str, Array]] = ptk.shard_map(one, out_specs=None)
    other: Pmapped[[Array, int], dict[str, Array]] = ptk.pmap(one)
    its(x, "1")  # error
    other(x)  # error
    over_shards(x, scale="2")  # error
    over_devices(x, x)  # error
