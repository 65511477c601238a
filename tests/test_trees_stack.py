"""`ptk.stack` and `ptk.unstack`: lists of trees and trees of stacked leaves."""

from __future__ import annotations

import cProfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pytreekit as ptk

from .strategies import NUMERIC, Style, damaged_spec, draw_leaf, draw_tree
from .vmap_nodes import Chexed, Keyed, Layer, Module, Pair, Plain, Point, Struct, build

W = jnp.arange(12.0).reshape(3, 4)


def faults_of(call, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        call(*args, **kwargs)
    assert str(caught.value).isascii()
    assert max(map(len, str(caught.value).splitlines())) <= 88
    return caught.value.faults


def codes(call, *args, **kwargs):
    return [fault.code for fault in faults_of(call, *args, **kwargs)]


def assert_same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


# ---- what comes of it ---------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_stacking_is_that_of_jax_for_each_leaf(axis):
    trees = [{"a": W + i, "b": [W * i]} for i in range(5)]
    stacked = ptk.stack(trees, axis)
    assert_same(stacked, jax.tree.map(lambda *leaves: jnp.stack(leaves, axis), *trees))
    back = ptk.unstack(stacked, axis)
    assert len(back) == 5
    for tree, again in zip(trees, back, strict=True):
        assert_same(tree, again)


@pytest.mark.parametrize("kind", [Point, Pair, Layer, Chexed, Struct, Module])
def test_every_kind_of_node(kind):
    stacked = ptk.stack([kind(p=W, q=1.0), kind(p=W, q=2.0)])
    assert type(stacked) is kind
    assert (stacked.p.shape, stacked.q.tolist()) == ((2, 3, 4), [1.0, 2.0])
    assert [type(one) for one in ptk.unstack(stacked)] == [kind, kind]


def test_custom_nodes_keep_their_static_data():
    for kind in (Keyed, Plain):
        stacked = ptk.stack([kind((W, {}), "label")] * 2)
        assert (stacked.label, stacked.children[0].shape) == ("label", (2, 3, 4))


def test_numbers_become_arrays():
    stacked = ptk.stack([{"i": 1, "f": 0.5, "b": True, "c": 1j}] * 2)
    assert {key: str(leaf.dtype) for key, leaf in stacked.items()} == {
        "i": "int32", "f": "float32", "b": "bool", "c": "complex64"
    }  # fmt: skip
    assert all(isinstance(leaf, jax.Array) and leaf.shape == (2,) for leaf in stacked.values())
    assert not any(leaf.weak_type for leaf in stacked.values())


def test_numpy_stays_on_the_host_with_its_dtype():
    stacked = ptk.stack([{"x": np.ones(3), "s": np.float64(2.0)}] * 4)
    assert {key: type(leaf) for key, leaf in stacked.items()} == {"x": np.ndarray, "s": np.ndarray}
    assert (stacked["x"].dtype, stacked["x"].shape, stacked["s"].shape) == (float, (4, 3), (4,))
    (first, *_) = ptk.unstack(stacked)
    assert (type(first["s"]), first["s"].shape, first["s"].dtype) == (np.ndarray, (), float)
    mixed = ptk.stack([np.ones(3, np.float32), jnp.ones(3)])
    assert isinstance(mixed, jax.Array)


def test_masks_and_text_of_numpy():
    masked = ptk.stack([np.ma.masked_array([1, 2], [0, 1])] * 2)
    assert masked.mask.tolist() == [[False, True]] * 2
    assert ptk.stack([np.array(["a", "bc"])] * 3).shape == (3, 2)


def test_what_is_no_array_is_kept_once():
    tree = {"act": jnp.tanh, "name": "encoder", "w": W, "none": None, "kinds": {1, 2}}
    stacked = ptk.stack([tree, dict(tree)])
    assert stacked["act"] is jnp.tanh
    assert (stacked["name"], stacked["none"], stacked["kinds"]) == ("encoder", None, {1, 2})
    assert [one["act"] for one in ptk.unstack(stacked)] == [jnp.tanh] * 2


def test_keys_of_both_kinds():
    keys = [{"k": jax.random.key(i), "raw": jax.random.PRNGKey(i)} for i in range(3)]
    stacked = ptk.stack(keys)
    assert (stacked["k"].shape, stacked["raw"].shape) == ((3,), (3, 2))
    back = ptk.unstack(stacked)
    np.testing.assert_array_equal(
        jax.random.key_data(back[2]["k"]), jax.random.key_data(keys[2]["k"])
    )


def test_abstract_arrays():
    struct = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    assert [ptk.stack([struct] * 2, axis).shape for axis in (0, 1, 2, -1, -2)] == [
        (2, 3, 4), (3, 2, 4), (3, 4, 2), (3, 4, 2), (3, 2, 4)
    ]  # fmt: skip
    assert ptk.unstack(struct, -1) == [jax.ShapeDtypeStruct((3,), jnp.float32)] * 4
    assert ptk.stack([struct, W]) == jax.ShapeDtypeStruct((2, 3, 4), jnp.float32)


def test_sizes_of_zero_and_one():
    assert ptk.stack([jnp.ones(0)] * 2).shape == (2, 0)
    assert ptk.stack([jnp.ones(())]).shape == (1,)
    assert ptk.unstack({"a": jnp.ones((0, 3)), "b": np.ones(0)}) == []
    assert [one.shape for one in ptk.unstack(jnp.ones((2, 0)))] == [(0,), (0,)]


@pytest.mark.parametrize("empty", [None, (), {}, [None, ()]])
def test_trees_without_a_leaf(empty):
    assert ptk.stack([empty, empty]) == empty
    assert codes(ptk.unstack, empty) == ["PTK103"]


def test_any_iterable_of_trees():
    assert ptk.stack(W for _ in range(3)).shape == (3, 3, 4)
    assert ptk.stack((W, W)).shape == (2, 3, 4)


def test_under_transformations():
    def total(trees):
        stacked = ptk.stack(trees)
        return sum(one["w"].sum() * i for i, one in enumerate(ptk.unstack(stacked)))

    trees = [{"w": W}, {"w": 2 * W}]
    gradient = jax.jit(jax.grad(total))(trees)
    assert [one["w"].tolist() for one in gradient] == [(W * 0).tolist(), (W * 0 + 1).tolist()]
    assert jax.vmap(lambda x: ptk.stack([x, x]))(W).shape == (3, 2, 4)
    assert jax.eval_shape(ptk.stack, trees)["w"].shape == (2, 3, 4)


def test_a_list_as_a_batch():
    examples = [{"image": W + i, "label": i} for i in range(6)]
    losses = ptk.vmap(lambda one: one["image"].sum() * one["label"])(ptk.stack(examples))
    assert losses.shape == (6,)


def test_an_ensemble_of_modules_and_its_optimizer_states():
    models = [eqx.nn.MLP(2, 3, 8, 1, key=jax.random.key(i)) for i in range(4)]
    ensemble = ptk.stack(models)
    axes = ptk.axes_like(ensemble, 0)
    outputs = ptk.vmap(lambda model, x: model(x), in_axes=(axes, None))(ensemble, jnp.ones(2))
    np.testing.assert_allclose(outputs[3], models[3](jnp.ones(2)), rtol=1e-6)
    states = ptk.stack([optax.adam(1e-3).init(eqx.filter(m, eqx.is_array)) for m in models])
    assert optax.tree.get(states, "count").shape == (4,)


STYLE = Style(kinds=(*NUMERIC, "key", "abstract"))


@st.composite
def trees(draw):
    return draw_tree(draw, 3, lambda: draw_leaf(draw, STYLE, 2, None))


def described(leaf):
    """The leaf as far as stacking and unstacking keeps it."""
    if isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic):
        leaf = jnp.asarray(leaf)
    if hasattr(leaf, "shape"):
        return leaf.shape, str(leaf.dtype)
    return leaf


