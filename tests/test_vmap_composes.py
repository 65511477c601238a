"""ptk.vmap inside and around JAX's other transformations: the values and the jaxprs of jax.vmap."""

from __future__ import annotations

import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import pytreekit as ptk

W = jnp.arange(6.0).reshape(2, 3) / 7
XS = jnp.arange(8.0).reshape(4, 2) - 3


def predict(w, x):
    return jnp.tanh(x @ w)


def loss(w, x):
    return jnp.sum(predict(w, x) ** 2)


def jaxpr_of(fun, *args):
    """The jaxpr as text, without the addresses of the Python functions in it."""
    return re.sub(r"0x[0-9a-f]+", "0x", str(jax.make_jaxpr(fun)(*args)))


def assert_same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(functools.partial(np.testing.assert_array_equal, strict=True), ours, theirs)


def assert_agree(make, *args):
    """`make(vmap)` is a function of `args`: the same jaxpr and the same values with either vmap."""
    assert jaxpr_of(make(ptk.vmap), *args) == jaxpr_of(make(jax.vmap), *args)
    assert_same(make(ptk.vmap)(*args), make(jax.vmap)(*args))


# ---- one vmap and one other transformation ------------------------------------------------------


@jax.custom_vjp
def clipped(x):
    return x * 2


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * x,))


@jax.custom_jvp
def rounded(x):
    return jnp.round(x)


rounded.defjvp(lambda primals, tangents: (rounded(*primals), tangents[0] * 3))


def total(vmap):
    return lambda w, x: vmap(loss, in_axes=(None, 0))(w, x).sum()


def counted(w, x):
    return lax.fori_loop(0, 3, lambda _, y: jnp.tanh(y), x @ w)


def scanned(vmap):
    def step(carry, x):
        out = vmap(predict, in_axes=(None, 0))(carry, x)
        return carry + out.sum(), out

    return lambda w, x: lax.scan(step, w, jnp.stack([x, -x]))


WITH_ANOTHER = {
    "jit of vmap": lambda vmap: jax.jit(vmap(predict, in_axes=(None, 0))),
    "vmap of jit": lambda vmap: vmap(jax.jit(predict), in_axes=(None, 0)),
    "grad of vmap": lambda vmap: jax.grad(total(vmap)),
    "vmap of grad": lambda vmap: vmap(jax.grad(loss), in_axes=(None, 0)),
    "vmap of value_and_grad": lambda vmap: vmap(
        jax.value_and_grad(lambda w, x: (loss(w, x), {"x": x}), has_aux=True), in_axes=(None, 0)
    ),
    "jvp of vmap": lambda vmap: (
        lambda w, x: jax.jvp(vmap(predict, in_axes=(None, 0)), (w, x), (w * 2, x + 1))
    ),
    "vmap of jvp": lambda vmap: vmap(
        lambda w, x: jax.jvp(lambda y: predict(w, y), (x,), (x,)), in_axes=(None, 0)
    ),
    "vjp of vmap": lambda vmap: (
        lambda w, x: jax.vjp(vmap(predict, in_axes=(None, 0)), w, x)[1](jnp.ones((4, 3)))
    ),
    "vmap of vjp": lambda vmap: vmap(
        lambda w, x: jax.vjp(predict, w, x)[1](jnp.ones(3)), in_axes=(None, 0)
    ),
    "jacobian of vmap": lambda vmap: jax.jacfwd(vmap(predict, in_axes=(None, 0))),
    "vmap of hessian": lambda vmap: vmap(jax.hessian(loss), in_axes=(None, 0)),
    "linearize of vmap": lambda vmap: lambda w, x: jax.linearize(total(vmap), w, x)[1](w, x),
    "vmap of checkpoint": lambda vmap: vmap(jax.grad(jax.checkpoint(loss)), in_axes=(None, 0)),
    "scan over vmap": scanned,
    "vmap of scan": lambda vmap: vmap(
        lambda w, x: lax.scan(lambda c, row: (c + row, c @ row), x[0] * w[0], w), in_axes=(None, 0)
    ),
    "vmap of a loop": lambda vmap: vmap(counted, in_axes=(None, 0)),
    "vmap of cond": lambda vmap: vmap(
        lambda w, x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x @ w), in_axes=(None, 0)
    ),
    "vmap of grad of custom_vjp": lambda vmap: vmap(
        jax.grad(lambda w, x: jnp.sum(clipped(x @ w))), in_axes=(None, 0)
    ),
    "grad of vmap of custom_vjp": lambda vmap: jax.grad(
        lambda w, x: vmap(lambda x: clipped(x @ w))(x).sum()
    ),
    "vmap of jvp of custom_jvp": lambda vmap: vmap(
        lambda w, x: jax.jvp(rounded, (x @ w,), (x @ w,)), in_axes=(None, 0)
    ),
    "grad of vmap of custom_jvp": lambda vmap: jax.grad(
        lambda w, x: vmap(lambda x: rounded(x @ w))(x).sum()
    ),
}


