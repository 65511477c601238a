"""Keywords, defaults, methods and static arguments."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import Setup, X, add, case


@case(
    "axis-parenthesised-int",
    "in_axes=(0) is the int 0, not a one-tuple",
    accepts=True,
    silent=True,
    param="w",
    shape="(3, 3)",
    axis=0,
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda x, w: w @ x,
        args=(jnp.ones((3, 3)), jnp.eye(3)),
        in_axes=(0),
        verify=lambda r: r.shape == (3,),
    )  # wanted (3, 3)


@case(
    "kwargs-counted-by-tuple-axes",
    "argument passed by keyword but counted in the in_axes tuple",
    accepts=False,
    issue="jax#7465",
    param="y",
    sizes=(2, 1),
)
def _():
    return Setup(f=add, args=(X(),), kwargs={"y": jnp.ones(2)}, in_axes=(0, None))


@case(
    "kwargs-ignore-in-axes-one",
    "in_axes=1 does not reach keyword arguments (square data)",
    accepts=True,
    silent=True,
    issue="jax#912",
    param="y",
    shape="(3, 3)",
    axis=0,
    sizes=(3,),
)
def _():
    a = jnp.arange(9.0).reshape(3, 3)
    return Setup(
        f=lambda x, y: x - y,
        args=(a,),
        kwargs={"y": a},
        in_axes=1,
        verify=lambda r: not bool((r == 0).all()),
    )


@case(
    "kwargs-shared-weight-mapped",
    "shared weight passed by keyword is cut into rows",
    accepts=True,
    silent=True,
    issue="jax#912",
    param="w",
    shape="(3, 3)",
    axis=0,
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda x, w: w @ x,
        args=(jnp.ones((3, 3)),),
        kwargs={"w": jnp.eye(3)},
        in_axes=0,
        verify=lambda r: r.shape == (3,),
    )


@case(
    "kwargs-string-option",
    "string option by keyword",
    accepts=False,
    issue="jax#5617",
    param="mode",
)
def _():
    return Setup(f=lambda x, mode: x, args=(X(),), kwargs={"mode": "clip"}, in_axes=(0,))


@case(
    "kwargs-bool-flag",
    "train=True by keyword",
    accepts=False,
    issue="jax#5617",
    param="train",
    shape="()",
    axis=0,
)
def _():
    return Setup(
        f=lambda x, train: x if train else -x, args=(X(),), kwargs={"train": True}, in_axes=(0,)
    )


@case(
    "kwargs-axis0-ok",
    "keyword argument that should be mapped on axis 0",
    accepts=True,
    issue="jax#5387",
)
def _():
    return Setup(
        f=add, args=(X(),), kwargs={"y": X()}, in_axes=(0,), verify=lambda r: r.shape == (3, 2)
    )


@case(
    "default-counted",
    "in_axes has an entry for a defaulted parameter that was not passed",
    accepts=False,
    param="scale",
    sizes=(2, 1),
    path="in_axes[1]",
)
def _():
    return Setup(f=lambda x, scale=1.0: x * scale, args=(X(),), in_axes=(0, None))


@case(
    "default-array-not-mapped",
    "array default is never mapped",
    accepts=True,
    silent=True,
    param="offset",
    shape="(3,)",
    sizes=(3,),
)
def _():
    offset = jnp.arange(3.0)

    def f(x, offset=offset):
        return x.sum() + offset

    return Setup(f=f, args=(X(),), in_axes=0, verify=lambda r: r.shape == (3, 3))


@case(
    "bound-method-self-counted",
    "in_axes has an entry for self of a bound method",
    accepts=False,
    param="x",
    sizes=(2, 1),
)
def _():
    class Model:
        def apply(self, x):
            return x

    return Setup(f=Model().apply, args=(X(),), in_axes=(None, 0))


@case("unbound-method-self-mapped", "decorating a method maps self", accepts=False, param="self")
def _():
    class Model:
        def apply(self, x):
            return x

    return Setup(f=Model.apply, args=(Model(), X()), in_axes=0)


@case(
    "decorated-method-in-class",
    "@jax.vmap on a method: self is the first mapped argument",
    accepts=False,
    param="self",
)
def _():
    class Model:
        scale = 2.0

        def apply(self, x):
            return x * self.scale

    return Setup(f=Model.apply, args=(Model(),), kwargs={"x": X()}, in_axes=0)


@case("varargs-in-axes-one", "one in_axes entry for *xs", accepts=False, param="xs", sizes=(1, 2))
def _():
    return Setup(f=lambda *xs: xs[0] + xs[1], args=(X(), X()), in_axes=(0,))


@case(
    "vmap-of-jit-static", "vmap of jit with static_argnums and None", accepts=True, issue="jax#3696"
)
def _():
    g = jax.jit(jnp.tile, static_argnums=1)
    return Setup(f=g, args=(X(), 2), in_axes=(0, None), verify=lambda r: r.shape == (3, 4))


@case(
    "static-int-mapped",
    "static size argument covered by in_axes=0",
    accepts=False,
    issue="jax#3696",
    param="n",
    shape="()",
    axis=0,
)
def _():
    return Setup(f=lambda x, n: jnp.tile(x, (n,)), args=(X(), 2), in_axes=0)


@case(
    "string-under-zero",
    "string argument covered by in_axes=0",
    accepts=False,
    issue="jax#29587",
    param="activation",
    path="in_axes[0]",
)
def _():
    return Setup(f=lambda activation, x: x, args=("relu", X()), in_axes=(0, 0))


@case("string-under-none-ok", "string argument under None", accepts=True, issue="jax#29587")
def _():
    return Setup(
        f=lambda activation, x: jnp.tanh(x) if activation == "tanh" else x,
        args=("tanh", X()),
        in_axes=(None, 0),
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "branch-on-mapped-flag",
    "python if on a mapped bool array",
    accepts=False,
    issue="jax#10493",
    param="train",
    shape="(3,)",
    axis=0,
)
def _():
    return Setup(
        f=lambda x, train: x if train else -x, args=(X(), jnp.array([True, False, True])), in_axes=0
    )