@settings(max_examples=60)
@given(trees(), st.integers(1, 3))
def test_any_tree_comes_back(drawn, count):
    tree = build(drawn)
    stacked = ptk.stack([build(drawn) for _ in range(count)])
    assert jax.tree.structure(stacked) == jax.tree.structure(tree)
    arrays = [leaf for leaf in jax.tree.leaves(stacked) if hasattr(leaf, "shape")]
    if arrays:
        back = ptk.unstack(stacked)
        assert len(back) == count
        for one in back:
            ours, theirs = (list(map(described, jax.tree.leaves(its))) for its in (one, tree))
            assert ours == theirs


@settings(max_examples=60)
@given(st.data())
def test_stack_refuses_exactly_what_differs(data):
    drawn = data.draw(trees())
    one, other = build(drawn), build(damaged_spec(data.draw, drawn))
    differences = ptk.diff(one, other)
    if not differences:
        ptk.stack([one, other])
        return
    faults = faults_of(ptk.stack, [one, other])
    assert {fault.code for fault in faults} == {"PTK205"}
    assert sorted(fault.path for fault in faults) == sorted(each.path for each in differences)


# ---- faults -------------------------------------------------------------------------------------


def test_all_differences_of_all_trees_are_told():
    good = {"w": W, "act": "relu"}
    bad = [{"w": W.T, "act": "relu"}, {"w": W.astype(int), "act": "tanh", "b": 1}]
    faults = faults_of(ptk.stack, [good, good, good, *bad])
    assert [(fault.code, fault.place) for fault in faults] == [
        ("PTK205", "trees[3]['w']"),
        ("PTK205", "trees[4]['b']"),
        ("PTK205", "trees[4]['act']"),
        ("PTK205", "trees[4]['w']"),
    ]
    assert (faults[0].found, faults[0].entry) == ("f32[4,3]", "trees[0]['w'] = f32[3,4]")


