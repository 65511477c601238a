"""A function of the leaf in the place of an axis, and `ptk.if_array`."""

from __future__ import annotations

import collections
import copy
import functools
import math
import pickle
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import pytreekit as ptk

XS = jnp.arange(6.0).reshape(3, 2)
SQUARE = jnp.arange(9.0).reshape(3, 3)
KEYS = jax.random.split(jax.random.key(0), (3, 3))
CUBE = jnp.arange(27.0).reshape(3, 3, 3)


def assert_same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(functools.partial(np.testing.assert_array_equal, strict=True), ours, theirs)


def raised(fun, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return caught.value


def last(leaf):
    """The last axis of what has one."""
    return np.ndim(leaf) - 1 if np.ndim(leaf) else None


def is_batch(leaf):
    return isinstance(leaf, jax.Array) and np.ndim(leaf) > 1


def zero_if_batch(leaf):
    return 0 if is_batch(leaf) else None


# ---- trees that hold more than arrays -----------------------------------------------------------


def test_an_ensemble_of_equinox_modules():
    keys = jax.random.split(jax.random.key(0), 3)
    models = eqx.filter_vmap(lambda key: eqx.nn.MLP(2, 1, 4, 1, key=key))(keys)
    expected = eqx.filter_vmap(lambda model, x: model(x), in_axes=(eqx.if_array(0), None))
    for in_axes in ((ptk.if_array(0), None), {"model": ptk.if_array(0), "x": None}):
        mapped = ptk.vmap(lambda model, x: model(x), in_axes=in_axes)
        assert_same(mapped(models, XS[0]), expected(models, XS[0]))
        assert_same(jax.jit(lambda x, m=mapped: m(models, x))(XS[0]), expected(models, XS[0]))
    assert_same(eqx.filter_jit(mapped)(models, XS[0]), expected(models, XS[0]))


def test_the_functions_of_equinox_will_do():
    tree = {"w": XS, "act": jnp.tanh}
    mapped = ptk.vmap(lambda tree: tree["act"](tree["w"]), in_axes=eqx.if_array(0))
    assert_same(mapped(tree), jax.vmap(jnp.tanh)(XS))


def test_flax_variables_with_other_things_among_them():
    model = linen.Dense(4)
    one = model.init(jax.random.key(0), XS[0])
    many = jax.vmap(model.init, in_axes=(0, None))(jax.random.split(jax.random.key(0), 3), XS[0])
    many = {**many, "name": "dense", "init": linen.initializers.zeros, "step": None, "rate": 0.5}

    def apply(variables, x):
        assert variables["name"] == "dense"
        assert variables["rate"] == 0.5
        return model.apply({"params": variables["params"]}, x)

    result = ptk.vmap(apply, in_axes=(ptk.if_array(0), None))(many, XS[0])
    expected = jax.vmap(lambda p, x: model.apply({"params": p}, x), in_axes=(0, None))
    assert_same(result, expected(many["params"], XS[0]))
    assert jax.tree.leaves(one)[0].ndim + 1 == jax.tree.leaves(many["params"])[0].ndim


def test_an_nnx_state():
    graph, state = nnx.split(nnx.Linear(2, 4, rngs=nnx.Rngs(0)))
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), state)
    mapped = ptk.vmap(lambda s, x: nnx.merge(graph, s)(x), in_axes=(ptk.if_array(0), None))
    axes = jax.tree.map(lambda leaf: 0, stacked)
    plain = jax.vmap(lambda s, x: nnx.merge(graph, s)(x), in_axes=(axes, None))
    assert_same(mapped(stacked, XS[0]), plain(stacked, XS[0]))


class Stats(NamedTuple):
    mean: object
    kind: object