@pytest.mark.parametrize("name", WITH_ANOTHER)
def test_with_another_transformation(name):
    assert_agree(WITH_ANOTHER[name], W, XS)


def test_custom_vjp_written_with_vmap():
    def make(vmap):
        @jax.custom_vjp
        def rows(w, x):
            return vmap(predict, in_axes=(None, 0))(w, x)

        def backward(kept, g):
            w, x = kept
            return vmap(jnp.outer)(x, g).sum(0) * 2, vmap(lambda g: w @ g)(g)

        rows.defvjp(lambda w, x: (rows(w, x), (w, x)), backward)
        return jax.grad(lambda w, x: rows(w, x).sum(), argnums=(0, 1))

    assert_agree(make, W, XS)


# ---- vmap in vmap -------------------------------------------------------------------------------

NESTED = {
    "rows and columns": lambda outer, inner: outer(
        inner(jnp.multiply, in_axes=(0, None)), in_axes=(None, 0)
    ),
    "negative and moved axes": lambda outer, inner: outer(
        inner(lambda w, x: w[0] + x, in_axes=(-1, None), out_axes=1), in_axes=(None, 1), out_axes=-1
    ),
    "per row gradients of a batch": lambda outer, inner: outer(
        jax.grad(lambda w, x: inner(lambda w: loss(w[:, None], x), in_axes=1)(w).sum()),
        in_axes=(None, 0),
    ),
    "collective over both": lambda outer, inner: outer(
        inner(lambda w, x: lax.psum(w * x[0], ("i", "j")), in_axes=(0, None), axis_name="j"),
        in_axes=(None, 0),
        axis_name="i",
    ),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("kinds", [("ptk", "ptk"), ("ptk", "jax"), ("jax", "ptk")], ids="-in-".join)
def test_nested(name, kinds):
    outer, inner = ({"ptk": ptk.vmap, "jax": jax.vmap}[kind] for kind in kinds)
    args = (XS[0], XS) if name == "rows and columns" else (W, XS)
    ours, theirs = NESTED[name](outer, inner), NESTED[name](jax.vmap, jax.vmap)
    assert jaxpr_of(ours, *args) == jaxpr_of(theirs, *args)
    assert_same(ours(*args), theirs(*args))


def test_fault_of_the_inner_call_is_found_where_it_is_made():
    inner = ptk.vmap(lambda x, y: x + y)

    @ptk.vmap
    def outer(x, y):
        return inner(x, y)

    with pytest.raises(ptk.SpecError, match=r"PTK102") as caught:
        outer(jnp.ones((4, 2)), jnp.ones((4, 5)))
    assert [fault.argument for fault in caught.value.faults] == ["y"]


# ---- collectives --------------------------------------------------------------------------------

COLLECTIVES = {
    "psum": lambda x: x - lax.psum(x, "i"),
    "psum of a constant": lambda x: x * lax.psum(1, "i"),
    "pmean": lambda x: x / lax.pmean(x + 1, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "axis_index": lambda x: x[lax.axis_index("i") % 2],
    "axis_size": lambda x: jnp.full(lax.axis_size("i"), x[0]),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "ppermute": lambda x: lax.ppermute(x, "i", [(j, (j + 1) % 4) for j in range(4)]),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name):
    assert_agree(lambda vmap: vmap(COLLECTIVES[name], axis_name="i"), XS)


def test_psum_result_under_out_axes_none():
    assert_agree(lambda vmap: vmap(lambda x: lax.psum(x, "i"), out_axes=None, axis_name="i"), XS)


def test_axis_name_is_unbound_without_a_name():
    with pytest.raises(NameError, match="i"):
        ptk.vmap(lambda x: lax.psum(x, "i"))(XS)


# ---- what reaches the function ------------------------------------------------------------------


def test_the_callers_containers_stay_as_they_are():
    def greedy(batch, shared):
        batch["x"] = batch["x"] * 2
        batch["inner"].append(3.0)
        shared["seen"] = True
        shared["deep"].clear()
        return batch["x"]

    batch, shared = {"x": XS, "inner": [XS]}, {"w": W, "deep": {"a": W}}
    out = ptk.vmap(greedy, in_axes=(0, None))(batch, shared)
    np.testing.assert_array_equal(out, XS * 2)
    assert list(batch) == ["x", "inner"]
    assert batch["x"] is XS
    assert len(batch["inner"]) == 1
    assert list(shared) == ["w", "deep"]
    assert list(shared["deep"]) == ["a"]


def test_a_mutated_container_does_not_reach_the_next_call():
    def greedy(shared, x):
        assert "seen" not in shared
        shared["seen"] = 1
        return x * shared.pop("w")

    mapped = ptk.vmap(greedy, in_axes=(None, 0))
    shared = {"w": jnp.float32(2)}
    for _ in range(3):
        np.testing.assert_array_equal(mapped(shared, XS), XS * 2)


def test_what_stands_under_none_reaches_the_function_as_it_is():
    static = {"call": jnp.tanh, "n": 3, "name": "relu", "object": object(), "set": {1, 2}}
    array, struct = np.arange(3.0), jax.ShapeDtypeStruct((2,), jnp.float32)
    seen = []

    def fun(static, array, struct, x):
        seen.extend([*static.values(), array, struct])
        return x

    ptk.vmap(fun, in_axes=(None, None, None, 0))(static, array, struct, XS)
    expected = [*static.values(), array, struct]
    assert list(map(id, seen)) == list(map(id, expected))


def test_a_traced_shared_value_stays_traced():
    def make(vmap):
        return jax.jit(lambda n, x: vmap(lambda d, x: d["n"] * x, in_axes=(None, 0))({"n": n}, x))

    assert_agree(make, jnp.float32(3), XS)


# ---- abstract values and leaks ------------------------------------------------------------------


def test_eval_shape():
    args = jax.ShapeDtypeStruct((2, 3), jnp.float32), jax.ShapeDtypeStruct((4, 2), jnp.float32)
    ours, theirs = (
        jax.eval_shape(vmap(lambda w, x: {"y": predict(w, x)}, in_axes=(None, 0)), *args)
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs == {"y": jax.ShapeDtypeStruct((4, 3), jnp.float32)}


def test_eval_shape_finds_faults():
    args = jax.ShapeDtypeStruct((2, 3), jnp.float32), jax.ShapeDtypeStruct((4,), jnp.float32)
    with pytest.raises(ptk.SpecError, match="PTK101"):
        jax.eval_shape(ptk.vmap(predict, in_axes=(None, 1)), *args)


@pytest.mark.parametrize("checks", [True, False])
def test_nothing_leaks(checks):
    mapped = ptk.vmap(loss, in_axes=(None, 0), checks=checks)
    with jax.checking_leaks():
        jax.jit(mapped)(W, XS)
        jax.vmap(lambda x: mapped(W, x))(jnp.stack([XS, XS]))
        jax.grad(lambda w: mapped(w, XS).sum())(W)
        mapped.plan(W, XS)


def test_nothing_leaks_after_a_fault():
    mapped = ptk.vmap(loss, in_axes=(None, 0), out_axes=2)
    with jax.checking_leaks(), pytest.raises(ptk.SpecError) as caught:
        jax.jit(mapped)(W, XS)
    assert caught.value.faults


UNCHECKED = {
    "prefix": (lambda vmap: vmap(lambda a, x: a["w"] * x, in_axes=0), ({"w": XS}, XS)),
    "shared": (lambda vmap: vmap(predict, in_axes=(None, 0)), (W, XS)),
    "tree": (
        lambda vmap: vmap(
            lambda a, x: {"y": a["w"] * x, "z": a["b"]},
            in_axes=({"w": 1, "b": None}, 0),
            out_axes={"y": -1, "z": None},
        ),
        ({"w": XS.T, "b": W}, XS),
    ),
    "named axis": (
        lambda vmap: vmap(lambda x: lax.psum(x, "i"), axis_name="i", out_axes=None),
        (XS,),
    ),
    "size": (lambda vmap: vmap(lambda: W, axis_size=3), ()),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_checks_false_is_jax_vmap(name):
    make, args = UNCHECKED[name]
    unchecked = functools.partial(ptk.vmap, checks=False)
    assert_agree(lambda vmap: make(jax.vmap if vmap is jax.vmap else unchecked), *args)


def test_checks_false_checks_nothing():
    unchecked = ptk.vmap(predict, in_axes=(None, 5), checks=False)
    with pytest.raises(ValueError, match="rank") as caught:
        unchecked(W, XS)
    assert not isinstance(caught.value, ptk.SpecError)


def test_all_option_forms_together():
    forms = itertools.product((0, -1, 1), (0, 1, -1), (None, "i"))
    for in_axis, out_axis, name in forms:
        assert_agree(
            lambda vmap, i=in_axis, o=out_axis, n=name: vmap(
                lambda x: (x, {"s": x * 2}), i, (o, {"s": 0}), n
            ),
            XS,
        )
