"""`ptk.diff`: every difference of two trees, by path, and its text."""

from __future__ import annotations

import collections
import cProfile
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

import pytreekit as ptk

from .strategies import Style, damaged_spec, draw_leaf, draw_tree
from .vmap_nodes import Chexed, Keyed, Layer, Module, NeedsArray, Pair, Plain, Point, Struct, build


def found(a, b):
    """The kind and place of each difference."""
    return [(one.kind, one.path) for one in ptk.diff(a, b)]


W = jnp.ones((3, 4))


# ---- leaves -------------------------------------------------------------------------------------

ALIKE = {
    "values of arrays": (jnp.ones(3), jnp.zeros(3)),
    "libraries": (jnp.ones(3), np.ones(3, np.float32)),
    "abstract": (jax.ShapeDtypeStruct((3, 4), jnp.float32), W),
    "scalars": (np.float32(1.0), jnp.zeros(())),
    "numbers": (1.0, 2.0),
    "NaN": (float("nan"), float("nan")),
    "keys": (jax.random.key(0), jax.random.key(1)),
    "functions": (jnp.tanh, jnp.tanh),
    "strings": ("relu", "relu"),
    "nothing": (None, None),
    "arrays of objects": (np.array([None]), np.array([1], object)),
    "sizes of zero": (jnp.ones((0, 3)), jnp.zeros((0, 3))),
}


@pytest.mark.parametrize("name", ALIKE)
def test_leaves_that_are_alike(name):
    one, other = ALIKE[name]
    assert not ptk.diff(one, other)
    assert not ptk.diff({"a": [one]}, {"a": [other]})


