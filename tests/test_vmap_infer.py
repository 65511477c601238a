"""in_axes="infer": which axis is the batch, by what annotations say of one example."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array, Float, Int, Key, PyTree

import pytreekit as ptk

W, B, XS, LABELS = jnp.ones((3, 2)), jnp.ones(2), jnp.ones((5, 3)), jnp.zeros(5, int)


def loss(
    params: PyTree[Float[Array, "..."]],
    x: Float[Array, " d"],
    label: Int[Array, ""],
    *,
    scale: Float[Array, ""] | float = 1.0,
    train: bool = False,
) -> Float[Array, ""]:
    return scale * (x @ params["w"] + params["b"])[label]


PARAMS = {"w": W, "b": B}
inferred = ptk.vmap(loss, in_axes="infer")


def axes(*args: Any, fun: Any = inferred, **kwargs: Any) -> dict[str, Any]:
    """The axis of each leaf, as the plan has it."""
    return {leaf.argument + leaf.path: leaf.axis for leaf in fun.plan(*args, **kwargs).leaves}


def codes(*args: Any, fun: Any = inferred, **kwargs: Any) -> list[str]:
    return [f"{fault.code} {fault.argument}" for fault in fun.check(*args, **kwargs)]


def test_what_fits_is_shared_and_the_rest_is_mapped():
    wanted = jax.vmap(loss, (None, 0, 0))(PARAMS, XS, LABELS)
    np.testing.assert_array_equal(inferred(PARAMS, XS, LABELS), wanted)
    np.testing.assert_array_equal(jax.jit(inferred)(PARAMS, XS, LABELS), wanted)
    shared = {"params['b']": None, "params['w']": None}
    assert axes(PARAMS, XS, LABELS) == shared | {"x": 0, "label": 0}
    assert axes(PARAMS, XS.T, LABELS) == shared | {"x": 1, "label": 0}  # by the size of the batch
    assert axes(PARAMS, XS, jnp.zeros((), int)) == shared | {"x": 0, "label": None}


def test_one_function_takes_the_axis_anew_for_each_kind_of_call():
    for xs in (XS, XS.T, XS, np.ones((5, 4), np.float32), jax.ShapeDtypeStruct((5, 3), "f4")):
        assert axes(PARAMS, xs, LABELS)["x"] == (0 if xs.shape[0] == 5 else 1)
    assert inferred(PARAMS, XS.T, LABELS).shape == inferred(PARAMS, XS, LABELS).shape == (5,)


def test_keywords_and_defaults():
    assert axes(PARAMS, XS, LABELS, scale=jnp.ones(5))["scale"] == 0
    assert axes(PARAMS, XS, LABELS, scale=2.0, train=True)["scale"] is None
    assert axes(params=PARAMS, label=LABELS, x=XS.T)["x"] == 1


def test_the_static_flag_stays_the_python_value_that_it_is():
    seen = []

    @ptk.vmap(in_axes="infer")
    def noted(x: Float[Array, ""], train: bool) -> Any:
        seen.append(train)
        return x

    noted(B, True)
    noted(B, train=False)
    assert seen == [True, False]


def test_names_are_bound_across_arguments():
    @ptk.vmap(in_axes="infer")
    def product(w: Float[Array, "d k"], x: Float[Array, " d"], y: Float[Array, " k"]) -> Any:
        return x @ w @ y

    assert axes(W, XS, jnp.ones((5, 2)), fun=product) == {"w": None, "x": 0, "y": 0}
    assert axes(W, XS.T, jnp.ones((2, 5)), fun=product) == {"w": None, "x": 1, "y": 1}
    assert axes(W, jnp.ones((3, 5)), B, fun=product) == {"w": None, "x": 1, "y": None}
    # a batch of 3 over axes 0 and 1, or of 5 over axes 1 and 0
    both = ["PTK605 w", "PTK605 x"]
    assert codes(jnp.ones((3, 5, 2)), XS, B, fun=product) == both


def test_fixed_sizes_tell_axes_of_one_size_apart_from_others():
    @ptk.vmap(in_axes="infer")
    def gray(image: Float[Array, "28 28 3"]) -> Any:
        return image

    for axis in range(4):
        shape = [28, 28, 3]
        shape.insert(axis, 32)
        assert axes(jnp.ones(shape), fun=gray) == {"image": axis}


@pytest.mark.parametrize(
    ("shape", "code"),
    [((28, 28, 28, 3), "PTK605 image"), ((28, 28, 3, 3), "PTK605 image")],
)
def test_axes_of_one_size_are_not_chosen_between(shape, code):
    @ptk.vmap(in_axes="infer")
    def gray(image: Float[Array, "28 28 3"]) -> Any:
        raise AssertionError

    assert codes(jnp.ones(shape), fun=gray) == [code]
    with pytest.raises(ptk.SpecError, match="may be mapped over axis"):
        gray(jnp.ones(shape))


def test_the_candidates_that_are_listed_are_the_specs_to_write():
    square = jnp.ones((3, 3))
    (fault,) = inferred.check(PARAMS, square, jnp.zeros(3, int))
    assert fault.code == "PTK605"
    assert fault.fact == "may be mapped over axis 0 or 1"
    names = "{'params': None, 'x': %d, 'label': 0}"
    assert f"write in_axes={names % 0} or {names % 1}" in fault.note
    for axis in (0, 1):
        chosen = ptk.vmap(loss, in_axes={"params": None, "x": axis, "label": 0})
        assert chosen.check(PARAMS, square, jnp.zeros(3, int)) == ()


def test_what_is_not_annotated():
    @ptk.vmap(in_axes="infer")
    def half(x: Float[Array, " d"], other: Any, flag: Any = None) -> Any:
        return x

    assert axes(XS, 2.0, fun=half) == {"x": 0, "other": None}
    assert axes(XS, "relu", flag=jnp.ones(()), fun=half) == {"x": 0, "other": None, "flag": None}
    assert codes(XS, LABELS, fun=half) == ["PTK605 other"]
    assert codes(XS, [1, LABELS], {"a": XS}, fun=half) == ["PTK605 other", "PTK605 flag"]
    assert codes(XS, fun=ptk.vmap(lambda x: x, in_axes="infer")) == ["PTK605 x"]


def test_what_fits_under_no_axes_is_told_as_it_would_be_with_axes():
    assert codes(PARAMS, XS, jnp.ones(5)) == ["PTK601 label"]
    assert codes(PARAMS, jnp.ones((2, 3, 5)), LABELS) == ["PTK602 x"]
    assert "PTK102 label" in codes(PARAMS, jnp.ones((7, 6)), LABELS)
    assert codes(PARAMS, jnp.ones(3), jnp.zeros((), int)) == ["PTK103 "]  # no batch at all


def test_extra_arguments_and_keywords():
    @ptk.vmap(in_axes="infer")
    def total(*xs: Float[Array, " d"], **more: Float[Array, ""]) -> Any:
        return sum(x.sum() for x in xs) + sum(more.values())

    found = axes(XS, jnp.ones(3), XS.T, a=jnp.ones(5), b=jnp.ones(()), fun=total)
    assert list(found.values()) == [0, None, 1, 0, None]
    np.testing.assert_allclose(total(XS, jnp.ones(3), a=jnp.ones(5)), np.full(5, 7.0))


def test_keys():
    @ptk.vmap(in_axes="infer")
    def draw(key: Key[Array, ""], x: Float[Array, " d"]) -> Any:
        return jax.random.bernoulli(key, x.mean())

    key = jax.random.key(0)
    assert axes(key, XS, fun=draw) == {"key": None, "x": 0}
    assert axes(jax.random.split(key, 5), XS, fun=draw) == {"key": 0, "x": 0}


def test_methods_partials_copies_and_pickles():
    class Model:
        w = W

        @ptk.vmap(in_axes="infer")
        def logits(self, x: Float[Array, "3"]) -> Any:
            return x @ self.w

    assert Model().logits(XS).shape == (5, 2)
    assert Model().logits(XS.T).shape == (5, 2)
    bound = ptk.vmap(functools.partial(loss, PARAMS), in_axes="infer")
    assert bound(XS, LABELS).shape == (5,)
    for again in (
        copy.copy(inferred),
        copy.deepcopy(inferred),
        pickle.loads(pickle.dumps(inferred)),
    ):
        assert axes(PARAMS, XS.T, LABELS, fun=again)["x"] == 1


def test_with_the_other_options():
    def doubled(x: Float[Array, " d"]) -> Float[Array, " d"]:
        return 2 * x

    for options in ({"chunk_size": 2}, {"axis_name": "i"}, {"axis_size": 5}, {"checks": False}):
        mapped = ptk.vmap(doubled, in_axes="infer", out_axes=1, **options)
        np.testing.assert_array_equal(mapped(XS), 2 * XS.T)
    # a size settles what is ambiguous
    assert ptk.vmap(doubled, in_axes="infer", axis_size=3)(XS).shape == (3, 5)


def test_nested():
    @ptk.vmap(in_axes="infer")
    def of_all(x: Float[Array, "n d"], w: Float[Array, " d"]) -> Any:
        return ptk.vmap(of_one, in_axes="infer")(x, w)

    def of_one(x: Float[Array, " d"], w: Float[Array, " d"]) -> Any:
        return x @ w

    assert of_all(jnp.ones((2, 5, 3)), jnp.ones(3)).shape == (2, 5)
    with pytest.raises(ptk.SpecError, match="PTK603"):
        of_all(jnp.ones((2, 5, 3)), jnp.ones(4))


SIZES = (2, 3, 5, 7, 11, 13)  # of the batch, then of the dimensions d0, d1, ...


@st.composite
def declarations(draw: st.DrawFn) -> tuple[Any, dict[str, Any], dict[str, int | None]]:
    """A function of annotated arguments, a call of it, and the axes that were put in."""
    batch, *sizes = draw(st.permutations(SIZES))
    hints, arguments, chosen = {}, {}, {}
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        dims = draw(st.lists(st.integers(0, len(sizes) - 1), max_size=3, unique=True))
        tokens = [draw(st.sampled_from([f"d{index}", str(sizes[index])])) for index in dims]
        shape = [sizes[index] for index in dims]
        chosen[name] = draw(st.none() | st.integers(0, len(shape)))
        if chosen[name] is not None:
            shape.insert(chosen[name], batch)
        hints[name] = Float[Array, " ".join(tokens)]
        arguments[name] = jax.ShapeDtypeStruct(tuple(shape), "f4")

    def fun(a: Any, b: Any = None, c: Any = None) -> Any:
        raise AssertionError

    fun.__annotations__ = hints
    return fun, arguments, chosen


@settings(max_examples=60)
@given(declarations())
def test_axes_that_were_put_in_are_found(drawn):
    fun, arguments, chosen = drawn
    mapped = ptk.vmap(fun, in_axes="infer")
    if set(chosen.values()) == {None}:
        assert codes(**arguments, fun=mapped) == ["PTK103 "]
        return
    faults = mapped.check(**arguments)
    if not faults:
        found = axes(**arguments, fun=mapped)
        assert found == chosen or not any(found.values())  # the batch in front, by convention
        assert [found[name] is None for name in found] == [chosen[name] is None for name in found]
        return
    assert {fault.code for fault in faults} == {"PTK605"}
    assert all(f"{chosen[fault.argument]}" in fault.fact for fault in faults)
    assert any("d" in hint.dim_str for hint in fun.__annotations__.values())  # a name left it open
