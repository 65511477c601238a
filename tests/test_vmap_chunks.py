"""`chunk_size`: a batch in chunks is the batch, whatever the axes, sizes and transformation."""

from __future__ import annotations

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import sparse

import pytreekit as ptk

XS = jnp.arange(10.0).reshape(5, 2)
YS = jnp.arange(5, dtype=jnp.int32)


def bits(leaf):
    is_key = jnp.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf


def assert_same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    ours, theirs = jax.tree.map(bits, (ours, theirs))
    jax.tree.map(functools.partial(np.testing.assert_array_equal, strict=True), ours, theirs)


def raised(fun, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return caught.value


# ---- drawn calls --------------------------------------------------------------------------------


def leaf_of(library, dtype, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 - 1
    return (np if library == "np" else jnp).asarray(values.astype(dtype))


def elementwise(tree, extra):
    """Exact in every order of computing; the leaves keep their dtypes, keys their bits."""
    flat = [
        leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) or leaf.dtype == bool else leaf * 2
        for leaf in jax.tree.leaves(tree)
    ]
    return {"leaves": flat, "fixed": jnp.float32(3), "extra": extra}


@st.composite
def chunked_calls(draw):
    """The size, the chunk, leaves with their axes, and where the axis goes in each output."""
    size = draw(st.sampled_from((5, 4, 1, 0, 7, 6)))
    chunk = draw(st.sampled_from((2, 1, 3, 5, 9)))
    leaves, axes, out_axes = [], [], []
    for _ in range(draw(st.integers(1, 3))):
        rank = draw(st.integers(1, 3))
        axis = draw(st.integers(-rank, rank - 1))
        shape = [draw(st.sampled_from((2, 1, 3, 0))) for _ in range(rank)]
        shape[axis] = size
        kind = draw(st.sampled_from(("np", "jnp", "jnp", "key")))
        dtype = draw(st.sampled_from(("float32", "int32", "bool", "float16", "complex64")))
        keyed = kind == "key" and 0 not in shape
        leaves.append(
            jax.random.split(jax.random.key(1), tuple(shape))
            if keyed
            else leaf_of(kind, dtype, tuple(shape))
        )
        axes.append(axis)
        out_axes.append(draw(st.integers(-rank, rank - 1)))
    if draw(st.booleans()):
        leaves, axes, out_axes = (
            (*leaves, XS),
            (*axes, None),
            (*out_axes, draw(st.sampled_from((0, None)))),
        )
    fixed = draw(st.sampled_from((0, -1, None)))
    outputs = {"leaves": list(out_axes), "fixed": fixed, "extra": 0}
    return size, chunk, list(leaves), list(axes), outputs


@settings(max_examples=30)
@given(chunked_calls(), st.booleans())
def test_in_chunks_it_is_the_same_exactly(drawn, remat):
    size, chunk, leaves, axes, out_axes = drawn
    extra = np.arange(size, dtype=np.int32)
    options = {"in_axes": (axes, 0), "out_axes": out_axes}
    mapped = ptk.vmap(elementwise, **options, chunk_size=chunk, remat=remat)
    ours = mapped(leaves, extra)
    assert_same(ours, jax.vmap(elementwise, **options)(leaves, extra))
    assert mapped.check(leaves, extra) == ()
    whole = ptk.vmap(elementwise, **options)
    assert mapped.plan(leaves, extra, outputs=True) == whole.plan(leaves, extra, outputs=True)


# ---- transformations ----------------------------------------------------------------------------


def scaled(w, x):
    return jnp.where(x > 2, x * w, -x)


PLAIN = jax.vmap(scaled, (None, 0))
CHUNKS = [1, 2, 5, 8]


@pytest.fixture(params=CHUNKS)
def mapped(request):
    return ptk.vmap(scaled, (None, 0), chunk_size=request.param)


W = jnp.asarray([2.0, -4.0])


def test_under_jit_and_abstractly(mapped):
    assert_same(jax.jit(mapped)(W, XS), PLAIN(W, XS))
    assert jax.eval_shape(mapped, W, XS) == jax.eval_shape(PLAIN, W, XS)


@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("chunk_size", [2, 5])
def test_gradients_forwards_and_backwards(remat, chunk_size):
    mapped = ptk.vmap(scaled, (None, 0), chunk_size=chunk_size, remat=remat)

    def loss(w, x, fun):
        return fun(w, x).sum()

    for argument in (0, 1):
        grad = jax.grad(loss, argument)
        assert_same(grad(W, XS, mapped), grad(W, XS, PLAIN))
    assert_same(jax.jvp(mapped, (W, XS), (W, XS)), jax.jvp(PLAIN, (W, XS), (W, XS)))
    assert_same(jax.jacrev(mapped)(W, XS), jax.jacrev(PLAIN)(W, XS))


def test_inside_vmap_and_around_it(mapped):
    cube = jnp.arange(30.0).reshape(3, 5, 2)
    expected = jax.vmap(PLAIN, (None, 0))(W, cube)
    assert_same(jax.vmap(mapped, (None, 0))(W, cube), expected)
    assert_same(ptk.vmap(mapped, (None, 0), chunk_size=2)(W, cube), expected)
    assert_same(ptk.vmap(mapped, {"w": None, "x": 1})(W, cube.swapaxes(0, 1)), expected)


def test_inside_scan_and_around_it(mapped):
    def step(carry, w):
        return carry + 1, mapped(w, XS) + carry

    def plain(carry, w):
        return carry + 1, PLAIN(w, XS) + carry

    ws = jnp.stack([W, W * 2])
    assert_same(jax.lax.scan(step, 0.0, ws), jax.lax.scan(plain, 0.0, ws))

    def looped(x):
        return jax.lax.scan(lambda carry, w: (carry + w, carry * x), 0.0, W)

    assert_same(ptk.vmap(looped, chunk_size=2)(XS), jax.vmap(looped)(XS))


def test_calls_of_one_function_with_other_sizes():
    mapped = ptk.vmap(lambda x: x * 2, chunk_size=2)
    for size in (5, 4, 3, 2, 1, 0, 5):
        assert_same(mapped(XS[:size]), XS[:size] * 2)
        assert_same(mapped({"a": XS[:size]}["a"]), XS[:size] * 2)


def test_it_is_one_loop_that_takes_slices_in_place():
    """One scan, whose body sees the size of a chunk; the input is never copied whole."""
    xs = jnp.zeros((3, 9))
    jaxpr = jax.make_jaxpr(ptk.vmap(lambda x: x * 2, in_axes=1, chunk_size=2))(xs)
    names = [str(equation.primitive) for equation in jaxpr.eqns]
    assert names.count("scan") == 1
    assert "transpose" not in names[: names.index("scan")]
    whole = jax.make_jaxpr(ptk.vmap(lambda x: x * 2, chunk_size=9))(xs.T)
    assert "scan" not in str(whole)


# ---- what the function gets and gives -----------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [1, 2, 4, 7])
def test_a_size_alone(chunk_size):
    mapped = ptk.vmap(lambda: (jnp.arange(2.0), 1), axis_size=4, chunk_size=chunk_size)
    assert_same(mapped(), jax.vmap(lambda: (jnp.arange(2.0), 1), axis_size=4)())
    shared = ptk.vmap(lambda x: x, None, (1), axis_size=4, chunk_size=chunk_size)
    assert_same(shared(XS), jax.vmap(lambda x: x, None, 1, axis_size=4)(XS))


@pytest.mark.parametrize("chunk_size", [1, 2, 4, 5])
@pytest.mark.parametrize("out_axes", [(0, None), (-1, None), (1, 0)])
def test_outputs_that_do_not_vary(chunk_size, out_axes):
    def fun(x):
        return x, {"w": W, "n": 3, "none": None}

    mapped = ptk.vmap(fun, out_axes=out_axes, chunk_size=chunk_size)
    assert_same(mapped(XS[:4]), jax.vmap(fun, out_axes=out_axes)(XS[:4]))
    empty = ptk.vmap(lambda x: (None, {}), chunk_size=chunk_size)
    assert empty(XS) == (None, {})


def test_what_is_shared_comes_as_it_is():
    seen = []

    def fun(x, mode, tree):
        seen.append((mode, tree))
        return x

    tree = {"f": jnp.tanh, "a": np.ones(3)}
    for _ in range(2):
        assert_same(ptk.vmap(fun, {"x": 0, ...: None}, chunk_size=2)(XS, mode="a", tree=tree), XS)
    assert all(mode == "a" and its["a"] is tree["a"] for mode, its in seen)
    assert seen


def test_keywords_by_position_and_by_name():
    expected = jax.vmap(lambda x, y: x * y)(XS, YS)
    assert_same(ptk.vmap(lambda x, y: x * y, chunk_size=3)(XS, y=YS), expected)
    by_name = ptk.vmap(lambda x, y: x * y, {"y": 0, "x": -1}, chunk_size=3)
    assert_same(by_name(x=XS.T, y=YS), expected)


def test_keys_in_and_out():
    keys = jax.random.split(jax.random.key(0), (2, 5))

    def fun(key):
        return jax.random.fold_in(key[0], 1), key

    options = {"in_axes": 1, "out_axes": (0, -1)}
    assert_same(ptk.vmap(fun, **options, chunk_size=2)(keys), jax.vmap(fun, **options)(keys))


def test_split_goes_with_it():
    def fun(x, key):
        return x, jax.random.key_data(key)

    mapped = ptk.vmap(fun, (1, ptk.SPLIT), (1, -1), chunk_size=2)
    keys = jax.random.split(jax.random.key(0), 5)
    assert_same(mapped(XS.T, jax.random.key(0)), jax.vmap(fun, (1, 0), (1, -1))(XS.T, keys))


def test_what_has_no_slices_is_told():
    """A slice of a Ref would be a copy, to which writes are lost; a matrix of BCOO has none."""
    ref = jax.new_ref(jnp.zeros((4, 2)))
    matrix = sparse.BCOO.fromdense(jnp.ones((4, 3)), n_batch=1)
    for fun, args in (lambda r, x: r[...] + x, (ref, XS[:4])), (lambda m: m.todense(), (matrix,)):
        mapped = ptk.vmap(fun, chunk_size=2)
        error = raised(mapped, *args)
        assert [fault.code for fault in error.faults] == ["PTK104"]
        assert error.faults == mapped.check(*args)
        ptk.vmap(fun)(*args)


def test_a_sparse_output_is_told():
    mapped = ptk.vmap(lambda x: {"a": x, "b": sparse.BCOO.fromdense(x, nse=3)}, chunk_size=2)
    (fault,) = raised(mapped, jnp.ones((4, 3))).faults
    assert (fault.code, fault.place) == ("PTK108", "out['b']")
    assert "cannot be put together from chunks" in fault.title
    assert ptk.vmap(lambda x: sparse.BCOO.fromdense(x, nse=3))(jnp.ones((4, 3))).shape == (4, 3)


def test_a_shared_ref_is_read():
    ref = jax.new_ref(W)
    mapped = ptk.vmap(lambda r, x: r[...] * x, (None, 0), chunk_size=2)
    assert_same(mapped(ref, XS), XS * W)


# ---- faults -------------------------------------------------------------------------------------


FAULTY = {
    "no such axis": (scaled, (None, 2), 0, (W, XS), "PTK101"),
    "a float is mapped": (scaled, 0, 0, (2.0, XS), "PTK101"),
    "sizes": (lambda x, y: x, 0, 0, (XS, YS[:3]), "PTK102"),
    "a text is mapped": (lambda x, y: x, 0, 0, (XS, "relu"), "PTK104"),
    "text in an array": (lambda x, y: x, 0, 0, (XS, np.array(["a"] * 5)), "PTK104"),
    "what varies under none": (lambda x: {"a": x, "b": 1}, 0, {"a": None, "b": 0}, (XS,), "PTK108"),
    "an axis that is not there": (lambda x: (x, x[0]), 0, (2, 1), (XS,), "PTK108"),
    "below zero": (lambda x: x, 0, -3, (XS,), "PTK108"),
    "a text": (lambda x: (x, "a"), 0, 0, (XS,), "PTK108"),
    "other keys": (lambda x: {"a": x}, 0, {"b": 0}, (XS,), "PTK201"),
    "entries": (lambda x: (x, x), 0, (0, 0, 0), (XS,), "PTK203"),
    "nothing mapped": (lambda x: x, None, 0, (XS,), "PTK103"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_those_of_the_whole_batch(name):
    fun, in_axes, out_axes, args, code = FAULTY[name]
    expected = raised(ptk.vmap(fun, in_axes, out_axes), *args)
    mapped = ptk.vmap(fun, in_axes, out_axes, chunk_size=2)
    for _ in range(2):
        error = raised(mapped, *args)
        assert code in {fault.code for fault in error.faults}
        assert str(error) == str(expected)
        assert error.repaired == expected.repaired


def test_what_the_function_raises_is_its_own():
    class OwnError(Exception):
        pass

    def fun(x):
        raise OwnError

    for size in (1, 5):
        with pytest.raises(OwnError):
            ptk.vmap(fun, chunk_size=2)(XS[:size])

    def fails_on_what_is_left(x):
        if len(sizes) == 1:
            raise OwnError
        sizes.append(1)
        return x

    sizes: list[int] = []
    with pytest.raises(OwnError):
        ptk.vmap(fails_on_what_is_left, chunk_size=2)(XS)


@pytest.mark.parametrize("chunk_size", [0, -1, True, False, 2.0, np.int64(2), "3", (2,)])
@pytest.mark.parametrize("checks", [True, False])
def test_a_chunk_of_no_size(chunk_size, checks):
    error = raised(ptk.vmap, scaled, chunk_size=chunk_size, checks=checks)
    assert [fault.code for fault in error.faults] == ["PTK001"]
    assert "chunk_size" in str(error)


def test_an_axis_name_does_not_go_with_chunks():
    for checks in (True, False):
        error = raised(ptk.vmap, scaled, axis_name="i", chunk_size=2, checks=checks)
        assert [fault.code for fault in error.faults] == ["PTK110"]
    error = raised(ptk.vmap, scaled, (0, 1.5), axis_name="i", chunk_size=2)
    assert [fault.code for fault in error.faults] == ["PTK107", "PTK110"]


# ---- copies, no checks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda fun: pickle.loads(pickle.dumps(fun))]
)
@pytest.mark.parametrize("checks", [True, False])
def test_copies(copied, checks):
    mapped = ptk.vmap(scaled, (None, 1), 1, chunk_size=2, remat=True, checks=checks)
    twin = copied(mapped)
    assert_same(twin(W, XS.T), jax.vmap(scaled, (None, 1), 1)(W, XS.T))
    assert "scan" in str(jax.make_jaxpr(twin)(W, XS.T))
    assert twin.check(W, 2.0) == mapped.check(W, 2.0) != ()
