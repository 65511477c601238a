"""out_axes against what the function returns."""

from __future__ import annotations

import jax.numpy as jnp

from . import Setup, X, case


@case(
    "out-axes-none-one-leaf",
    "out_axes None on one batched leaf of a dict output",
    accepts=False,
    issue="jax#21766",
    path="out_axes['loss']",
    axis=None,
)
def _():
    return Setup(
        f=lambda x: {"loss": x.sum(), "aux": x},
        args=(X(),),
        in_axes=0,
        out_axes={"loss": None, "aux": 0},
    )


@case(
    "out-axes-too-many",
    "more out_axes entries than outputs",
    accepts=False,
    issue="jax#3613",
    path="out_axes",
    sizes=(3, 2),
)
def _():
    return Setup(f=lambda x: (x, x), args=(X(),), in_axes=0, out_axes=(0, 0, 0))


@case(
    "out-axes-singleton-tuple", "out_axes=(0,) for one array output", accepts=False, path="out_axes"
)
def _():
    return Setup(f=lambda x: x, args=(X(),), in_axes=0, out_axes=(0,))


@case(
    "out-axes-list-for-tuple",
    "out_axes list for a tuple output (no list-to-tuple help here)",
    accepts=False,
    issue="jax#2367",
    path="out_axes",
)
def _():
    return Setup(f=lambda x: (x, x), args=(X(),), in_axes=0, out_axes=[0, 0])


@case(
    "out-axes-one-transposes",
    "out_axes=1 transposes the result quietly",
    accepts=True,
    silent=True,
    issue="jax#1368",
    path="out_axes",
    axis=1,
)
def _():
    return Setup(
        f=lambda x: x * 2, args=(X(),), in_axes=0, out_axes=1, verify=lambda r: r.shape == (2, 3)
    )


@case(
    "out-axes-negative-mixed",
    "out_axes=-1 lands on different axes per output rank",
    accepts=True,
    silent=True,
    path="out_axes",
    axis=-1,
)
def _():
    return Setup(
        f=lambda x: {"v": x, "s": x.sum()},
        args=(X(),),
        in_axes=0,
        out_axes=-1,
        verify=lambda r: r["v"].shape == (2, 3) and r["s"].shape == (3,),
    )


@case(
    "sum-match-sums-quietly",
    "sum_match=True with out_axes=None adds the examples up",
    accepts=True,
    silent=True,
    path="out_axes",
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda x: x.mean(),
        args=(X(),),
        in_axes=0,
        out_axes=None,
        options={"sum_match": True},
        verify=lambda r: r.shape == () and float(r) == float(X().mean(1).sum()),
    )


@case(
    "out-axes-constant-ok",
    "constant output under out_axes=0 is broadcast",
    accepts=True,
    issue="jax#16585",
)
def _():
    return Setup(f=lambda x: 0.0, args=(X(),), in_axes=0, verify=lambda r: r.shape == (3,))


@case(
    "out-axes-string-output",
    "f returns a string next to an array",
    accepts=False,
    issue="equinox#115",
    path="out[1]",
)
def _():
    return Setup(f=lambda x: (x, "tag"), args=(X(),), in_axes=0, out_axes=(0, None))


@case(
    "out-axes-none-output-tuple",
    "out_axes tuple below a None output",
    accepts=False,
    path="out_axes[1]",
)
def _():
    return Setup(f=lambda x: (x, None), args=(X(),), in_axes=0, out_axes=(0, (0, 0)))


@case("legit-time-major-output", "out_axes=1 on purpose", accepts=True)
def _():
    return Setup(
        f=jnp.cumsum,
        args=(X(),),
        in_axes=0,
        out_axes=1,
        verify=lambda r: r.shape == (2, 3),
    )
