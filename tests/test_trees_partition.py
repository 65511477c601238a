"""`ptk.partition`, `ptk.combine` and `ptk.axes_like`: trees split and put together."""

from __future__ import annotations

import collections
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

from .strategies import Style, draw_leaf, draw_tree
from .vmap_nodes import Keyed, Layer, Pair, Plain, build, is_array

W = jnp.ones((3, 4))
MODEL = {"encoder": {"w": W, "b": 1.0}, "act": "relu", "head": [W, None]}


def faults_of(call, *args):
    with pytest.raises(ptk.SpecError) as caught:
        call(*args)
    assert str(caught.value).isascii()
    assert max(map(len, str(caught.value).splitlines())) <= 88
    return caught.value.faults


def codes(call, *args):
    return [fault.code for fault in faults_of(call, *args)]


def identical(one, other):
    """Whether two trees hold the very same leaves."""
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    return jax.tree.structure(one) == jax.tree.structure(other) and all(map(_is, leaves, others))


def _is(one, other):
    return one is other


# ---- partition ----------------------------------------------------------------------------------


def test_by_a_function():
    arrays, rest = ptk.partition(MODEL, eqx.is_array)
    assert arrays == {"encoder": {"w": W, "b": None}, "act": None, "head": [W, None]}
    assert rest == {"encoder": {"w": None, "b": 1.0}, "act": "relu", "head": [None, None]}


@pytest.mark.parametrize(
    "mask",
    [
        {"encoder": True, "act": False, "head": False},
        {"encoder": {"w": True, "b": True}, "act": False, "head": [False, None]},
        {"encoder": True, ...: False},
        {"encoder": lambda leaf: True, ...: np.bool_(0)},
        {"encoder": {"w": eqx.is_array, ...: True}, ...: False},
    ],
)
def test_by_a_mask(mask):
    chosen, rest = ptk.partition(MODEL, mask)
    assert identical(chosen, {"encoder": MODEL["encoder"], "act": None, "head": [None, None]})
    assert identical(rest, {"encoder": {"w": None, "b": None}, "act": "relu", "head": [W, None]})


@pytest.mark.parametrize("mask", [True, False])
def test_all_or_nothing(mask):
    parts = ptk.partition(MODEL, mask)
    assert identical(parts[not mask], MODEL)
    assert jax.tree.leaves(parts[mask]) == []


def test_a_module_that_can_be_called_is_a_mask():
    model = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))
    mask = jax.tree.map(lambda _: False, model)
    mask = eqx.tree_at(lambda m: m.layers[-1].weight, mask, replace=True)
    trained, frozen = ptk.partition(model, mask)
    assert jax.tree.leaves(trained) == [model.layers[-1].weight]
    assert frozen.layers[-1].weight is None
    arrays, static = ptk.partition(model, eqx.is_array)
    theirs = eqx.partition(model, eqx.is_array)
    assert identical(arrays, theirs[0])
    assert identical(static, theirs[1])

    @jax.grad
    def gradient(arrays):
        return ptk.combine(arrays, static)(jnp.ones(2)).sum()

    assert jax.tree.structure(gradient(arrays)) == jax.tree.structure(arrays)


@pytest.mark.parametrize("tree", [None, (), {}, [None, {}]])
def test_trees_without_a_leaf(tree):
    for where in (True, None, lambda leaf: 1 / 0):
        assert ptk.partition(tree, where) == (tree, tree)
    assert ptk.combine(tree, tree) == ptk.combine(tree) == tree
    assert ptk.axes_like(tree, 0) == tree


def test_a_mask_that_does_not_fit():
    faults = faults_of(ptk.partition, MODEL, {"encoder": {"w": True}, "act": True, "heads": False})
    assert {fault.code for fault in faults} == {"PTK201"}
    assert {fault.place for fault in faults} == {"tree", "tree['encoder']['b']", "tree['head']"}
    assert codes(ptk.partition, [W, W], (True, False)) == ["PTK202"]
    assert codes(ptk.partition, [W, W], [True]) == ["PTK203"]
    assert codes(ptk.partition, Layer(W, W), Layer(True, True, n=9)) == ["PTK204"]


