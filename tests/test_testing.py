"""`assert_matches_loop` and `assert_trees_match`: what passes, what fails, and what they tell."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax.experimental import sparse

import pytreekit as ptk
from pytreekit.testing import assert_matches_loop, assert_trees_match

from .named_calls import named_calls
from .telling import refused, told
from .vmap_nodes import Layer, Module, Point

XS = np.arange(12.0, dtype=np.float32).reshape(4, 3)
KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 4)
STRUCT = jax.ShapeDtypeStruct((4, 3), jnp.float32)


# ---- a loop -------------------------------------------------------------------------------------


def shift(x, y, mode="up", scale=1):
    return {"x": x * scale if mode == "up" else x, "y": (y + 1, None)}


MATCHING = {
    "an int": (shift, 0, (XS, XS)),
    "positions": (shift, (1, None), (XS, XS[0])),
    "negative": (shift, (-1, -2), (XS[:3], XS[:3])),
    "a list": (shift, [0, None], (jnp.asarray(XS), 2.0)),
    "a prefix": (lambda t: t["a"][0] * t["b"], ({"a": 0, "b": None},), ({"a": [XS], "b": 2},)),
    "a function": (lambda t: t["f"](t["x"]), (ptk.if_array(0),), ({"f": jnp.tanh, "x": XS},)),
    "a key": (lambda x, k: (x, jax.random.bits(k)), (0, ptk.SPLIT), (XS, KEY)),
    "a raw key": (lambda x, k: (x, k), (0, ptk.SPLIT), (XS, jax.random.PRNGKey(0))),
    "keys": (lambda k: (k, jax.random.bits(k)), 0, (KEYS,)),
    "dtypes": (lambda *xs: xs, 0, (XS > 5, XS.astype(int), XS.astype(jnp.bfloat16), XS + 1j)),
    "numbers": (lambda x: (3, True, 2.0, None, x), 0, (XS,)),
    "nodes": (lambda t, m: (Point(t.p, m), Layer(m.p, t.q)), 0, (Point(XS, XS), Module(XS, XS))),
    "NaN": (lambda x: x / 0 * 0, 0, (XS,)),
    "no example": (lambda x: x.sum(), 0, (XS[:0],)),
    "no element": (lambda x: (x, x.sum()), 0, (XS[:, :0],)),
    "under jit": (jax.jit(shift), 0, (XS, XS)),
    "sparse": (lambda m: m, 0, (sparse.BCOO.fromdense(XS, n_batch=1),)),
    "float64": (lambda x: x + np.ones(3), 0, (XS.astype(np.float64),)),
}


@pytest.mark.parametrize("name", MATCHING)
def test_what_matches_its_loop(name):
    fun, in_axes, args = MATCHING[name]
    assert_matches_loop(fun, in_axes, *args)


def test_by_name_with_keywords_and_static_leaves():
    in_axes = {"x": 0, "y": None, ...: None}
    assert_matches_loop(shift, in_axes, y=1, x=XS, mode="up", scale=3)
    assert_matches_loop(shift, in_axes, XS, 1, mode="down")
    for size in (3, 0):
        assert_matches_loop(lambda key: (key, 1), ptk.SPLIT, KEY, axis_size=size)
        assert_matches_loop(lambda x: x, None, 1.0, axis_size=size)


def test_a_ref_is_read():
    ref = jax.new_ref(jnp.asarray(XS))
    assert_matches_loop(lambda r, x: r[...] + x, 0, ref, XS)
    assert_matches_loop(lambda r, x: r[0] + x, (None, 0), ref, XS)


@given(named_calls())
@settings(max_examples=25)
def test_drawn_calls_by_name(drawn):
    call, rest, order = drawn
    in_axes = {name: call.in_axes[name] for name in order} | {...: rest}
    size = (
        None if any(axis is not None for axis in [*call.axes, *call.keyword_axes.values()]) else 3
    )
    assert_matches_loop(call.fun, in_axes, *call.args, axis_size=size, **call.kwargs)


@jax.custom_batching.custom_vmap
def centered(x):
    return x * 1


@centered.def_vmap
def _(size, batched, x):
    return x - x.mean(0), batched[0]


def of_all(x):
    return jax.pure_callback(lambda x: x - x.mean(), x, x, vmap_method="expand_dims")


def test_functions_that_get_the_whole_batch():
    assert told(assert_matches_loop, lambda x: {"y": centered(x)}, 0, XS) == (
        "vmap(<lambda>) differs from a loop over its examples, first at example 0\n\n"
        "  out['y']   f32[3]   3 of 3 values differ, by 6.5 at most\n"
        "      vmap has -4.5, the loop has 0 at [0]"
    )
    assert "vmap(of_all) differs" in told(assert_matches_loop, of_all, 0, XS)


def keeping_state(kinds):
    """A function whose output is made by `kinds[i]` in call i, the last from then on."""

    def fun(x):
        return kinds[min(next(calls), len(kinds) - 1)](x)

    calls = iter(range(100))
    return fun


SAME, OTHER = lambda x: {"a": x, "b": [x]}, lambda x: {"a": x, "b": [x + (x > 4)]}
VALUES = {
    "the first example and leaf": (
        [SAME, SAME, OTHER], XS,
        "at example 1\n\n  out['b'][0]   f32[3]   1 of 3 values differs, by 1\n      vmap has 5, ",
    ),
    "ints": (
        [lambda x: x, lambda x: x + 1], jnp.arange(3),
        "  out   i32[]   1 of 1 value differs, by 1\n      vmap has 0, the loop has 1",
    ),
    "bools": (
        [lambda x: x, lambda x: ~x], XS > 0,
        "  out   bool[3]   3 of 3 values differ\n      vmap has False, the loop has True at [0]",
    ),
    "bfloat16": (
        [lambda x: x, lambda x: x * 1.5], XS.astype(jnp.bfloat16),
        "  out   bf16[3]   2 of 3 values differ, by 1 at most\n      vmap has 1, the loop has 1.",
    ),
    "NaN": (
        [lambda x: x, lambda x: x / x], XS[:, :1],
        "  out   f32[1]   1 of 1 value differs\n      vmap has 0, the loop has nan at [0]",
    ),
    "keys": (
        [lambda k: k, lambda k: jax.random.fold_in(k, 1)], KEYS,
        "  out   key<fry>[]   1 of 1 value differs\n      vmap has [",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_functions_that_keep_state(name):
    kinds, xs, text = VALUES[name]
    assert text in told(assert_matches_loop, keeping_state(kinds), 0, xs)


STRUCTURES = {
    "keys": (lambda x: {"a": x, "c": x}, ["keys    out['b']", "keys    out['c']   only in the"]),
    "container": (lambda x: (x, [x]), ["type    out   vmap has dict of 2; the loop has"]),
    "shape": (lambda x: {"a": x, "b": [x[:2]]}, ["['b'][0]   vmap has f32[3]; the loop has"]),
    "dtype": (lambda x: {"a": x, "b": [x > 0]}, ["dtype   out['b'][0]"]),
    "nothing": (lambda x: {"a": x, "b": None}, ["out['b']"]),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURES)
def test_another_structure_in_the_loop(name):
    other, lines = STRUCTURES[name]
    text = told(assert_matches_loop, keeping_state([SAME, SAME, SAME, other]), 0, XS)
    assert text.startswith("vmap(fun) differs from a loop over its examples, first at example 2")
    assert "between vmap and the loop" in text
    assert [line for line in lines if line not in text] == []


def test_tolerance_is_relative_to_the_loop():
    def off(by):
        return keeping_state([lambda x: x, lambda x: x * by])

    assert_matches_loop(off(1 + 5e-6), 0, XS)
    assert ", by 2 at most\n" in told(assert_matches_loop, off(2), 0, XS)
    assert_matches_loop(off(1.1), 0, XS, rtol=0.1)
    assert_matches_loop(off(1.1), 0, XS, rtol=0.0, atol=1.2)


def test_what_cannot_be_looped_over():
    assert refused(assert_matches_loop, lambda x, *, key: x, 2, XS, key=KEYS) == [("PTK101", "x")]
    assert refused(assert_matches_loop, lambda x: x, 0, {"a": STRUCT}) == [("PTK001", "x['a']")]
    traced = jax.jit(lambda xs: assert_matches_loop(lambda x, *, y: x, 0, XS, y=xs))
    assert refused(traced, XS) == [("PTK001", "y")]
    with pytest.raises(ZeroDivisionError):
        assert_matches_loop(lambda x: 1 // 0, 0, XS)


# ---- trees --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"w": jnp.ones(3), "n": None}, {"w": np.ones(3, np.float32), "n": None}),
        ({"w": STRUCT}, {"w": XS}),
        ([XS, KEY, "relu", 1, jnp.tanh], [STRUCT, KEY, "relu", 1, jnp.tanh]),
        (np.float32(np.nan), jnp.float32(jnp.nan)),
        (float("inf"), float("inf")),
        (jnp.zeros((0, 3)), np.zeros((0, 3), np.float32)),
        (jnp.float32(1), jnp.float32(1 + 5e-7)),
        (np.array(["a", "b"]), np.array(["a", "b"])),
        (np.ma.masked_array([1, 2], [0, 1]), np.ma.masked_array([1, 3], [0, 1])),
        (jax.new_ref(jnp.ones(2)), jax.new_ref(jnp.ones(2))),
        ((), ()),
    ],
)
def test_trees_that_match(one, other):
    assert_trees_match(one, other)


UNLIKE = {
    "float": (1.0, 1.5, "float   1 of 1 value differs, by 0.5\n      a has 1, b has 1.5"),
    "int": (2, 5, "int   1 of 1 value differs, by 3\n      a has 2, b has 5"),
    "bool": (True, False, "bool   1 of 1 value differs\n      a has True, b has False"),
    "complex": (1j, 2j, "complex   1 of 1 value differs, by 1\n      a has 0+1j, b has 0+2j"),
    "unsigned": (np.uint8([1]), np.uint8([255]), "u8[1]   1 of 1 value differs, by 254\n"),
    "short": (jnp.int4(-8), jnp.int4(7), "i4[]   1 of 1 value differs, by 15\n"),
    "infinite": (XS, XS - np.inf, "12 of 12 values differ, by inf at most\n      a has 0, b"),
    "digits": (
        np.float32(1), np.nextafter(np.float32(1), np.float32(2)),
        "by 1.19209e-07\n      a has 1, b has 1.0000001192092896",
    ),
    "keys": (KEYS, KEYS[::-1], "key<fry>[4]   4 of 4 values differ\n"),
    "text": (np.array(["a", "b"]), np.array(["a", "c"]), "1 of 2 values differs\n      a has b, b"),
    "mask": (np.ma.masked_array([1, 2], [0, 1]), np.ma.masked_array([1, 2]), "1 of 2 values"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), np.array(["2020-01-02"], "M8[D]"), "-02 at [0]"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_values_that_differ(name):
    one, other, text = UNLIKE[name]
    found = told(assert_trees_match, one, other, rtol=0.0)
    assert found.startswith("the values of a and b differ in 1 leaf\n\n  at the root   ")
    assert text in found
    assert f"  ['x'][0].p   {found.partition('root   ')[2]}" in told(
        assert_trees_match, {"x": [Point(one, 0)]}, {"x": [Point(other, 0)]}, rtol=0.0
    )


def test_all_leaves_are_told_up_to_ten():
    old, new = ([leaf] * 12 for leaf in (jnp.ones(2), jnp.zeros(2)))
    text = told(assert_trees_match, old, new, names=("old", "new"))
    assert text.startswith("the values of old and new differ in 12 leaves\n\n  [0]   f32[2]")
    assert text.count("old has 1, new has 0 at [0]") == 10
    assert text.endswith("\n  ... and 2 more")


def test_structure_comes_before_values():
    found = ptk.diff({"a": XS, "b": 1}, {"a": XS + 1, "c": 1})
    assert told(assert_trees_match, {"a": XS, "b": 1}, {"a": XS + 1, "c": 1}) == str(found)
    assert told(assert_trees_match, STRUCT, XS.T) == str(ptk.diff(STRUCT, XS.T))
    assert "static" in told(assert_trees_match, Layer(1, 2, 3), Layer(1, 2, 4))
    assert "a has 'relu'; b has 'tanh'" in told(assert_trees_match, "relu", "tanh")


def test_trees_under_jit():
    compare = jax.jit(lambda x, other: assert_trees_match({"a": x}, {"a": other}))
    assert refused(compare, XS, XS) == [("PTK001", "a['a']"), ("PTK001", "b['a']")]
    assert "shape" in told(compare, XS, XS.T)
    assert jax.jit(lambda x: assert_trees_match(x, STRUCT) or x.sum()).eval_shape(XS).shape == ()


def test_names_must_be_two():
    assert refused(assert_trees_match, 1, 1, names="ab") == [("PTK001", "names")]
