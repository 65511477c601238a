"""Types of leaves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from . import Setup, X, case


@case(
    "numpy-string-array",
    "numpy array of strings under 0",
    accepts=False,
    param="names",
    shape="(3,)",
)
def _():
    return Setup(f=lambda names, x: x, args=(np.array(["a", "b", "c"]), X()), in_axes=0)


@case(
    "numpy-string-array-under-none",
    "numpy array of strings under None is passed whole",
    accepts=True,
    silent=True,
    param="names",
    shape="(3,)",
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda names, x: x * len(names),
        args=(np.array(["a", "b", "c"]), X()),
        in_axes=(None, 0),
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "numpy-object-array", "ragged batch as an object array", accepts=False, param="xs", shape="(2,)"
)
def _():
    o = np.empty(2, object)
    o[:] = [np.ones(2), np.ones(3)]
    return Setup(f=lambda xs: xs, args=(o,), in_axes=0)


@case("masked-array", "numpy masked array", accepts=False, param="x")
def _():
    return Setup(
        f=lambda x: x.sum(),
        args=(np.ma.masked_array(np.ones((3, 2)), mask=np.zeros((3, 2))),),
        in_axes=0,
    )


@case(
    "sparse-without-batch-axis",
    "BCOO matrix without a batch dimension",
    accepts=False,
    param="m",
    axis=0,
)
def _():
    from jax.experimental import sparse

    return Setup(
        f=lambda m: m.todense(), args=(sparse.BCOO.fromdense(jnp.ones((3, 2))),), in_axes=0
    )


@case("set-argument", "a set is not a pytree", accepts=False, param="ids")
def _():
    return Setup(f=lambda ids, x: x, args=({1, 2, 3}, X()), in_axes=0)


@case("shape-dtype-struct-ok", "ShapeDtypeStruct in place of an array", accepts=True)
def _():
    return Setup(
        f=lambda x: jnp.zeros(x.shape),
        args=(jax.ShapeDtypeStruct((3, 2), jnp.float32),),
        in_axes=0,
        verify=lambda r: r.shape == (3, 2),
    )