def test_the_first_tree_may_be_the_odd_one():
    (fault,) = faults_of(ptk.stack, [{"w": W.T}, {"w": W}, {"w": W}])
    assert (fault.place, fault.spec_path) == ("trees[0]['w']", "trees[1]['w']")


def test_at_a_tie_the_first_is_right():
    (fault,) = faults_of(ptk.stack, [{"w": W}, {"w": W.T}])
    assert fault.place == "trees[1]['w']"


def test_trees_that_differ_alike_are_told_once():
    with pytest.raises(ptk.SpecError) as caught:
        ptk.stack([{"a": W, "b": W}] * 33 + [{"a": W.T, "b": W.T}] * 32)
    lines = str(caught.value).splitlines()
    assert len(caught.value.faults) == 64
    assert len(lines) == 5
    assert "x64, first trees[33]['a']" in lines[2]


@pytest.mark.parametrize(
    "wrong", [[], (), {}, {"a": W}, "abc", b"a", W, np.ones(3), 3, None, jnp.tanh, iter([])]
)
def test_what_is_no_list_of_trees(wrong):
    (fault,) = faults_of(ptk.stack, wrong)
    assert (fault.code, fault.argument) == ("PTK001", "trees")


@pytest.mark.parametrize("axis", [None, 1.0, "0", True, np.int64(0)])
def test_an_axis_is_an_int(axis):
    assert codes(ptk.stack, [W], axis) == codes(ptk.unstack, W, axis) == ["PTK001"]


def test_leaves_without_the_axis():
    tree = {"w": W, "b": jnp.ones(3), "s": 1.0, "act": "relu"}
    for axis in (2, -3):
        faults = faults_of(ptk.stack, [tree], axis)
        assert [(f.code, f.path) for f in faults] == [("PTK101", "['b']"), ("PTK101", "['s']")]
    del tree["s"]
    for axis in (1, -2):
        assert [fault.path for fault in faults_of(ptk.unstack, tree, axis)] == ["['b']"]
    assert codes(ptk.unstack, jnp.ones(())) == codes(ptk.unstack, W, -3) == ["PTK101"]


def test_sizes_that_differ_are_told_together():
    tree = {"a": W, "b": jnp.ones(3), "c": jnp.ones(2), "d": np.ones(3), "e": jnp.ones(3), "f": 1}
    with pytest.raises(ptk.SpecError) as caught:
        ptk.unstack(tree)
    assert [(f.code, f.path) for f in caught.value.faults] == [("PTK102", "['c']")]
    assert str(caught.value).splitlines()[3:] == [
        "      tree['a']    f32[3,4]   axis 0 has 3",
        "      tree['b']    f32[3]     axis 0 has 3",
        "      tree['d']    f64[3]     axis 0 has 3",
        "      ... 1 more              have 3",
        "      tree['c']    f32[2]     axis 0 has 2   <- differs",
    ]
    assert [fault.path for fault in faults_of(ptk.unstack, [W, W.T])] == ["[1]"]


def test_a_dict_whose_keys_do_not_sort():
    bad = {"ok": {1: W, "a": W}}
    (fault,) = faults_of(ptk.stack, [{"ok": 1}, bad])
    assert (fault.code, fault.place) == ("PTK104", "trees[1]['ok']")
    assert codes(ptk.unstack, bad) == ["PTK104"]


def test_keys_that_are_not_ascii():
    (fault,) = faults_of(ptk.stack, [{"층": W}, {"층": W.T}])
    assert fault.path == "['층']"
    faults_of(ptk.unstack, {"층": W, "é": W.T})


# ---- work ---------------------------------------------------------------------------------------


def calls_of(work):
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def wide(count):
    return {f"layer{i:05}": {f"w{j}": np.ones(2) for j in range(10)} for i in range(count // 10)}


def test_work_is_in_proportion_to_the_leaves():
    def work(count):
        trees = [wide(count), wide(count)]
        return calls_of(lambda: ptk.unstack(ptk.stack(trees)))

    work(100)
    assert work(2_000) < 15 * work(200)


def test_huge_trees():
    (again,) = ptk.unstack(ptk.stack([wide(50_000)]))
    assert len(jax.tree.leaves(again)) == 50_000
