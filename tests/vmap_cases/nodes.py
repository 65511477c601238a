"""Custom nodes, dataclasses and optimizer states."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from . import Layer, Setup, X, case


@dataclasses.dataclass
class PlainRecord:
    """A dataclass that is no pytree."""

    w: Any


class HiddenAux:
    """Keeps an array in its aux data, where nothing maps it."""

    def __init__(self, w, table):
        self.w, self.table = w, table


jax.tree_util.register_pytree_node(
    HiddenAux, lambda o: ((o.w,), o.table), lambda table, children: HiddenAux(children[0], table)
)


def updated(optimizer):
    """One step of an optimizer."""

    def update(grads, opt_state):
        return optimizer.update(grads, opt_state)

    return update


@jax.tree_util.register_pytree_node_class
class NeedsArray:
    """Can be built from an array alone."""

    def __init__(self, arr):
        assert hasattr(arr, "shape"), f"NeedsArray wants an array, got {type(arr).__name__}"
        self.arr = arr

    def tree_flatten(self):
        return (self.arr,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@case("plain-dataclass-under-zero", "unregistered dataclass under 0", accepts=False, param="rec")
def _():
    return Setup(f=lambda rec, x: rec.w + x, args=(PlainRecord(X()), X()), in_axes=0)


@case(
    "plain-dataclass-under-none",
    "unregistered dataclass with batch arrays under None is passed whole",
    accepts=True,
    silent=True,
    param="rec",
    path="rec.w",
    shape="(3, 2)",
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda rec, x: rec.w + x,
        args=(PlainRecord(X()), X()),
        in_axes=(None, 0),
        verify=lambda r: r.shape == (3, 3, 2),
    )


@case(
    "aux-array-not-mapped",
    "array hidden in aux data is not mapped",
    accepts=True,
    silent=True,
    param="node",
    path="node.table",
    shape="(3, 2)",
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda node: node.w + node.table,
        args=(HiddenAux(X(), np.ones((3, 2))),),
        in_axes=0,
        verify=lambda r: r.shape == (3, 3, 2),
    )


@case(
    "aux-array-compare",
    "axes node with array aux data: comparison is ambiguous",
    accepts=False,
    param="node",
    path="in_axes[0]",
)
def _():
    return Setup(
        f=lambda node: node.w,
        args=(HiddenAux(X(), np.ones(3)),),
        in_axes=(HiddenAux(0, np.ones(3)),),
    )


@case(
    "strict-constructor-hides-error",
    "a validating constructor turns the structure error into its own",
    accepts=False,
    issue="jax#12319",
    param="y",
    path="in_axes[1]",
)
def _():
    return Setup(f=lambda node, y: node.arr + y, args=(NeedsArray(X()), X()), in_axes=(0, (0,)))


@case(
    "strict-constructor-ok",
    "validating constructor that only wants an array",
    accepts=True,
    issue="jax#12319",
)
def _():
    return Setup(
        f=lambda node: node.arr,
        args=(NeedsArray(X()),),
        in_axes=0,
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "size-mismatch-custom-path",
    "mismatch inside a node without key names",
    accepts=False,
    param="node",
    shape="(3, 2)",
    axis=0,
    sizes=(3, 4),
)
def _():
    return Setup(f=lambda node, y: node.arr, args=(NeedsArray(X(3)), X(4)), in_axes=0)


@case(
    "eqx-like-module-under-zero",
    "module with a function leaf under 0 (ensemble)",
    accepts=False,
    issue="equinox#278",
    param="model",
    path="model.act",
)
def _():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        w: Any
        act: Any

    return Setup(
        f=lambda model, x: model.act(model.w * x), args=(Model(X(), jnp.tanh), X()), in_axes=0
    )


@case("opt-state-vmapped-init-ok", "state built by vmap(init)", accepts=True)
def _():
    opt, params = optax.adam(1e-2), {"w": jnp.ones((3, 2))}
    st = jax.vmap(opt.init)(params)
    return Setup(
        f=updated(opt),
        args=(params, st),
        in_axes=0,
        verify=lambda r: r[1][0].count.shape == (3,),
    )


@case(
    "opt-state-tuple-axes",
    "tuple of axes for an optax state (NamedTuples inside)",
    accepts=False,
    param="opt_state",
    path="in_axes[1][0]",
)
def _():
    opt, params = optax.adam(1e-2), {"w": jnp.ones((3, 2))}
    st = jax.vmap(opt.init)(params)
    return Setup(
        f=updated(opt),
        args=(params, st),
        in_axes=(0, ((0, 0, 0), ())),
    )


@case(
    "opt-state-shared",
    "optimizer state under None while params are mapped: state grows on the second step",
    accepts=True,
    silent=True,
    param="opt_state",
    path="opt_state[0].mu['w']",
    shape="(2,)",
    sizes=(3,),
)
def _():
    opt = optax.adam(1e-2)
    grads = {"w": jnp.ones((3, 2))}
    st = opt.init({"w": jnp.ones(2)})
    return Setup(
        f=updated(opt),
        args=(grads, st),
        in_axes=(0, None),
        verify=lambda r: r[1][0].mu["w"].shape == (3, 2) and r[1][0].count.shape == (3,),
    )


@case(
    "opt-count-broadcast-out",
    "shared count comes back as N copies with out_axes=0",
    accepts=True,
    silent=True,
    param="opt_state",
    path="opt_state['count']",
    shape="()",
    sizes=(3,),
)
def _():
    st = {"count": jnp.zeros((), jnp.int32), "mu": jnp.ones((3, 2))}
    return Setup(
        f=lambda opt_state: {"count": opt_state["count"] + 1, "mu": opt_state["mu"] * 0.9},
        args=(st,),
        in_axes=({"count": None, "mu": 0},),
        verify=lambda r: r["count"].shape == (3,),
    )


@case("legit-static-equals-batch", "static field equal to the batch size by accident", accepts=True)
def _():
    return Setup(
        f=lambda layer: layer.w * layer.n,
        args=(Layer(X(), 3),),
        in_axes=0,
        verify=lambda r: bool((r == 3 * X()).all()),
    )
