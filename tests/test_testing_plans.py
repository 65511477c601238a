"""`assert_plan` and `assert_single_trace`: what passes, what fails, and what they tell."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk
from pytreekit.testing import assert_plan, assert_single_trace

from .telling import refused, told
from .vmap_nodes import Point

XS = np.arange(12.0, dtype=np.float32).reshape(4, 3)
KEY = jax.random.key(0)
STRUCT = jax.ShapeDtypeStruct((4, 3), jnp.float32)


# ---- plans --------------------------------------------------------------------------------------

PARAMS = {"w": jnp.ones((3, 3)), "b": jnp.ones(3), "none": None}
mapped = ptk.vmap(
    lambda params, x, key=None, *xs: x, in_axes={"params": None, "key": ptk.SPLIT, ...: 0}
)


@pytest.mark.parametrize(
    "axes",
    [
        (None, 0, ptk.SPLIT),
        ({"w": None, "b": None, "none": None}, 0, ptk.SPLIT),
        ({"w": None, ...: None}, np.int64(0), ptk.SPLIT),
        {"params": None, "x": 0, "key": ptk.SPLIT},
        {"params['w']": None, "params['b']": None, "x": 0, ...: ptk.SPLIT},
        {"params": {"w": None, ...: None}, "key": ptk.SPLIT, ...: 0},
    ],
)
def test_plans_as_expected(axes):
    for xs in (XS, STRUCT):
        assert_plan(mapped, PARAMS, xs, KEY, axes=axes, axis_size=4)
        assert_plan(mapped.in_chunks(2), PARAMS, xs, key=KEY, axes=axes)


def test_plans_of_other_calls():
    assert_plan(mapped, PARAMS, XS, None, axes=(None, 0, None))
    assert_plan(
        mapped, PARAMS, XS, KEY, XS, XS, axes={"xs": 0, "x": 0, "key": ptk.SPLIT, ...: None}
    )
    assert_plan(ptk.vmap(lambda x: x, -1), XS, axes=1, axis_size=3)
    assert_plan(ptk.vmap(lambda x: x, (Point(0, None),)), Point(XS, 1), axes={"x": Point(0, None)})
    by_leaf = ptk.vmap(lambda x: x, (ptk.if_array(0),))
    assert_plan(by_leaf, {"f": len, "x": XS}, axes={"x['f']": None, "x['x']": 0})
    own = ptk.vmap(lambda x, outputs: x, {"outputs": None, ...: 0})
    assert_plan(own, XS, outputs=1, axes={"x": 0, "outputs": None})


@pytest.mark.parametrize(
    ("axes", "rows"),
    [
        (0, ["params['b']   f32[3]       shared, expected 0",
             "params['w']   f32[3,3]     shared, expected 0",
             "key           key<fry>[]   SPLIT, expected 0"]),
        ((None, 1, ptk.SPLIT), ["x   f32[4,3]   0, expected 1"]),
        ((None, -2, ptk.SPLIT), ["x   f32[4,3]   0, expected -2"]),
        ((None, False, ptk.SPLIT), ["x   f32[4,3]   0, expected False"]),
        ((None, 0), ["key   key<fry>[]   SPLIT, there is no entry for it"]),
        ((None, 0, ptk.SPLIT, 0), ["xs[0]   no such leaf, expected 0"]),
        ((None, 0, None, None, None), ["key     key<fry>[]   SPLIT, expected shared",
                                       "xs[0]                no such leaf, expected shared",
                                       "xs[1]                no such leaf, expected shared"]),
        ({"params['m']": 0, "x": 0, "key": ptk.SPLIT, ...: None},
         ["params['m']   no such leaf, expected 0"]),
        ({"x": 0, "ke": 1, ...: None},
         ["key   key<fry>[]   SPLIT, expected shared",
          "ke                 no such leaf, expected 1"]),
    ],
)  # fmt: skip
def test_plans_that_differ(axes, rows):
    number = f"{len(rows)} difference{'s' * (len(rows) > 1)}"
    head = f"the plan of vmap(<lambda>) is not the expected one: {number}\n\n"
    text = told(assert_plan, mapped, PARAMS, STRUCT, KEY, axes=axes)
    assert text == head + "\n".join(f"  {row}" for row in rows)


def test_plans_of_many_leaves_and_of_another_size():
    tree = {f"leaf{number:02}": XS for number in range(12)}
    text = told(assert_plan, ptk.vmap(lambda t: t), tree, axes=None, axis_size=5)
    assert text.endswith("t['leaf09']   f32[4,3]   0, expected shared\n  ... and 3 more")
    text = told(assert_plan, ptk.vmap(lambda x: x), XS, axes=0, axis_size=5)
    assert text.endswith("\n\n  axis_size   4, expected 5")


class Model:
    @ptk.vmap(in_axes=(None, 0))
    def apply(self, x):
        return x


def test_plans_of_methods():
    for axes in (0, (0,), {"x": 0}, {...: 0}, {"x": 0, "self": None}):
        assert_plan(Model().apply, XS, axes=axes)
    assert_plan(Model.apply, Model(), XS, axes=(None, 0))
    text = told(assert_plan, Model.apply, Model(), XS, axes=(0, 0))
    assert text.endswith("  self   Model   shared, expected 0")


def test_what_has_no_plan():
    assert refused(assert_plan, jax.vmap(len), XS, axes=0) == [("PTK001", "mapped")]
    assert refused(assert_plan, mapped, PARAMS, 1.0, axes=0) == [("PTK101", "x")]


# ---- traces -------------------------------------------------------------------------------------


def scaled(x, n=1, **options):
    return x * n


def calls(fun, *arguments, **options):
    """Call a function under jit with each of several arguments."""
    jitted = jax.jit(assert_single_trace(fun), **options)
    for args in arguments:
        jitted(**args) if isinstance(args, dict) else jitted(*args)


def test_what_is_traced_once():
    calls(scaled, (XS,), (XS + 1,), (jnp.asarray(XS),))
    calls(scaled, (XS, 2), (XS, 3))
    calls(scaled, (XS, 2), (XS, 2), static_argnums=1)
    with assert_single_trace(scaled) as counted:
        batched = jax.jit(jax.grad(lambda xs: ptk.vmap(counted)(xs).sum()))
        for _ in range(3):
            batched(XS)
    assert counted.traces == 1
    assert counted(XS).shape == (4, 3)  # not traced
    assert counted.__name__ == "scaled"
    assert_plan(ptk.vmap(counted), XS, axes={"x": 0})


TRACES = {
    "shape": ([(XS,), (XS[:2],)], "shape   x   the first trace has f32[4,3]; the second has f"),
    "dtype": ([({"a": XS},), ({"a": XS > 0},)], "dtype   x['a']   the first trace has f32[4,3]"),
    "weak": ([(1.0,), (jnp.float32(1),)], "x   the first trace has weakly typed f32[]; the second"),
    "keys": ([({"a": 1},), ({"b": 1},)], "keys    x['a']   only in the first trace: weakly ty"),
    "more": ([(XS,), (XS, 2)], "keys    n   only in the second: weakly typed i32[]"),
    "fewer": ([{"x": XS, "o": XS}, {"x": XS}], "keys    o   only in the first trace: f32[4,3]"),
    "keyword": ([(XS,), {"x": XS}], "\n\nIts arguments have the structure, shapes and dtypes that"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRACES)
def test_what_is_traced_twice(name):
    arguments, text = TRACES[name]
    found = told(calls, lambda x, n=1, **options: jax.tree.leaves(x), *arguments)
    assert found.startswith("<lambda> is traced a second time\n\n")
    assert text in found


def test_another_static_value():
    found = told(calls, scaled, (XS, 2), (XS, 3), static_argnums=1)
    assert found.endswith("\n\n  value   n   the first trace has 2; the second has 3")


def test_transformed_anew():
    counted = assert_single_trace(scaled)
    jax.jit(ptk.vmap(counted))(XS)
    assert "was\ntransformed anew" in told(jax.jit(ptk.vmap(counted)), XS)
    jax.jit(assert_single_trace(scaled))(XS)  # each object counts for itself


def test_a_method_that_is_traced_once():
    class Owner:
        @functools.partial(jax.jit, static_argnums=0)
        @assert_single_trace
        def double(self, x):
            return x * 2

    owner = Owner()
    assert (owner.double(XS) == owner.double(XS)).all()
    assert "shape   x" in told(owner.double, XS[:2])


def test_what_is_never_traced():
    def untraced():
        with assert_single_trace(scaled) as counted:
            counted(XS)

    assert told(untraced) == "scaled was not traced"
    with pytest.raises(KeyError, match="own"), assert_single_trace(scaled):
        raise KeyError("own")


def test_no_value_of_a_trace_is_kept():
    with jax.checking_leaks():
        calls(scaled, (XS,), (XS + 1,))