def test_a_tree_in_the_manner_of_haiku():
    """Two levels of dicts keyed by paths, as haiku has them, with a NamedTuple of state."""
    params = {"mlp/~/linear_0": {"w": CUBE, "b": XS}, "mlp/~/linear_1": {"b": XS}}
    state = collections.OrderedDict(stats=Stats(XS, "ema"), act=math.tanh, none=None, n=3)

    def fun(params, state):
        assert state["act"] is math.tanh
        assert state["stats"].kind == "ema"
        assert state["n"] == 3
        return params["mlp/~/linear_0"]["w"].sum() + state["stats"].mean

    mapped = ptk.vmap(fun, in_axes=(0, ptk.if_array(0)))
    assert_same(mapped(params, state), CUBE.sum((1, 2))[:, None] + XS)
    assert [leaf.axis for leaf in mapped.plan(params, state).leaves] == [
        0,
        0,
        0,
        0,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_what_is_an_array(axis):
    given = {
        "jax": SQUARE, "numpy": np.asarray(SQUARE), "keys": KEYS,
        "text": np.array(["a"] * 3), "objects": np.array([None] * 3), "flag": True, "scalar": 1.0,
        "numpy scalar": np.float32(2), "set": {1}, "none": None,
    }  # fmt: skip
    seen = {}

    def fun(tree):
        seen.update(tree)
        return tree["jax"]

    mapped = ptk.vmap(fun, in_axes=ptk.if_array(axis), axis_size=3)
    assert_same(mapped(given), jax.vmap(lambda x: x, in_axes=axis, axis_size=3)(SQUARE))
    arrays = {"jax", "numpy", "keys"} if axis is not None else set()
    assert {name for name in given if seen[name] is not given[name]} == arrays
    abstract = {"x": jax.ShapeDtypeStruct((3, 3), jnp.float32)}
    assert [leaf.axis for leaf in mapped.plan(abstract).leaves] == [axis and axis % 2]


def test_a_scalar_array_is_an_array():
    error = raised(ptk.vmap(lambda t: t, in_axes=ptk.if_array(0)), {"x": XS, "n": jnp.float32(1)})
    assert [(fault.code, fault.place) for fault in error.faults] == [("PTK101", "t['n']")]
    assert error.faults[0].wanted == "if_array(0)"
    repaired = ptk.vmap(lambda t: t["x"] * t["n"], in_axes=error.repaired)
    assert_same(repaired({"x": XS, "n": jnp.float32(2)}), XS * 2)


# ---- what decides is the leaf -------------------------------------------------------------------


def test_axes_that_differ_from_leaf_to_leaf():
    tree = {"a": jnp.ones((2, 3)), "b": [jnp.ones(3), jnp.ones((4, 5, 3))], "c": 1.0}
    mapped = ptk.vmap(lambda tree: jax.tree.map(jnp.sum, tree), in_axes=last)
    axes = {"a": 1, "b": [0, 2], "c": None}
    assert_same(mapped(tree), jax.vmap(lambda t: jax.tree.map(jnp.sum, t), in_axes=(axes,))(tree))


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_axes_that_change_between_calls_of_one_structure(chunk_size):
    mapped = ptk.vmap(
        lambda x, y: x * y, in_axes=(last, zero_if_batch), axis_size=3, chunk_size=chunk_size
    )
    calls = [
        (jnp.ones((2, 3)), jnp.arange(2.0)),
        (jnp.arange(3.0), jnp.ones((3, 2))),
        (jnp.ones((4, 2, 3)), 5.0),
        (2.0, CUBE),
        (jnp.ones((2, 3)), jnp.arange(2.0)),
    ]
    for x, y in calls * 2:
        plain = jax.vmap(lambda x, y: x * y, in_axes=(last(x), zero_if_batch(y)), axis_size=3)
        assert_same(mapped(x, y), plain(x, y))
        assert [leaf.axis for leaf in mapped.plan(x, y).leaves] == [last(x), zero_if_batch(y)]


def test_a_leaf_that_becomes_an_array():
    mapped = ptk.vmap(lambda x, by: x * by, in_axes=(0, ptk.if_array(0)))
    assert_same(mapped(XS, 2.0), XS * 2)
    assert_same(mapped(XS, jnp.arange(3.0)), XS * jnp.arange(3.0)[:, None])
    assert_same(mapped(XS, 2.0), XS * 2)
    traced = jax.jit(mapped)  # inside, the float is an array without axes
    assert [fault.code for fault in raised(traced, XS, 2.0).faults] == ["PTK101"]
    assert_same(traced(XS, jnp.arange(3.0)), XS * jnp.arange(3.0)[:, None])


def test_split_may_be_what_the_function_gives():
    def axis(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return ptk.SPLIT if is_key and not leaf.shape else 0

    mapped = ptk.vmap(lambda t: t["x"] + jax.random.normal(t["key"]), in_axes=axis)
    keys = jax.random.split(jax.random.key(1), 3)
    expected = jax.vmap(lambda t: t["x"] + jax.random.normal(t["key"]))({"x": XS, "key": keys})
    assert_same(mapped({"x": XS, "key": jax.random.key(1)}), expected)
    assert_same(mapped({"x": XS, "key": keys}), expected)


# ---- nonsense -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nonsense", [True, False, 0.0, "batch", np.int64(0), [0], {"a": 0}, ..., jnp.zeros((), int)]
)
@pytest.mark.parametrize("before", [0, None])
def test_nonsense_is_refused_though_a_like_axis_was_good(nonsense, before):
    given = [before]
    entered = []

    def fun(x, y):
        entered.append(1)
        return y

    mapped = ptk.vmap(fun, in_axes=(lambda leaf: given[0], 0))
    mapped(XS, XS)
    entered.clear()
    given[0] = nonsense
    error = raised(mapped, XS, XS)
    assert error.faults == mapped.check(XS, XS) == raised(mapped.plan, XS, XS).faults
    assert [(fault.code, fault.place) for fault in error.faults] == [("PTK107", "x")]
    assert type(nonsense).__name__ in error.faults[0].title
    assert not entered
    given[0] = before
    mapped(XS, XS)


@pytest.mark.parametrize("axis", [2, -3, 99])
def test_an_axis_that_is_not_there(axis):
    mapped = ptk.vmap(lambda t: t, in_axes=lambda leaf: axis)
    error = raised(mapped, {"x": XS})
    assert [(fault.code, fault.place) for fault in error.faults] == [("PTK101", "t['x']")]
    assert_same(ptk.vmap(lambda t: t["x"], in_axes=error.repaired)({"x": XS}), XS)


def test_sizes_that_disagree_because_of_the_function():
    error = raised(ptk.vmap(lambda x, y: x, in_axes=last), XS, jnp.ones((4, 3)))
    assert [(fault.code, fault.place) for fault in error.faults] == [("PTK102", "y")]
    assert "in_axes = last" in str(error)


class OwnError(Exception):
    pass


def fails(leaf):
    raise OwnError


def test_a_function_that_raises_raises_its_own():
    mapped = ptk.vmap(lambda x: x, in_axes=fails)
    for call in (mapped, mapped.check, mapped.plan):
        with pytest.raises(OwnError):
            call(XS)


def test_a_function_that_raises_later_raises_its_own():
    broken = []

    def axis(leaf):
        if broken:
            raise OwnError
        return 0

    mapped = ptk.vmap(lambda x: x, in_axes=axis)
    assert_same(mapped(XS), XS)
    broken.append(1)
    with pytest.raises(OwnError):
        mapped(XS)


def test_no_function_is_called_when_it_is_wrapped_and_none_stands_in_out_axes():
    ptk.vmap(lambda x: x, in_axes=fails)
    for axes in (int, Stats):
        assert raised(ptk.vmap, lambda x: x, in_axes=axes).faults[0].code == "PTK107"
    assert raised(ptk.vmap, lambda x: x, out_axes=last).faults[0].code == "PTK107"
    assert raised(ptk.vmap, lambda x: x, out_axes=ptk.SPLIT).faults[0].code == "PTK107"


# ---- keywords, copies, no checks ----------------------------------------------------------------


def test_one_function_for_all_arguments_does_not_reach_keywords():
    mapped = ptk.vmap(lambda x, y: x * y, in_axes=ptk.if_array(0))
    assert_same(mapped(XS, y=XS), XS * XS)
    assert [fault.code for fault in mapped.check(XS, y=2.0)] == ["PTK101"]
    assert_same(mapped(XS, 2.0), XS * 2)


def test_without_checks():
    tree = {"w": XS, "act": jnp.tanh}
    mapped = ptk.vmap(lambda t: t["act"](t["w"]), in_axes=ptk.if_array(0), checks=False)
    assert_same(mapped(tree), jnp.tanh(XS))
    assert_same(ptk.vmap(lambda x: x, in_axes=last, checks=False)(XS), XS.T)


def apply(tree, x):
    return tree["act"](tree["w"]) + x


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda fun: pickle.loads(pickle.dumps(fun))]
)
@pytest.mark.parametrize("checks", [True, False])
def test_copies(copied, checks):
    mapped = ptk.vmap(apply, in_axes={"tree": ptk.if_array(0), "x": last}, checks=checks)
    args = {"w": XS, "act": jnp.tanh}, XS.T
    assert_same(copied(mapped)(*args), mapped(*args))
    assert copied(ptk.if_array(1)) == ptk.if_array(1) != ptk.if_array(0)
    assert repr(ptk.if_array(-1)) == "if_array(-1)"