UNLIKE = {
    "shape": (W, W.T, ["shape"], "f32[3,4]", "f32[4,3]"),
    "rank": (jnp.ones(()), jnp.ones(1), ["shape"], "f32[]", "f32[1]"),
    "zero": (jnp.ones(0), jnp.ones(1), ["shape"], "f32[0]", "f32[1]"),
    "dtype": (W, W.astype(jnp.bfloat16), ["dtype"], "f32[3,4]", "bf16[3,4]"),
    "both": (W, jnp.ones(3, int), ["shape", "dtype"], "f32[3,4]", "i32[3]"),
    "int and float": (1, 1.0, ["leaf"], "int", "float"),
    "bool and int": (True, 1, ["leaf"], "bool", "int"),
    "number and array": (1.0, jnp.ones(()), ["leaf"], "float", "f32[]"),
    "string and array": ("a", jnp.ones(()), ["leaf"], "'a'", "f32[]"),
    "strings": ("relu", "tanh", ["value"], "'relu'", "'tanh'"),
    "functions": (jnp.tanh, jnp.sin, ["value"], None, None),
    "kinds of key": (
        jax.random.key(0),
        jax.random.key(0, impl="rbg"),
        ["dtype"],
        "key<fry>[]",
        "key<rbg>[]",
    ),
    "masked": (
        np.ma.masked_array(np.ones(2), [0, 1]),
        np.ones(2),
        ["leaf"],
        "masked f64[2]",
        "f64[2]",
    ),
    "leaf and node": (W, [W], ["type"], "f32[3,4]", "list of 1"),
    "leaf and None": (W, None, ["type"], "f32[3,4]", "None"),
    "node and None": ((), None, ["type"], "tuple of 0", "None"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_leaves_that_differ(name):
    one, other, kinds, here, there = UNLIKE[name]
    differences = ptk.diff({"x": one}, {"x": other})
    assert [(each.kind, each.path) for each in differences] == [(kind, "['x']") for kind in kinds]
    assert [each.kind for each in ptk.diff({"x": other}, {"x": one})] == kinds
    if here is not None:
        assert {(each.a, each.b) for each in differences} == {(here, there)}


class Angry:
    """Every question to it is an error."""

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError

    def __getattr__(self, name):
        raise RuntimeError


def test_a_leaf_that_answers_no_question():
    one, other = Angry(), Angry()
    assert not ptk.diff([one], [one])
    assert found([one], [other]) == [("value", "[0]")]
    assert "Angry" in str(ptk.diff([one], [other]))


def test_types_of_one_name_are_told_in_full():
    def made(module):
        return type("Config", (), {"__module__": module})()

    (one,) = ptk.diff(made("old"), made("new"))
    assert (one.kind, one.a, one.b) == ("leaf", "old.Config", "new.Config")


# ---- nodes --------------------------------------------------------------------------------------


def test_the_walk_goes_on_with_what_both_share():
    a = {"same": 1, "only": W, "x": {"w": W, "v": (1, 2)}, "y": [W, W]}
    b = {"same": 1, "x": {"w": W.T, "v": [1, 2.0]}, "y": [W.T], "z": {"q": 1}}
    assert found(a, b) == [
        ("keys", "['only']"),
        ("keys", "['z']"),
        ("type", "['x']['v']"),
        ("leaf", "['x']['v'][1]"),
        ("shape", "['x']['w']"),
        ("length", "['y']"),
        ("shape", "['y'][0]"),
    ]
    first, second, *_ = ptk.diff(a, b)
    assert (first.a, first.b) == ("f32[3,4]", "")
    assert (second.a, second.b) == ("", "dict of 1")


def test_dicts():
    ordered, default = collections.OrderedDict, collections.defaultdict
    assert found({"a": 1, "b": 2}, {"b": 1, "a": 2}) == []
    assert found(ordered(a=1, b=2), ordered(b=1, a=2)) == [("order", "")]
    assert found(ordered(a=1, b=W), ordered(b=W.T, a=2)) == [("order", ""), ("shape", "['b']")]
    assert found({"a": 1}, ordered(a=1)) == [("type", "")]
    assert found({"a": 1, "b": 1}, ordered(a=1)) == [("type", ""), ("keys", "['b']")]
    assert found(default(int, a=1), default(list, a=1)) == [("static", "")]
    assert found(default(int, a=1), default(list, b=1)) == [
        ("static", ""), ("keys", "['a']"), ("keys", "['b']")
    ]  # fmt: skip
    assert found({1: 1}, {"1": 1}) == [("keys", "[1]"), ("keys", "['1']")]
    assert found({}, {"a": 1}) == [("keys", "['a']")]
    assert found({}, {}) == found({}, collections.OrderedDict())[:0] == []


@pytest.mark.parametrize("kind", [Point, Pair, Layer, Chexed, Struct, Module])
def test_nodes_with_fields(kind):
    assert found(kind(p=W, q=1), kind(p=W, q=2)) == []
    assert found(kind(p=W, q=1), kind(p=W.T, q=2.0)) == [("shape", ".p"), ("leaf", ".q")]
    others = {Point, Pair, Layer, Chexed, Struct, Module} - {kind}
    assert all(found(kind(p=1, q=W), other(p=1, q=W.T))[0] == ("type", "") for other in others)


@pytest.mark.parametrize("kind", [Layer, Struct, Module])
def test_static_fields_are_told_by_name(kind):
    (one,) = ptk.diff(kind(p=1, q=1, n="relu"), kind(p=2, q=1, n="tanh"))
    assert (one.kind, one.a, one.b) == ("static", "n='relu'", "n='tanh'")


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_static_data_that_cannot_be_compared():
    one, other = (Layer(p=W, q=1, n=np.arange(size)) for size in (2, 3))
    assert not ptk.diff(one, one)
    (told,) = ptk.diff(one, other)
    assert (told.kind, told.a, told.b) == ("static", "n=i64[2]", "n=i64[3]")


def test_custom_nodes():
    assert found(Keyed((1, W), "k"), Keyed((1, W.T), "k")) == [("shape", ".c1")]
    assert found(Keyed((1,), "k"), Keyed((1,), "other")) == [("static", "")]
    assert found(Keyed((1,), "k"), Keyed((1, 2), "k")) == [("keys", ".c1")]
    assert found(Plain((1,), "k"), Plain((1, 2), "k")) == [("length", "")]
    assert found(NeedsArray(W), NeedsArray(W.T)) == [("shape", "[<flat index 0>]")]


# ---- real trees ---------------------------------------------------------------------------------


def test_optimizer_states():
    params = {"w": W, "b": jnp.ones(3)}
    state = optax.adamw(1e-3).init(params)
    assert not ptk.diff(state, jax.eval_shape(optax.adamw(1e-3).init, params))
    grown = optax.adamw(1e-3).init({**params, "w": jnp.ones((5, 4))})
    assert found(state, grown) == [("shape", "[0].mu['w']"), ("shape", "[0].nu['w']")]
    assert found(state, optax.sgd(1e-3).init(params))[0] == ("length", "")


def test_equinox_modules():
    def made(width, *, bias=True):
        return eqx.nn.MLP(2, 2, width, 1, use_bias=bias, key=jax.random.key(0))

    assert not ptk.diff(made(4), made(4))
    differences = found(made(4), made(8, bias=False))
    assert ("shape", ".layers[0].weight") in differences
    assert ("type", ".layers[0].bias") in differences
    assert ("static", ".layers[1]") in differences


def test_nnx_states():
    def state(width):
        return nnx.state(nnx.Linear(2, width, rngs=nnx.Rngs(0)))

    assert not ptk.diff(state(3), state(3))
    assert {kind for kind, _ in found(state(3), state(4))} == {"shape"}


# ---- any trees ----------------------------------------------------------------------------------

STYLE = Style()


@st.composite
def trees(draw):
    return draw_tree(draw, 3, lambda: draw_leaf(draw, STYLE, 2, None))


@settings(max_examples=60)
@given(trees())
def test_a_tree_does_not_differ_from_its_like(tree):
    assert list(ptk.diff(build(tree), build(tree))) == []


@settings(max_examples=100)
@given(st.data())
def test_a_damaged_tree_differs_as_jax_says(data):
    """Structures as JAX compares them, leaves by shape and dtype, else by `==`."""
    tree = data.draw(trees())
    damage = data.draw(st.sampled_from([damaged_spec, lambda draw, tree: tree]))
    one, other = build(tree), build(damage(data.draw, tree))
    ours = ptk.diff(one, other)
    assert bool(ours) == bool(len(ours)) == bool(ours.differences)
    if jax.tree.structure(one) != jax.tree.structure(other):
        assert ours
    mirrored = ptk.diff(other, one)
    assert len(mirrored) == len(ours)
    assert sorted((d.kind, d.path, d.a, d.b) for d in ours) == sorted(
        (d.kind, d.path, d.b, d.a) for d in mirrored
    )
    assert str(ours).isascii()
    assert max(map(len, str(ours).splitlines())) <= 88


# ---- text ---------------------------------------------------------------------------------------


def test_equal_causes_are_told_once():
    a = [{"w": W, "b": jnp.ones(4)} for _ in range(768)]
    b = [{"w": W.T, "b": jnp.ones(4, int)} for _ in range(768)]
    lines = str(ptk.diff(a, b, names=("old", "new"))).splitlines()
    assert lines == [
        "1,536 differences between old and new",
        "",
        "  dtype   x768, first [0]['b']   old has f32[4]; new has i32[4]",
        "      also [1]['b'], [2]['b'], [3]['b'] and 764 more",
        "  shape   x768, first [0]['w']   old has f32[3,4]; new has f32[4,3]",
        "      also [1]['w'], [2]['w'], [3]['w'] and 764 more",
    ]


def test_at_most_ten_causes_are_told_and_the_rest_counted():
    a, b = ({f"k{i:02}": jnp.ones(i + extra) for i in range(25)} for extra in (0, 1))
    lines = str(ptk.diff(a, b)).splitlines()
    assert len(lines) == 13
    assert lines[-1] == "  ... and 15 more"


def test_no_difference_in_text():
    assert str(ptk.diff(W, W)) == "no differences between a and b"


@pytest.mark.parametrize("key", ["ключ", "層", "e\u0301", "\n", "\x1b[31m", "🙂", "a" * 200])
def test_any_key_is_told_in_ascii(key):
    differences = ptk.diff({key: W}, {key: W.T})
    assert differences.differences[0].path == jax.tree_util.keystr((jax.tree_util.DictKey(key),))
    text = str(differences)
    assert text.isascii()
    assert text.isprintable() or set(text) - set("\n") <= set(map(chr, range(32, 127)))
    assert max(map(len, text.splitlines())) <= 88


def test_differences_are_frozen_data():
    (one,) = ptk.diff(1, 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.path = "x"
    assert one == next(iter(ptk.diff(1, 1.0)))


# ---- misuse -------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["ab", ("a",), ("a", 1), None, ["a", "b", "c"]])
def test_names_are_two_strings(names):
    with pytest.raises(ptk.SpecError, match="PTK001"):
        ptk.diff(1, 2, names=names)


def test_a_dict_whose_keys_do_not_sort():
    with pytest.raises(ptk.SpecError, match="PTK104") as caught:
        ptk.diff({"ok": 1}, {"ok": {1: 2, "a": 3}}, names=("old", "new"))
    assert caught.value.faults[0].place == "new['ok']"


# ---- work ---------------------------------------------------------------------------------------


def wide(count, leaf):
    return {f"layer{i:05}": {f"w{j}": leaf for j in range(10)} for i in range(count // 10)}


def calls_of(work):
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("other", [W + 0, W.T, "text", None])
def test_work_is_in_proportion_to_the_leaves(other):
    def work(count):
        one, two = wide(count, W), wide(count, other)
        return calls_of(lambda: str(ptk.diff(one, two)))

    work(100)
    assert work(2_000) < 15 * work(200)


def test_a_huge_tree():
    one, other = wide(50_000, W), wide(50_000, np.zeros((3, 4), np.float32))
    other["layer04999"] = dict.fromkeys(other["layer04999"], W.T)
    differences = ptk.diff(one, other)
    assert [each.path for each in differences] == [f"['layer04999']['w{j}']" for j in range(10)]
    assert len(str(differences).splitlines()) == 4


def test_a_deep_tree():
    def deep(leaf):
        for _ in range(300):
            leaf = [leaf]
        return leaf

    (one,) = ptk.diff(deep(W), deep(W.T))
    assert one.path == "[0]" * 300