@pytest.mark.parametrize("said", [None, 1, "yes", 0.0, W, jnp.ones((), bool)])
def test_a_choice_is_a_bool(said):
    (fault,) = faults_of(ptk.partition, {"층": W}, {"층": said})
    assert (fault.code, fault.place) == ("PTK001", "tree['층']")
    faults = faults_of(ptk.partition, MODEL, lambda leaf: said)
    assert [fault.code for fault in faults] == ["PTK001"] * 4
    assert codes(ptk.axes_like, {"a": W}, 0, {"a": said}) == ["PTK001"]


def test_the_error_of_a_predicate_is_the_users():
    with pytest.raises(ZeroDivisionError):
        ptk.partition(MODEL, lambda leaf: 1 / 0)


def test_a_dict_whose_keys_do_not_sort():
    bad = {1: W, "a": W}
    assert codes(ptk.partition, bad, True) == ["PTK104"]
    assert codes(ptk.combine, bad, bad) == ["PTK104", "PTK104"]
    assert set(codes(ptk.combine, bad, {"a": 1})) == {"PTK104"}
    assert set(codes(ptk.axes_like, bad, 0)) == {"PTK104"}
    assert set(codes(ptk.partition, [W], [bad])) == {"PTK104"}


# ---- combine ------------------------------------------------------------------------------------


def test_three_parts_in_any_order():
    arrays, rest = ptk.partition(MODEL, eqx.is_array)
    text, numbers = ptk.partition(rest, lambda leaf: isinstance(leaf, str))
    for parts in ((arrays, text, numbers), (numbers, arrays, text), (text, None, numbers, arrays)):
        assert identical(ptk.combine(*parts), MODEL)


def test_none_stands_for_a_whole_subtree():
    assert ptk.combine({"a": None, "b": 2}, {"a": {"x": [1]}, "b": None}) == {
        "a": {"x": [1]},
        "b": 2,
    }
    assert ptk.combine({"a": {"x": [1]}, "b": None}, {"a": None, "b": 2})["a"] == {"x": [1]}
    assert ptk.combine(None, MODEL) is MODEL
    assert ptk.combine(None, None) is None


def test_odd_containers_come_back_as_they_are():
    tree = [
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(list, a=3),
        Pair(4, Keyed((5, None), "k")),
        Plain((6, ()), "p"),
        Layer(7, 8, n="relu"),
    ]
    again = ptk.combine(*ptk.partition(tree, lambda leaf: leaf % 2 == 0))
    assert identical(again, tree)
    assert list(again[0]) == ["b", "a"]


def test_two_leaves_at_one_place():
    faults = faults_of(ptk.combine, {"a": W, "b": None}, {"a": 1, "b": 2}, {"a": None, "b": 3})
    assert [(fault.code, fault.place, fault.spec_path) for fault in faults] == [
        ("PTK205", "trees[1]['a']", "trees[0]['a']"),
        ("PTK205", "trees[2]['b']", "trees[1]['b']"),
    ]


def test_nodes_that_differ_and_what_lies_below_them():
    faults = faults_of(
        ptk.combine,
        {"a": {"x": 1, "y": None}, "b": [1, None]},
        {"a": {"x": 2, "z": None}, "b": (None, 2)},
        {"a": None, "b": [1, 3]},
    )
    assert [(fault.place, fault.found) for fault in faults] == [
        ("trees[1]['a']['y']", ""),
        ("trees[1]['a']['z']", "None"),
        ("trees[1]['a']['x']", "int"),
        ("trees[1]['b']", "tuple of 2"),
        ("trees[2]['b'][0]", "int"),
    ]


def test_a_leaf_where_another_has_a_node():
    assert codes(ptk.combine, {"a": 1}, {"a": [1]}) == ["PTK205"]
    assert codes(ptk.combine, {"a": []}, {"a": 1}) == ["PTK205"]


def test_nothing_to_combine():
    assert codes(ptk.combine) == ["PTK001"]


