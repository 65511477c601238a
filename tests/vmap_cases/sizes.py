"""Ranks and sizes of mapped axes, and axis_size."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import Setup, X, add, case


@case(
    "axis-out-of-range",
    "axis 2 on a rank-2 argument",
    accepts=False,
    issue="jax#5201",
    param="x",
    shape="(3, 2)",
    axis=2,
)
def _():
    return Setup(f=add, args=(X(), X()), in_axes=(2, 0))


@case(
    "size-mismatch-two-args",
    "two arguments with different mapped sizes",
    accepts=False,
    issue="jax#705",
    param="y",
    shape="(4, 2)",
    axis=0,
    sizes=(3, 4),
)
def _():
    return Setup(f=add, args=(X(3), X(4)), in_axes=0)


@case(
    "size-mismatch-one-deep-leaf",
    "one leaf of many has a different size",
    accepts=False,
    issue="jax#12800",
    param="batch",
    path="batch['meta']['id']",
    shape="(4,)",
    axis=0,
    sizes=(3, 4),
)
def _():
    b = {"x": X(), "y": jnp.ones(3), "meta": {"id": jnp.arange(4), "t": jnp.arange(3)}}
    return Setup(f=lambda batch: batch["x"].sum() + batch["meta"]["id"], args=(b,), in_axes=0)


@case(
    "size-mismatch-two-deep-leaves",
    "two bad leaves of the SAME wrong size: jax prints only one example",
    accepts=False,
    param="batch",
    path="batch['d']",
    shape="(4,)",
    axis=0,
    sizes=(3, 4),
)
def _():
    b = {"a": jnp.ones(4), "b": jnp.ones(3), "c": jnp.ones(3), "d": jnp.ones(4), "e": jnp.ones(3)}
    return Setup(f=lambda batch: batch["a"], args=(b,), in_axes=0)


@case(
    "batch-of-zero",
    "empty batch",
    accepts=True,
    silent=True,
    param="x",
    shape="(0, 2)",
    axis=0,
    sizes=(0,),
)
def _():
    return Setup(
        f=lambda x: x.sum(), args=(jnp.ones((0, 2)),), in_axes=0, verify=lambda r: r.shape == (0,)
    )


@case(
    "size-mismatch-varargs",
    "mismatch inside *args",
    accepts=False,
    issue="jax#18951",
    param="xs",
    path="xs[1]",
    shape="(4,)",
    axis=0,
    sizes=(3, 4),
)
def _():
    return Setup(f=lambda *xs: xs[0] + xs[1], args=(jnp.ones(3), jnp.ones(4)), in_axes=0)


@case(
    "size-mismatch-varargs-misnamed",
    "mismatch in *args of a function that also has keyword-only parameters",
    accepts=False,
    param="xs",
    path="xs[1]",
    shape="(4,)",
    axis=0,
    sizes=(3, 4),
)
def _():
    def total(*xs, scale=1.0):
        return sum(xs) * scale

    return Setup(f=total, args=(jnp.ones(3), jnp.ones(4)), in_axes=0)


@case(
    "scalar-under-zero",
    "python scalar under axis 0",
    accepts=False,
    issue="jax#1991",
    param="scale",
    shape="()",
    axis=0,
)
def _():
    return Setup(f=lambda scale, x: scale * x, args=(2.0, X()), in_axes=(0, 0))


@case(
    "list-of-python-numbers",
    "python list of floats meant as a batch",
    accepts=False,
    issue="jax#17747",
    param="scales",
    path="scales[0]",
    shape="()",
    axis=0,
)
def _():
    return Setup(f=lambda scales, x: scales * x, args=([1.0, 2.0, 3.0], X()), in_axes=0)


@case(
    "list-of-param-dicts",
    "list of parameter dicts meant as an ensemble",
    accepts=False,
    issue="dm-haiku#219",
    param="params",
    path="params[0]['b']",
    shape="()",
    axis=0,
)
def _():
    ps = [{"a": jnp.float32(1), "b": jnp.float32(2)}] * 2
    return Setup(f=lambda x, params: params["a"] * x, args=(jnp.ones(2), ps), in_axes=(0, 0))


@case(
    "axis-size-disagrees",
    "axis_size differs from the mapped size",
    accepts=False,
    param="x",
    shape="(3, 2)",
    axis=0,
    sizes=(4, 3),
)
def _():
    return Setup(f=add, args=(X(), X()), in_axes=0, axis_size=4)


@case("axis-size-no-args-ok", "function without arguments and axis_size", accepts=True)
def _():
    return Setup(
        f=lambda: jnp.ones(2), args=(), in_axes=0, axis_size=3, verify=lambda r: r.shape == (3, 2)
    )


@case(
    "axis-size-float-agrees",
    "axis_size=3.0 passes when some argument is mapped",
    accepts=True,
    silent=True,
    sizes=(3,),
)
def _():
    return Setup(
        # lax.add and not +, whose cached traces decide whether JAX ever looks at the size
        f=jax.lax.add,
        args=(X(), X()),
        in_axes=0,
        axis_size=3.0,
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "axis-size-float-alone",
    "axis_size=3.0 with nothing mapped fails deep inside",
    accepts=False,
    sizes=(3,),
)
def _():
    return Setup(f=add, args=(X(), X()), in_axes=None, axis_size=3.0)


@case("axis-size-negative", "negative axis_size", accepts=False, sizes=(-1,))
def _():
    return Setup(f=add, args=(X(), X()), in_axes=None, axis_size=-1)


@case("legit-batch-of-one", "evaluation of a single example", accepts=True)
def _():
    return Setup(
        f=lambda x: x.sum(), args=(jnp.ones((1, 5)),), in_axes=0, verify=lambda r: r.shape == (1,)
    )
