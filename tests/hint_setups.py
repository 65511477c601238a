"""Faulty calls for the tests of hints, of kinds that neither corpus nor catalogue have."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import pytreekit as ptk

from .vmap_cases import Setup, X
from .vmap_nodes import Plain, Point


def first(x, *rest):
    return x


def long(**more):  # a hint does not write it out for one key
    return {f"a_rather_long_name_{i}": None for i in range(4)} | more


def full(spec):
    return dict.fromkeys(spec, X())


KEY, RAW = jax.random.key(0), jax.random.PRNGKey(0)
FURTHER: dict[str, Setup] = {
    "a key more": Setup(first, (X(), full(long())), in_axes=(0, long(b=None))),
    "a key less": Setup(first, (X(), full(long(b=None))), in_axes=(0, long())),
    "two keys more": Setup(first, (X(), full(long())), in_axes=(0, long(b=None, c=None))),
    "a list of scalars": Setup(first, (X(), [jnp.float32(1)] * 3)),
    "a key in a state": Setup(first, (X(), {"rng": KEY, "w": X()})),
    "a raw key in a list": Setup(first, (X(), [RAW])),
    "two keywords counted": Setup(lambda x, y, z: x, (X(),), full("yz"), in_axes=(0, 0, None)),
    "two static keywords": Setup(lambda x, a, b: x, (X(),), {"a": "clip", "b": 2.0}),
    "three faults": Setup(first, (X(), X(), "relu"), in_axes=(2, (0, 1), 0)),
    "sizes come to light": Setup(first, (X(3), X(4)), in_axes=(0, [0])),
    "a node without names": Setup(first, (Plain((X(), X()), "k"),), in_axes=(Plain((0, 5), "k"),)),
    "a field": Setup(first, (Point(X(), 2.0),), in_axes=(Point(1, 0),)),
    "two in out_axes": Setup(lambda x: (x, 0.0), (X(),), out_axes=(np.int64(0), False)),
    "axes without a name": Setup(first, (X(), X(), X()), in_axes=(0, np.int64(0), jnp.array(0))),
    "bools in both": Setup(first, (X(), X()), in_axes=(0, False), out_axes=True),
    "three alike": Setup(first, (full("abc"),), in_axes=(dict.fromkeys("abc", (0, 0)),)),
    "other outputs": Setup(lambda x: [(x, x), x], (X(),), out_axes=[[0, 1], (0,)]),
    "other keys": Setup(lambda x: {"a": x, "b": x}, (X(),), out_axes={"a": 1, "c": 1}),
    "a key and no size": Setup(first, (X(), KEY), axis_size=-1),
    "rules": Setup(first, (X(), [X()] * 2), in_axes=ptk.Rules({"x": 0, "rest/**": 5})),
    "rules of one": Setup(first, (X(), full("a*")), in_axes=(0, ptk.Rules({"**": 5}))),
    "rules by name": Setup(first, (), {"x": X()}, in_axes={"x": ptk.Rules({"**": 5})}),
    "a float as axis_size": Setup(first, (X(),), axis_size=np.float32(4)),
}
