"""`ptk.SPLIT`: one key for each example, the keys of `jax.random.split`."""

from __future__ import annotations

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

XS = jnp.arange(6.0).reshape(3, 2)
KEYS = {
    "typed": jax.random.key,
    "raw": jax.random.PRNGKey,
    "rbg": functools.partial(jax.random.key, impl="rbg"),
}

pytestmark = pytest.mark.parametrize("kind", KEYS)
copies = pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda its: pickle.loads(pickle.dumps(its))]
)


def assert_same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(functools.partial(np.testing.assert_array_equal, strict=True), ours, theirs)


def raised(fun, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return caught.value


def words(key):
    """The words of one key, as a number that tells keys apart exactly.

    Not a random number: under rbg, those depend on what is batched with what.
    """
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return (data[-2:] % 4096).astype(jnp.float32)


def noisy(x, key):
    return x + words(key)


FORMS = {
    "positional": {"in_axes": (0, ptk.SPLIT)},
    "by name": {"in_axes": {"x": 0, "key": ptk.SPLIT}},
    "the rest": {"in_axes": {"x": 0, ...: ptk.SPLIT}},
    "with a size": {"in_axes": (0, ptk.SPLIT), "axis_size": 3},
    "a size of numpy": {"in_axes": (0, ptk.SPLIT), "axis_size": np.int64(3)},
    "x shared": {"in_axes": (None, ptk.SPLIT), "axis_size": 3},
    "axis -2": {"in_axes": (-2, ptk.SPLIT)},
    "in chunks": {"in_axes": (0, ptk.SPLIT), "chunk_size": 2},
    "one by one": {"in_axes": (0, ptk.SPLIT), "chunk_size": 1},
    "unchecked": {"in_axes": (0, ptk.SPLIT), "checks": False},
    "named axis": {"in_axes": (0, ptk.SPLIT), "axis_name": "i"},
}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_vmap_over_split_keys(kind, form):
    key, options = KEYS[kind](1), FORMS[form]
    axis = None if form == "x shared" else 0
    expected = jax.vmap(noisy, in_axes=(axis, 0))(XS, jax.random.split(key, 3))
    mapped = ptk.vmap(noisy, **options)
    assert_same(mapped(XS, key), expected)
    assert mapped.check(XS, key) == ()


@pytest.mark.parametrize(("size", "chunk_size"), [(0, None), (0, 3), (1, None), (4, 3)])
def test_alone_it_takes_the_size_from_axis_size(kind, size, chunk_size):
    key = KEYS[kind](2)
    expected = jax.vmap(words)(jax.random.split(key, size))
    for in_axes in (ptk.SPLIT, (ptk.SPLIT,), {"key": ptk.SPLIT}):
        mapped = ptk.vmap(words, in_axes=in_axes, axis_size=size, chunk_size=chunk_size)
        assert_same(mapped(key), expected)
    assert_same(jax.jit(mapped)(key), expected)
    plan = mapped.plan(key, outputs=True)
    assert (plan.axis_size, plan.leaves[0].axis) == (size, ptk.SPLIT)
    assert plan.outputs[0].found == f"f32[{size},2]"
    assert plan.outputs[0].varies


def test_alone_without_a_size_it_is_told(kind):
    error = raised(ptk.vmap(words, in_axes=ptk.SPLIT), KEYS[kind](0))
    assert [fault.code for fault in error.faults] == ["PTK103"]
    assert "axis_size=N" in error.faults[0].hint


def test_several_in_trees(kind):
    make = KEYS[kind]
    tree = {"dropout": make(0), "noise": [make(1), (make(2),)], "none": None}
    x = {"a": XS, "rng": make(3)}

    def fun(tree, x):
        keys = [*jax.tree.leaves(tree), x["rng"]]
        return sum(words(key) for key in keys) + x["a"]

    def split(key):
        return jax.random.split(key, 3)

    mapped = ptk.vmap(fun, in_axes=(ptk.SPLIT, {"rng": ptk.SPLIT, ...: 0}))
    expected = jax.vmap(fun)(jax.tree.map(split, tree), {"a": XS, "rng": split(x["rng"])})
    assert_same(mapped(tree, x), expected)
    in_chunks = ptk.vmap(fun, in_axes=(ptk.SPLIT, {"rng": ptk.SPLIT, "a": 0}), chunk_size=2)
    assert_same(in_chunks(tree, x), expected)


def test_nested(kind):
    key = KEYS[kind](5)
    inner = ptk.vmap(noisy, in_axes=(0, ptk.SPLIT))
    outer = ptk.vmap(inner, in_axes={"x": 0, "key": ptk.SPLIT})
    cube = jnp.zeros((4, 3, 2))

    def plain(x, key):
        return jax.vmap(noisy)(x, jax.random.split(key, 3))

    expected = jax.vmap(plain)(cube, jax.random.split(key, 4))
    assert_same(outer(cube, key), expected)
    assert_same(ptk.vmap(inner, in_axes=(0, ptk.SPLIT), chunk_size=3)(cube, key), expected)
    shared = jax.vmap(plain, in_axes=(0, None))(cube, key)
    assert_same(ptk.vmap(inner, in_axes=(0, None))(cube, key), shared)


def test_the_same_key_for_an_example_whatever_the_chunk(kind):
    key, xs = KEYS[kind](7), jnp.zeros((11, 2))
    expected = ptk.vmap(noisy, in_axes=(0, ptk.SPLIT))(xs, key)
    for chunk_size in (4, 12):
        mapped = ptk.vmap(noisy, in_axes=(0, ptk.SPLIT), chunk_size=chunk_size)
        assert_same(mapped(xs, key), expected)


def test_grad_goes_through(kind):
    key = KEYS[kind](3)

    def loss(xs, mapped, keys):
        return mapped(xs, keys).sum()

    for chunk_size in (None, 2):
        mapped = ptk.vmap(lambda x, k: x * words(k), in_axes=(0, ptk.SPLIT), chunk_size=chunk_size)
        split = jax.random.split(key, 3)
        assert_same(jax.grad(loss)(XS, mapped, key), jax.vmap(words)(split))


NO_KEYS = {
    "floats": lambda key: jnp.zeros(2),
    "a scalar": lambda key: jnp.uint32(3),
    "an int": lambda key: 7,
    "a string": lambda key: "key",
    "split already": lambda key: jax.random.split(key, 3),
    "three words": lambda key: jnp.zeros(3, jnp.uint32),
    "four words": lambda key: jnp.zeros(4, jnp.uint32),  # a raw key of another generator
    "signed words": lambda key: jnp.zeros(2, jnp.int32),
}


@pytest.mark.parametrize("name", NO_KEYS)
def test_what_is_no_key_is_told(kind, name):
    entered = []

    def fun(x, key):
        entered.append(1)
        return x

    args = XS, {"rng": [NO_KEYS[name](KEYS[kind](0))]}
    mapped = ptk.vmap(fun, in_axes=(0, ptk.SPLIT))
    error = raised(mapped, *args)
    assert [(its.code, its.place) for its in error.faults] == [("PTK104", "key['rng'][0]")]
    assert error.faults == mapped.check(*args) == raised(mapped.plan, *args).faults
    assert not entered
    repaired = ptk.vmap(fun, in_axes=error.repaired)
    assert_same(repaired(*args), XS)


def test_other_faults_are_told_beside_it(kind):
    error = raised(ptk.vmap(noisy, in_axes=(5, ptk.SPLIT)), XS, KEYS[kind](0))
    assert [(fault.code, fault.place) for fault in error.faults] == [("PTK101", "x")]
    error = raised(ptk.vmap(noisy, in_axes=(0, ptk.SPLIT), axis_size=4), XS, KEYS[kind](0))
    assert [(fault.code, fault.place) for fault in error.faults] == [("PTK102", "x")]
    error = raised(ptk.vmap(noisy, in_axes=(0, ptk.SPLIT), out_axes=None), XS, KEYS[kind](0))
    assert [fault.code for fault in error.faults] == ["PTK108"]


@pytest.mark.filterwarnings("ignore::pytreekit.SpecWarning")
def test_a_size_that_jax_takes_though_it_is_no_int(kind):
    key = KEYS[kind](0)
    mapped = ptk.vmap(noisy, in_axes=(0, ptk.SPLIT), axis_size=3.0)
    assert_same(mapped(XS, key), jax.vmap(noisy)(XS, jax.random.split(key, 3)))


def test_abstract_keys_are_planned(kind):
    key = jax.eval_shape(lambda: KEYS[kind](0))
    plan = ptk.vmap(noisy, in_axes=(0, ptk.SPLIT)).plan(XS, key, outputs=True)
    assert [leaf.axis for leaf in plan.leaves] == [0, ptk.SPLIT]
    assert [(out.found, out.varies) for out in plan.outputs] == [("f32[3,2]", True)]
    assert "split" in str(plan)


@copies
def test_copies(kind, copied):
    assert copied(ptk.SPLIT) is ptk.SPLIT
    mapped = ptk.vmap(noisy, in_axes={"x": 0, "key": ptk.SPLIT})
    assert_same(copied(mapped)(XS, KEYS[kind](0)), mapped(XS, KEYS[kind](0)))


def test_calling_does_not_split_the_key_of_the_caller(kind):
    tree = {"key": KEYS[kind](0)}
    before = jax.random.key_data(tree["key"])
    ptk.vmap(lambda t: words(t["key"]), in_axes=ptk.SPLIT, axis_size=3)(tree)
    assert_same(jax.random.key_data(tree["key"]), before)
