"""Nested vmaps, axis names and spmd_axis_name."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from . import Setup, X, add, case


def mesh(kind):
    return jax.make_mesh((2, 2), ("dp", "tp"), axis_types=(kind,) * 2, devices=jax.devices()[:4])


def constrained(axis):
    """A function that lays its value over a mesh axis."""
    sharding = NamedSharding(mesh(AxisType.Auto), P(axis))
    return lambda x: jax.lax.with_sharding_constraint(x, sharding)


@case("axis-name-unhashable", "axis_name given as a list", accepts=False)
def _():
    return Setup(f=lambda x: x, args=(X(),), in_axes=0, axis_name=["batch"])


@case("axis-name-tuple", "axis_name tuple does not bind each name", accepts=False)
def _():
    return Setup(f=lambda x: jax.lax.psum(x, "i"), args=(X(),), in_axes=0, axis_name=("i", "j"))


@case(
    "axis-name-shadowed",
    "two nested vmaps with the same axis name",
    accepts=True,
    silent=True,
    sizes=(3, 2),
)
def _():
    x = X()
    return Setup(
        f=lambda x: jax.lax.psum(x, "i"),
        args=(x,),
        in_axes=0,
        axis_name="i",
        nest=[{"axis_name": "i"}],
        verify=lambda r: bool((r == x.sum(1, keepdims=True)).all()),
    )


@case(
    "nested-inner-axis-after-removal",
    "inner axis counted on the full array",
    accepts=False,
    param="x",
    shape="(3,)",
    axis=1,
)
def _():
    return Setup(f=lambda x: x, args=(jnp.ones((2, 3)),), in_axes=0, nest=[{"in_axes": 1}])


@case(
    "nested-cube-axis-shift",
    "cube data hides the axis shift of nesting",
    accepts=True,
    silent=True,
    param="x",
    shape="(3, 3, 3)",
    axis=1,
    sizes=(3,),
)
def _():
    x = jnp.arange(27.0).reshape(3, 3, 3)
    return Setup(
        f=lambda x: x[0],
        args=(x,),
        in_axes=0,
        nest=[{"in_axes": 1}],
        verify=lambda r: bool((r == x[:, 0, :]).all()),
    )


@case(
    "nested-order-transposed",
    "outer/inner order decides the result axes",
    accepts=True,
    silent=True,
    issue="jax#1368",
    sizes=(4, 3),
)
def _():
    return Setup(
        f=jnp.dot,
        args=(X(3), X(4)),
        in_axes=(None, 0),
        nest=[{"in_axes": (0, None)}],
        verify=lambda r: r.shape == (4, 3),
    )


@case(
    "nested-inner-size-mismatch",
    "inner sizes differ: jax names the argument but shows the shape already stripped",
    accepts=False,
    param="y",
    shape="(3, 5)",
    axis=1,
    sizes=(2, 5),
)
def _():
    return Setup(f=add, args=(jnp.ones((3, 2)), jnp.ones((3, 5))), in_axes=0, nest=[{"in_axes": 0}])


@case(
    "nested-inner-kwargs",
    "inner vmap called with a keyword",
    accepts=True,
    silent=True,
    issue="jax#912",
    param="w",
    shape="(2, 2)",
    axis=0,
    sizes=(2,),
)
def _():
    inner = jax.vmap(lambda x, w: w @ x)
    return Setup(
        f=lambda x, w: inner(x, w=w),
        args=(jnp.ones((3, 2, 2)), jnp.eye(2)),
        in_axes=(0, None),
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "spmd-name-used-inside",
    "spmd_axis_name also used in a constraint inside f",
    accepts=False,
    issue="jax#21071",
)
def _():
    return Setup(f=constrained("dp"), args=(jnp.ones((4, 4)),), in_axes=0, spmd_axis_name="dp")


@case(
    "spmd-name-no-mesh",
    "spmd_axis_name without any mesh or constraint has no effect",
    accepts=True,
    silent=True,
    issue="jax#15886",
)
def _():
    return Setup(
        f=lambda x: x,
        args=(X(),),
        in_axes=0,
        spmd_axis_name="data",
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "spmd-name-misspelt",
    "spmd_axis_name not in the mesh of the constraint inside",
    accepts=False,
    issue="jax#15886",
)
def _():
    return Setup(f=constrained("tp"), args=(jnp.ones((4, 4)),), in_axes=0, spmd_axis_name="data")


@case(
    "spmd-explicit-mixed",
    "explicit mesh: mapped axes sharded differently",
    accepts=False,
    issue="jax#29839",
    param="y",
    axis=0,
)
def _():
    m = mesh(AxisType.Explicit)
    return Setup(
        f=add,
        args=(
            jax.device_put(jnp.ones((4, 4)), NamedSharding(m, P("dp"))),
            jax.device_put(jnp.ones((4, 4)), NamedSharding(m, P(None, "tp"))),
        ),
        in_axes=0,
        set_mesh=m,
    )
