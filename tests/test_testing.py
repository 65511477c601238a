"""The assertions of `ptk.testing`: what passes, what fails, and what they say of it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk
from pytreekit.testing import (
    assert_matches_loop,
    assert_plan,
    assert_single_trace,
    assert_trees_match,
)


def told(run: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        run(*args, **kwargs)
    text = str(caught.value)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88
    return text


def affine(params: Any, x: Any, scale: float = 1.0) -> Any:
    return {"y": params["w"] @ x + params["b"], "scaled": (x * scale,)}


PARAMS = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(2)}
XS = jnp.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    "in_axes",
    [
        (None, 0),
        {"params": None, "x": 0},
        {"x": 0, ...: None},
        ({"w": None, "b": None}, 0),
        (lambda leaf: None, ptk.if_array(0)),
    ],
)
def test_a_pure_function_matches_its_loop_under_every_form_of_in_axes(in_axes: Any) -> None:
    assert_matches_loop(affine, in_axes, PARAMS, XS)


@pytest.mark.parametrize("axis", [1, -1])
def test_the_loop_takes_other_axes(axis: int) -> None:
    assert_matches_loop(affine, (None, axis), PARAMS, XS.T)


def test_the_loop_splits_keys_and_passes_keywords() -> None:
    def noisy(x: Any, key: Any, *, flag: bool) -> Any:
        assert isinstance(flag, bool)
        return x + jax.random.normal(key, x.shape) if flag else x

    in_axes = {"x": 0, "key": ptk.SPLIT, "flag": None}
    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        assert_matches_loop(noisy, in_axes, XS, key, flag=True)
    draw = lambda key: jax.random.normal(key, (2,))  # noqa: E731
    assert_matches_loop(draw, ptk.SPLIT, jax.random.key(1), axis_size=3)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x[::-1],
        lambda x: (x * 2, x.astype(jnp.bfloat16)),
        lambda x: {"any": x > 1, "count": (x > 1).sum(), "none": None},
        lambda x: jax.random.key(x[0].astype(int)),
        lambda x: x / 0.0,
        lambda x: 3,
    ],
)
def test_the_loop_compares_every_kind_of_output(fun: Any) -> None:
    assert_matches_loop(fun, 0, XS)


def test_an_empty_batch_has_no_example_that_differs() -> None:
    assert_matches_loop(lambda x: x * 2, 0, jnp.ones((0, 3)))


def test_state_is_found_at_the_first_example_and_leaf_that_differ() -> None:
    calls = itertools.count()

    def counting(x: Any) -> Any:
        number = next(calls)  # 0 and 1 under vmap, in planning none; 2 and later in the loop
        return {"a": x, "b": x + (number > 2)}

    text = told(assert_matches_loop, counting, 0, XS)
    head, _, first, *_ = text.splitlines()
    assert head.startswith("vmap(counting) differs from a loop over its examples, first at example")
    assert "out['b']   f32[3]" in first
    assert "out['a']" not in text


def test_a_function_that_looks_at_values_of_the_whole_batch_is_found() -> None:
    def centred(x: Any) -> Any:
        size = x.shape[0] if not isinstance(x, jax.core.Tracer) else 7
        return x * size

    assert "first at example 0" in told(assert_matches_loop, centred, 0, XS)
    grows = lambda x: jnp.zeros(2 if isinstance(x, jax.core.Tracer) else 3)  # noqa: E731
    text = told(assert_matches_loop, grows, 0, XS)
    assert "shape" in text
    assert "vmap has f32[2]; the loop has f32[3]" in text


def test_faults_of_the_spec_are_faults() -> None:
    with pytest.raises(ptk.SpecError, match="PTK101"):
        assert_matches_loop(affine, (None, 3), PARAMS, XS)


MAPPED = ptk.vmap(affine, in_axes=(None, 0))


@pytest.mark.parametrize(
    "axes",
    [
        (None, 0),
        {"params": None, "x": 0},
        {"x": 0, ...: None},
        {"params['w']": None, "params['b']": None, "x": 0},
        {"params": {"w": None, "b": None}, "x": 0},
        ({"w": None, "b": None}, 0),
    ],
)
def test_a_plan_is_as_expected_however_that_is_written(axes: Any) -> None:
    assert_plan(MAPPED, PARAMS, XS, axes=axes, axis_size=4)
    assert_plan(MAPPED, PARAMS, jax.ShapeDtypeStruct((4, 3), jnp.float32), axes=axes)


def test_a_plan_tells_every_difference() -> None:
    text = told(assert_plan, MAPPED, PARAMS, XS, axes={"params": 0, "xs": 0}, axis_size=5)
    assert text.startswith("the plan of vmap(affine) is not the expected one: 5 differences\n")
    rows = [" ".join(line.split()) for line in text.splitlines()[2:]]
    assert rows == [
        "params['b'] f32[2] shared, expected 0",
        "params['w'] f32[2,3] shared, expected 0",
        "x f32[4,3] 0, expected nothing",
        "xs no such leaf, expected 0",
        "axis_size 4, expected 5",
    ]


def test_a_plan_knows_split_keys_negative_axes_and_methods() -> None:
    class Model:
        @ptk.vmap(in_axes={"x": -1, "key": ptk.SPLIT})
        def noisy(self, x: Any, key: Any) -> Any:
            return x + jax.random.normal(key)

    call = (jnp.ones((3, 4)), jax.random.key(0))
    assert_plan(Model().noisy, *call, axes={"x": 1, "key": ptk.SPLIT})
    assert "1, expected -1" in told(assert_plan, Model().noisy, *call, axes={"x": -1, ...: None})


def test_a_plan_is_of_a_mapped_function_only() -> None:
    with pytest.raises(ptk.SpecError, match="PTK001"):
        assert_plan(jnp.sum, XS, axes=0)


def test_one_trace_is_allowed_and_the_second_says_what_changed() -> None:
    counted = assert_single_trace(affine)
    jitted = jax.jit(counted)
    for x in XS:
        jitted(PARAMS, x)
    counted(PARAMS, XS[0])  # not traced: it does not count
    assert counted.traces == 1
    text = told(jitted, PARAMS, XS[0].astype(jnp.int32))
    assert text.startswith("affine is traced a second time\n")
    assert "the first trace has f32[3]; the second has i32[3]" in text


def test_a_function_transformed_anew_has_the_same_arguments() -> None:
    counted = assert_single_trace(lambda x: x)
    jax.jit(counted)(XS)
    text = " ".join(told(jax.jit(functools.partial(counted)), XS).split())
    assert "the same structure, shapes and dtypes as before" in text


def test_as_a_context_it_must_be_traced_and_lets_errors_through() -> None:
    def untraced() -> None:
        with assert_single_trace(affine):
            pass

    assert told(untraced) == "affine was not traced"
    with pytest.raises(KeyError), assert_single_trace(affine):
        raise KeyError

    class Model:
        @assert_single_trace
        def double(self, x: Any) -> Any:
            return x * 2

    model = Model()
    assert (jax.jit(model.double)(XS) == XS * 2).all()


TREE = {"w": jnp.ones((2, 3)), "n": np.arange(3), "key": jax.random.key(0), "name": "relu"}


@pytest.mark.parametrize(
    "other",
    [
        TREE,
        {**TREE, "w": np.ones((2, 3), np.float32)},
        {**TREE, "w": jnp.ones((2, 3)) + 1e-7},
        {**TREE, "w": jax.ShapeDtypeStruct((2, 3), jnp.float32)},
        {**TREE, "key": jax.random.key(0)},
    ],
)
def test_trees_that_match(other: Any) -> None:
    assert_trees_match(TREE, other)
    assert_trees_match(other, TREE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"w": jnp.ones((3, 2))}, "shape"),
        ({"w": jnp.ones((2, 3), jnp.int32)}, "dtype"),
        ({"extra": 1}, "extra"),
        ({"name": "tanh"}, "'tanh'"),
        ({"n": np.array([0, 1, 9])}, "a has 2, b has 9 at [2]"),
        ({"w": jnp.ones((2, 3)).at[1, 0].set(np.nan)}, "a has 1, b has nan at [1,0]"),
        ({"key": jax.random.key(1)}, "['key']"),
        ({"w": jnp.ones((2, 3)) + 1e-3}, "6 of 6 values differ, by 0.001"),
    ],
)
def test_trees_that_do_not_match(change: dict[str, Any], says: str) -> None:
    assert says in told(assert_trees_match, TREE, {**TREE, **change})


def test_nan_matches_nan_and_short_floats_and_empty_arrays_compare() -> None:
    odd = {"nan": jnp.array([np.nan, 1.0]), "empty": jnp.ones((0, 3)), "none": None}
    assert_trees_match(odd, dict(odd))
    short = {"x": jnp.ones(3, jnp.bfloat16), "c": jnp.ones(2, complex)}
    assert_trees_match(short, dict(short))
    other = {**short, "x": jnp.array([1, 1, 2], jnp.bfloat16)}
    assert "1 of 3 values differs, by 1 at most" in told(assert_trees_match, short, other)


def test_names_and_tolerances_are_the_callers() -> None:
    near = {"x": jnp.array([1.0, 2.0])}
    far = {"x": jnp.array([1.0, 2.1])}
    assert_trees_match(near, far, rtol=0.1)
    assert_trees_match(near, far, atol=0.2)
    text = told(assert_trees_match, near, far, names=("before", "after"))
    assert "the values of before and after differ in 1 leaf" in text
