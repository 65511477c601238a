"""Values of single axes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from . import Setup, X, add, case


@case("axis-np-int64-top", "np.int64 given as the whole in_axes", accepts=False, axis=0)
def _():
    return Setup(f=lambda x: x, args=(X(),), in_axes=np.int64(0))


@case(
    "axis-np-int64-nested",
    "np.int64 as the axis of one argument",
    accepts=False,
    param="x",
    path="in_axes[0]",
)
def _():
    return Setup(f=add, args=(X(), X()), in_axes=(np.int64(0), 0))


@case(
    "axis-bool-false",
    "False used as a 'do not map' flag",
    accepts=False,
    issue="jax#6399",
    param="y",
    path="in_axes[1]",
)
def _():
    return Setup(f=add, args=(X(), jnp.ones(2)), in_axes=(0, False))


@case("axis-string", "axis given by name as a string", accepts=False, param="x", path="in_axes[0]")
def _():
    return Setup(f=add, args=(X(), X()), in_axes=("batch", 0))


@case("axis-jnp-scalar", "jax scalar array as axis", accepts=False, param="x", path="in_axes[0]")
def _():
    return Setup(f=add, args=(X(), X()), in_axes=(jnp.array(0), 0))


@case("axis-ellipsis", "Ellipsis as axis", accepts=False, param="y", path="in_axes[1]")
def _():
    return Setup(f=add, args=(X(), X()), in_axes=(0, ...))


@case(
    "axis-negative-mixed-rank",
    "in_axes=-1 over leaves of different rank maps a feature axis of one of them",
    accepts=True,
    silent=True,
    issue="jax#4111",
    param="batch",
    path="batch['mean']",
    axis=-1,
    sizes=(4,),
)
def _():
    # x is (features=5, batch=4); mean is meant to be shared (4 sensors)
    return Setup(
        f=lambda batch: batch["x"].sum() - batch["mean"],
        args=({"x": jnp.ones((5, 4)), "mean": jnp.arange(4.0)},),
        in_axes=-1,
        verify=lambda r: r.shape == (4,),
    )  # wanted (4, 4): every example against all 4 means


@case("axis-negative-ok", "negative axis on equal-rank leaves", accepts=True, issue="jax#4111")
def _():
    return Setup(f=add, args=(X(), X()), in_axes=-1, verify=lambda r: r.shape == (2, 3))