def test_optimizer_states():
    state = optax.adamw(1e-3).init({"w": W, "b": jnp.ones(3)})
    small, large = ptk.partition(state, lambda leaf: leaf.size < 4)
    assert len(jax.tree.leaves(small)) == 3
    assert identical(ptk.combine(small, large), state)


@st.composite
def trees(draw):
    return build(draw_tree(draw, 3, lambda: draw_leaf(draw, Style(), 2, None)))


@settings(max_examples=60)
@given(trees(), st.data())
def test_any_tree_comes_back(tree, data):
    count = len(jax.tree.leaves(tree))
    choices = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    mask = jax.tree.structure(tree).unflatten(choices)
    chosen, rest = ptk.partition(tree, mask)
    theirs = eqx.partition(tree, mask)
    assert identical(chosen, theirs[0])
    assert identical(rest, theirs[1])
    assert identical(ptk.combine(chosen, rest), tree)
    assert identical(ptk.combine(rest, chosen), tree)
    assert identical(ptk.partition(tree, is_array)[0], eqx.partition(tree, is_array)[0])


# ---- axes_like ----------------------------------------------------------------------------------


def test_arrays_are_chosen_by_default():
    tree = {
        "jax": W, "numpy": np.ones(2), "scalar": np.float32(1), "key": jax.random.key(0),
        "abstract": jax.ShapeDtypeStruct((2,), int), "number": 1.0, "text": "a", "none": None,
        "fun": jnp.tanh, "np text": np.str_("a"),
    }  # fmt: skip
    axes = ptk.axes_like(tree, -1)
    assert axes == dict.fromkeys(tree) | dict.fromkeys(
        ["jax", "numpy", "scalar", "key", "abstract"], -1
    )


def test_the_axes_are_those_of_a_vmap():
    model = {"w": jnp.ones((5, 3, 4)), "act": jnp.tanh, "b": jnp.ones((5, 3))}
    axes = ptk.axes_like(model, 0)
    outputs = ptk.vmap(lambda m, x: m["act"](m["w"] @ x + m["b"]), in_axes=(axes, None))
    assert outputs(model, jnp.ones(4)).shape == (5, 3)
    shared_bias = ptk.axes_like(model, 0, {"w": True, ...: False})
    assert shared_bias == {"w": 0, "act": None, "b": None}
    matrices = ptk.axes_like(model, 1, lambda leaf: is_array(leaf) and leaf.ndim > 1)
    assert matrices == {"w": 1, "act": None, "b": 1}
    assert ptk.axes_like(model, None) == dict.fromkeys(model)


@pytest.mark.parametrize("axis", [True, 1.0, "0", np.int64(0), (0,)])
def test_an_axis_is_an_int_or_none(axis):
    assert codes(ptk.axes_like, MODEL, axis) == ["PTK107"]


@settings(max_examples=40)
@given(trees())
def test_the_axes_have_the_structure_of_the_tree(tree):
    axes = ptk.axes_like(tree, 7, lambda leaf: True)
    assert jax.tree.structure(axes) == jax.tree.structure(tree)
    assert set(jax.tree.leaves(axes)) <= {7}


# ---- work ---------------------------------------------------------------------------------------


def calls_of(work):
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def wide(count, leaf):
    return {f"layer{i:05}": {f"w{j}": leaf for j in range(10)} for i in range(count // 10)}


@pytest.mark.parametrize("prefix", [True, False])
def test_work_is_in_proportion_to_the_leaves(prefix):
    def work(count):
        tree, where = wide(count, W), is_array if prefix else wide(count, leaf=True)
        return calls_of(lambda: ptk.combine(*ptk.partition(tree, where)))

    work(100)
    assert work(2_000) < 15 * work(200)


def test_a_huge_tree():
    tree = wide(50_000, W)
    assert identical(ptk.combine(*ptk.partition(tree, is_array)), tree)


def test_a_deep_tree():
    tree = [1, "a"]
    for _ in range(300):
        tree = [tree]
    assert identical(ptk.combine(*ptk.partition(tree, lambda leaf: leaf == 1)), tree)
