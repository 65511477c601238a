"""Containers of in_axes against containers of arguments."""

from __future__ import annotations

import collections

import jax
import jax.numpy as jnp

from . import Pair, Point, Setup, X, add, case


@case(
    "top-dict",
    "dict as the whole in_axes for one dict argument",
    accepts=False,
    issue="jax#18548",
    param="d",
    path="in_axes",
)
def _():
    return Setup(f=lambda d: d["a"], args=({"a": X()},), in_axes={"a": 0})


@case(
    "top-list-ok",
    "list as the whole in_axes is turned into a tuple",
    accepts=True,
    issue="jax#2367",
)
def _():
    return Setup(
        f=add, args=(X(), jnp.ones(2)), in_axes=[0, None], verify=lambda r: r.shape == (3, 2)
    )


@case(
    "nested-list-for-tuple",
    "nested list in in_axes where the argument is a tuple",
    accepts=False,
    issue="jax#12557",
    param="batch",
    path="in_axes[0]",
)
def _():
    return Setup(f=lambda batch: batch[0] + batch[1], args=((X(), X()),), in_axes=([0, 0],))


@case(
    "tuple-arg-unwrapped-axes",
    "axes of a one-tuple argument not wrapped in the argument tuple",
    accepts=False,
    issue="klax#19",
    param="batch",
    sizes=(2, 1),
)
def _():
    return Setup(f=lambda batch: batch[0] + batch[1], args=((X(), X()),), in_axes=(0, 0))


@case(
    "spec-missing-key",
    "axes dict lacks a key of the argument",
    accepts=False,
    issue="jax#9372",
    param="params",
    path="params['b']",
)
def _():
    return Setup(
        f=lambda params, x: params["w"] * x,
        args=({"w": jnp.ones(2), "b": jnp.ones(2)}, X()),
        in_axes=({"w": None}, 0),
    )


@case(
    "spec-extra-key",
    "axes dict names a key the argument does not have",
    accepts=False,
    param="params",
    path="['bias']",
)
def _():
    return Setup(
        f=lambda params, x: params["w"] * x,
        args=({"w": jnp.ones(2), "b": jnp.ones(2)}, X()),
        in_axes=({"w": None, "b": None, "bias": None}, 0),
    )


@case(
    "spec-deep-missing-key",
    "axes dict misses one key three levels down",
    accepts=False,
    issue="jax#9372",
    param="params",
    path="params['enc']['dense']['bias']",
)
def _():
    p = {"enc": {"dense": {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}}}
    return Setup(
        f=lambda params, x: x @ params["enc"]["dense"]["kernel"],
        args=(p, X()),
        in_axes=({"enc": {"dense": {"kernel": None}}}, 0),
    )


@case(
    "spec-deeper-than-leaf",
    "axes tree goes below an array leaf",
    accepts=False,
    param="y",
    path="in_axes[1]",
    shape="(3, 2)",
)
def _():
    return Setup(f=add, args=(X(), X()), in_axes=(0, (0, 1)))


@case(
    "shape-as-spec",
    "a shape-like tuple of axes for one array (axes for each dimension)",
    accepts=False,
    param="x",
    path="in_axes[0]",
    shape="(3, 2)",
)
def _():
    return Setup(f=lambda x: x, args=(X(),), in_axes=((0, None),))


@case(
    "ordereddict-vs-dict",
    "OrderedDict of axes for a plain dict argument",
    accepts=False,
    param="params",
    path="in_axes[0]",
)
def _():
    return Setup(
        f=lambda params: params["a"],
        args=({"a": X(), "b": X()},),
        in_axes=(collections.OrderedDict(a=0, b=0),),
    )


@case(
    "defaultdict-arg",
    "plain dict of axes for a defaultdict argument",
    accepts=False,
    param="stats",
    path="in_axes[0]",
)
def _():
    return Setup(
        f=lambda stats: stats["a"],
        args=(collections.defaultdict(list, a=X()),),
        in_axes=({"a": 0},),
    )


@case(
    "dict-key-order-ok",
    "plain dict axes in another insertion order are matched by key",
    accepts=True,
)
def _():
    return Setup(
        f=lambda d: d["a"] + d["b"],
        args=({"a": X(), "b": jnp.ones(2)},),
        in_axes=({"b": None, "a": 0},),
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "unflatten-insertion-order",
    "axes rebuilt from a flat list in insertion order, but dict leaves sort by key",
    accepts=True,
    silent=True,
    param="params",
    path="params['b']",
    axis=0,
    sizes=(3,),
)
def _():
    params = {"w": jnp.ones((3, 3)), "b": jnp.arange(3.0)}
    wanted_in_insertion_order = [0, None]  # w: 0, b: None
    axes = jax.tree.unflatten(jax.tree.structure(params), wanted_in_insertion_order)
    return Setup(
        f=lambda params, x: params["w"] @ x + params["b"],
        args=(params, jnp.ones((3, 3))),
        in_axes=(axes, 0),
        verify=lambda r: axes == {"b": 0, "w": None} and r.shape == (3, 3),
    )


@case(
    "namedtuple-other-class",
    "NamedTuple axes of another class with equal fields",
    accepts=False,
    param="pt",
    path="in_axes[0]",
)
def _():
    return Setup(
        f=lambda pt: pt.p + pt.q, args=(Point(X(), jnp.ones(2)),), in_axes=(Pair(0, None),)
    )


@case(
    "namedtuple-fields-swapped",
    "NamedTuple axes filled positionally in the wrong order, sizes agree by accident",
    accepts=True,
    silent=True,
    param="pt",
    path="pt.p",
    shape="(3, 3)",
    axis=0,
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda pt: (pt.p @ jnp.ones(3)).sum() + pt.q,
        args=(Point(jnp.ones((3, 3)), jnp.arange(3.0)),),
        in_axes=(Point(None, 0),),
        verify=lambda r: r.shape == (3,),
    )


@case(
    "in-axes-mutated-after-wrap",
    "a dict inside in_axes is edited after jax.vmap was called",
    accepts=True,
    silent=True,
    path="in_axes[0]",
)
def _():
    axes = {"w": 0}
    return Setup(
        f=lambda d, x: d["w"] + x,
        args=({"w": jnp.ones((3, 3))}, jnp.ones((3, 3))),
        in_axes=(axes, 0),
        after_wrap=lambda: axes.update(w=None),
        verify=lambda r: r.shape == (3, 3, 3),
    )  # with the axes given at wrap time: (3, 3)
