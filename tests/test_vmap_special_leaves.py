"""ptk.vmap over leaves that JAX treats apart: sharded arrays, references, sparse matrices, keys."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import pytreekit as ptk

P = PartitionSpec


def verdict(vmap, fun, args, **options):
    """What jax.typeof says of the result, or None for a rejected call."""
    refusal = ptk.SpecError if vmap is ptk.vmap else Exception
    try:
        return jax.tree.map(lambda leaf: str(jax.typeof(leaf)), vmap(fun, **options)(*args))
    except refusal:
        return None


# ---- meshes -------------------------------------------------------------------------------------


def mesh_of(kind):
    return jax.make_mesh((4, 2), ("dp", "tp"), axis_types=(kind,) * 2)


def placed(mesh, shape, *spec):
    return jax.device_put(
        jnp.arange(float(np.prod(shape))).reshape(shape), NamedSharding(mesh, P(*spec))
    )


@pytest.mark.parametrize("name", ["dp", ("dp",), "tp"])
def test_spmd_axis_name(name):
    mesh = mesh_of(AxisType.Auto)
    inner = "tp" if name != "tp" else "dp"

    def fun(x):
        return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P(inner)))

    x = jnp.arange(32.0).reshape(8, 4)
    texts = [
        str(jax.make_jaxpr(vmap(fun, spmd_axis_name=name))(x)) for vmap in (ptk.vmap, jax.vmap)
    ]
    assert texts[0] == texts[1]
    assert "dp" in texts[0].split("spec=")[1]
    ours, theirs = (jax.jit(vmap(fun, spmd_axis_name=name))(x) for vmap in (ptk.vmap, jax.vmap))
    np.testing.assert_array_equal(ours, theirs)
    assert ours.sharding == theirs.sharding


def test_spmd_axis_name_with_shared_arguments():
    mesh = mesh_of(AxisType.Auto)

    def fun(w, x):
        return jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("tp")))

    args = jnp.ones((4, 4)), jnp.ones((8, 4))
    ours, theirs = (
        str(jax.make_jaxpr(vmap(fun, in_axes=(None, 0), spmd_axis_name="dp"))(*args))
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs


EXPLICIT = {  # arguments (shape and spec each, or a plain value), in_axes, whether JAX accepts
    "mapped and replicated": ((((8, 4), "dp"), ((4, 4),)), (0, None), True),
    "mapped and sharded on another axis": ((((8, 4), "dp"), ((4, 4), "tp")), (0, None), True),
    "mapped and sharded on the mapped axis": ((((8, 4), "dp"), ((4, 4), "dp")), (0, None), False),
    "mapped and not placed": ((((8, 4), "dp"), np.ones((4, 4), np.float32)), (0, None), True),
    "mapped and a number": ((((8, 4), "dp"), 2.0), (0, None), True),
    "mapped and text": ((((8, 4), "dp"), "relu"), (0, None), False),
    "two sharded alike": ((((8, 4), "dp"), ((8, 4), "dp", "tp")), (0, 0), True),
    "one sharded, one not": ((((8, 4), "dp"), ((8, 4),)), (0, 0), False),
    "one sharded, one not placed": ((((8, 4), "dp"), np.ones((8, 4), np.float32)), (0, 0), False),
    "sharded over two axes": ((((8, 4), "dp"), ((4, 8), "tp", "dp")), (0, 1), True),
    "mapped axis not sharded": ((((8, 4), None, "tp"), ((4, 4), "dp")), (0, None), True),
    "nothing sharded": ((((8, 4),), ((4, 4),)), (0, None), True),
}


def first_times_two(x, other):
    return x * 2 if isinstance(other, str) or np.ndim(other) == 1 else x * 2 + jnp.sum(other)


@pytest.mark.parametrize("in_context", [True, False])
@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_mesh(name, in_context):
    specs, in_axes, accepted = EXPLICIT[name]
    mesh = mesh_of(AxisType.Explicit)
    args = [placed(mesh, *spec) if isinstance(spec, tuple) else spec for spec in specs]
    with jax.set_mesh(mesh) if in_context else contextlib.nullcontext():
        ours, theirs = (
            verdict(vmap, first_times_two, args, in_axes=in_axes) for vmap in (ptk.vmap, jax.vmap)
        )
        assert (theirs is not None) == accepted
        assert ours == theirs
        if accepted and not isinstance(args[1], str):
            texts = [
                str(jax.make_jaxpr(vmap(first_times_two, in_axes=in_axes))(*args))
                for vmap in (ptk.vmap, jax.vmap)
            ]
            assert texts[0] == texts[1]


@pytest.mark.parametrize("name", EXPLICIT)
def test_explicit_mesh_is_checked_before_the_function_is_entered(name):
    specs, in_axes, accepted = EXPLICIT[name]
    mesh = mesh_of(AxisType.Explicit)
    args = [placed(mesh, *spec) if isinstance(spec, tuple) else spec for spec in specs]
    entered = []
    mapped = ptk.vmap(lambda *_: entered.append(1), in_axes=in_axes)
    assert bool(mapped.check(*args)) != accepted
    assert not entered


@pytest.mark.parametrize(("name", "accepted"), [("dp", True), ("tp", False)])
def test_spmd_axis_name_beside_an_explicit_mesh(name, accepted):
    mesh = mesh_of(AxisType.Explicit)
    args = [placed(mesh, (8, 4), "dp")] * 2
    with jax.set_mesh(mesh):
        ours, theirs = (
            verdict(vmap, jnp.add, args, spmd_axis_name=name) for vmap in (ptk.vmap, jax.vmap)
        )
    assert ours == theirs
    assert (theirs is not None) == accepted


def test_explicit_mesh_under_jit_and_grad():
    mesh = mesh_of(AxisType.Explicit)
    w, x = placed(mesh, (4, 4)), placed(mesh, (8, 4), "dp")

    def make(vmap):
        def total(w, x):
            return vmap(lambda w, x: jnp.sum(jnp.sin(x) @ w), in_axes=(None, 0))(w, x).sum()

        return jax.jit(jax.value_and_grad(total))

    with jax.set_mesh(mesh):
        ours, theirs = make(ptk.vmap)(w, x), make(jax.vmap)(w, x)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert jax.tree.map(jax.typeof, ours) == jax.tree.map(jax.typeof, theirs)


# ---- references ---------------------------------------------------------------------------------


def add_to(ref, x):
    ref[...] = ref[...] + x
    return ref[...] * 2


def test_mapped_reference():
    results = []
    for vmap in (ptk.vmap, jax.vmap):
        ref = jax.new_ref(jnp.zeros(3))
        out = vmap(add_to)(ref, jnp.arange(3.0))
        results.append((out, ref[...]))
    jax.tree.map(np.testing.assert_array_equal, *results)
    np.testing.assert_array_equal(results[0][1], jnp.arange(3.0))


def test_shared_reference_is_read():
    def make(vmap):
        def fun(x):
            return vmap(lambda r, x: r[...] + x, in_axes=(None, 0))(jax.new_ref(x), x)

        return jax.jit(fun)

    x = jnp.arange(3.0)
    np.testing.assert_array_equal(make(ptk.vmap)(x), make(jax.vmap)(x))
    assert str(jax.make_jaxpr(make(ptk.vmap))(x)) == str(jax.make_jaxpr(make(jax.vmap))(x))


def test_references_inside_trees_under_jit():
    def make(vmap):
        def fun(x):
            state = {"sum": jax.new_ref(jnp.zeros(3)), "w": jax.new_ref(jnp.float32(2))}

            def step(state, x):
                state["sum"][...] += x * state["w"][...]
                return x

            vmap(step, in_axes=({"sum": 0, "w": None}, 0))(state, x)
            return state["sum"][...]

        return jax.jit(fun)

    x = jnp.arange(3.0)
    np.testing.assert_array_equal(make(ptk.vmap)(x), 2 * x)
    assert str(jax.make_jaxpr(make(ptk.vmap))(x)) == str(jax.make_jaxpr(make(jax.vmap))(x))


def test_one_reference_mapped_twice_is_refused():
    ref = jax.new_ref(jnp.ones(3))
    assert verdict(jax.vmap, lambda a, b: a[...] + b[...], (ref, ref)) is None
    entered = []
    with pytest.raises(ptk.SpecError):
        ptk.vmap(lambda *_: entered.append(1))(ref, ref)
    assert not entered


def test_one_reference_mapped_and_shared():
    ref = jax.new_ref(jnp.ones(3))
    ours, theirs = (
        vmap(lambda a, b: a[...] + b[...].sum(), in_axes=(0, None))(ref, ref)
        for vmap in (ptk.vmap, jax.vmap)
    )
    np.testing.assert_array_equal(ours, theirs)


# ---- sparse matrices ----------------------------------------------------------------------------

DENSE = jnp.arange(12.0).reshape(3, 4)
BATCHED = sparse.BCOO.fromdense(DENSE, n_batch=1)
PLAIN = sparse.BCOO.fromdense(DENSE)
BATCHED_ROWS = sparse.BCSR.fromdense(jnp.arange(12.0).reshape(3, 2, 2), n_batch=1)

SPARSE = {  # function, arguments, in_axes, whether JAX accepts
    "mapped": (lambda m: m.todense() * 2, (BATCHED,), 0, True),
    "mapped, rows": (lambda m: m.todense() * 2, (BATCHED_ROWS,), 0, True),
    "shared": (lambda m, x: m @ x, (PLAIN, jnp.ones((5, 4))), (None, 0), True),
    "shared and batched": (
        lambda m, x: m.todense() @ x,
        (BATCHED, jnp.ones((5, 4))),
        (None, 0),
        True,
    ),
    "in a dict": (lambda d: d["m"].todense() + d["x"], ({"m": BATCHED, "x": DENSE},), 0, True),
    "in a dict, by key": (
        lambda d: d["m"].todense() + d["x"],
        ({"m": BATCHED, "x": jnp.arange(4.0)},),
        ({"m": 0, "x": None},),
        True,
    ),
    "under None in a dict": (
        lambda d: d["m"] @ d["x"],
        ({"m": PLAIN, "x": DENSE},),
        ({"m": None, "x": 0},),
        True,
    ),
    "no batch dimension": (lambda m: m.todense(), (PLAIN,), 0, False),
    "no batch dimension, beside an array": (lambda m, x: x, (PLAIN, DENSE), 0, False),
    "behind the batch dimensions": (lambda m: m.todense(), (BATCHED,), 1, False),
    "another size": (lambda m, x: m.todense() + x, (BATCHED, jnp.ones((4, 4))), 0, False),
    "nothing mapped": (lambda m: m.todense(), (BATCHED,), None, False),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse(name):
    fun, args, in_axes, accepted = SPARSE[name]
    ours, theirs = (verdict(vmap, fun, args, in_axes=in_axes) for vmap in (ptk.vmap, jax.vmap))
    assert (theirs is not None) == accepted
    assert ours == theirs
    if accepted:
        values = [vmap(fun, in_axes=in_axes)(*args) for vmap in (ptk.vmap, jax.vmap)]
        np.testing.assert_array_equal(*values)


def test_sparse_result():
    ours, theirs = (vmap(lambda m: m * 2)(BATCHED) for vmap in (ptk.vmap, jax.vmap))
    assert ours.n_batch == theirs.n_batch == 1
    np.testing.assert_array_equal(ours.todense(), theirs.todense())


# ---- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_key", [jax.random.key, jax.random.PRNGKey])
@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0)])
def test_keys(make_key, in_axes):
    def fun(key, x):
        return x + jax.random.normal(key, x.shape), key

    keys = jax.random.split(make_key(7), 3) if in_axes[0] == 0 else make_key(7)
    (ours, key), (theirs, their_key) = (
        vmap(fun, in_axes=in_axes)(keys, DENSE) for vmap in (ptk.vmap, jax.vmap)
    )
    np.testing.assert_array_equal(ours, theirs)
    assert key.shape == their_key.shape
    assert key.dtype == their_key.dtype


def test_an_axis_of_a_typed_key_is_not_its_data():
    with pytest.raises(ptk.SpecError, match="PTK101"):
        ptk.vmap(jax.random.bits)(jax.random.key(0))
