"""Exact values: of a loss whose gradients are known, at the edges, and of losses that are a trap.

The loss of most tests is half the square of `w @ x - y` at `w = 0`, with the gradients [3, 4],
[0, 2] and [0, 0], and so the norms 5, 2 and 0.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

from .quick import jit

W = jnp.zeros(2)
XS = jnp.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
YS = jnp.array([-1.0, -1.0, 1.0])

METHODS = [
    {"method": "materialize"},
    {"method": "materialize", "chunk_size": 2},  # the last chunk is of one
    {"method": "chunked", "chunk_size": 2},
    {"method": "ghost", "chunk_size": 2},
]
every_method = pytest.mark.parametrize(
    "how", METHODS, ids=lambda how: "-".join(map(str, how.values()))
)


def loss(w, x, y):
    return 0.5 * (w @ x - y) ** 2


def near(found, wanted, **how):
    np.testing.assert_allclose(found, wanted, **{"rtol": 1e-6, "atol": 1e-7, **how})


# Compiling is what takes time here: for each method, all options are in one program.
WITH = {
    "plain": {},
    "mean": {"reduction": "mean"},
    "divided": {"normalize_by": 3},
    "rescaled": {"rescale_to_unit_norm": True},
    "unsafe": {"nan_safe": False},
    "masked": {"mask": "real"},
    "masked mean": {"mask": "real", "reduction": "mean"},
    "masked unsafe": {"mask": "real", "nan_safe": False},
}


@functools.cache
def compiled(names, **how):
    def call(clip_norm, w, xs, ys, mask):
        def of(name):
            over = ptk.clipped_grad(loss, clip_norm, **WITH[name], **how)
            return over(w, xs, ys, **({"real": mask} if "mask" in WITH[name] else {}))

        def entries(w):
            return ptk.clipped_grad(loss, clip_norm, **how)(w, xs, ys)[0].sum()

        return {name: of(name) for name in names} | {"derivative": jax.grad(entries)(w)}

    return jit(call)


def outcome(clip_norm=1.0, xs=XS, ys=YS, mask=(True, True, True), names=tuple(WITH), **how):
    return compiled(names, **how)(clip_norm, W, xs, ys, jnp.array(mask))


# ---- gradients, values, norms -------------------------------------------------------------------


def test_gradients_values_and_norms():
    @jit
    def outcomes():
        return (
            ptk.per_example_grad(loss)(W, XS, YS),
            ptk.per_example_value_and_grad(loss)(W, XS, YS),
            ptk.per_example_norms(loss)(W, XS, YS),
            ptk.per_example_norms(loss, per_leaf=True, chunk_size=2)(W, XS, YS),
            ptk.per_example_grad(loss, in_axes={"w": None, "x": 1, "y": 0})(W, XS.T, YS),
            ptk.clipped_grad(loss, 1.0, in_axes=(None, -1, 0))(W, XS.T, YS)[0],
        )

    gradient, (values, same), norms, of_leaves, transposed, clipped = outcomes()
    for found in (gradient, same, transposed):
        near(found, [[3, 4], [0, 2], [0, 0]])
    near(values, [0.5, 0.5, 0.5])
    near(norms, [5, 2, 0])
    near(of_leaves, [5, 2, 0])
    near(clipped, [0.6, 1.8])


# ---- clipping -----------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize(
    ("clip_norm", "gradient", "weights"),
    [
        (1.0, [0.6, 1.8], [0.2, 0.5, 1]),
        (2.5, [1.5, 4], [0.5, 1, 1]),
        (5.0, [3, 6], [1, 1, 1]),  # at the boundary nothing is shrunk
        (math.inf, [3, 6], [1, 1, 1]),
        (0.0, [0, 0], [0, 0, 0]),
        (-1.0, [0, 0], [0, 0, 0]),  # a traced bound is trusted, but lets no gradient pass
        (math.nan, [0, 0], [0, 0, 0]),
    ],
)
def test_the_sum_of_clipped_gradients(how, clip_norm, gradient, weights):
    its = outcome(clip_norm, **how)
    found, info = its["plain"]
    near(found, gradient)
    near(info.norms, [5, 2, 0])
    near(info.weights, weights)
    near(info.values, [0.5, 0.5, 0.5])
    assert info.aux is None
    assert int(info.nonfinite) == 0
    for name in ("unsafe", "masked", "masked unsafe"):
        near(its[name][0], gradient)
    for name in ("mean", "divided", "masked mean"):
        near(its[name][0], np.divide(gradient, 3))


@every_method
def test_rescaled_to_unit_norm(how):
    near(outcome(2.5, **how)["rescaled"][0], [0.6, 1.6])
    near(outcome(0.0, **how)["rescaled"][0], [0.6, 1.8])  # g / |g|, the limit
    near(outcome(math.inf, **how)["rescaled"][0], [0, 0])


@every_method
@pytest.mark.parametrize(
    ("mask", "total", "mean"),
    [
        ([False, True, False], [0, 1], [0, 1]),
        ([True, False, False], [0.6, 0.8], [0.6, 0.8]),
        ([True, True, False], [0.6, 1.8], [0.3, 0.9]),
        ([False, False, False], [0, 0], [0, 0]),
    ],
)
def test_what_is_masked_out_counts_for_nothing(how, mask, total, mean):
    nowhere = jnp.where(jnp.array(mask)[:, None], XS, jnp.nan)
    for xs in (XS, nowhere):
        its = outcome(xs=xs, mask=mask, **how)
        near(its["masked mean"][0], mean)
        for name in ("masked", "masked unsafe"):
            found, info = its[name]
            near(found, total)
            near(info.norms, np.where(mask, [5, 2, 0], 0))
            near(info.values, np.where(mask, 0.5, 0))
            assert not info.weights[~np.array(mask)].any()
            assert int(info.nonfinite) == 0


@every_method
@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, 1e30])
def test_one_bad_example_touches_no_other(how, bad):
    its = outcome(xs=XS.at[0, 0].set(bad), **how)
    found, info = its["plain"]
    near(found, [0, 1])
    near(info.weights, [0, 0.5, 1])
    assert int(info.nonfinite) == 1
    near(its["mean"][0], [0, 1 / 3])
    near(its["rescaled"][0], [0, 1])


@every_method
def test_without_nan_safe_one_nan_makes_all_nan(how):
    its = outcome(xs=XS.at[0, 0].set(jnp.nan), mask=[False, True, True], **how)
    assert np.isnan(its["unsafe"][0]).all()
    near(its["masked unsafe"][0], [0, 1])  # unless it is masked out
    near(outcome(xs=XS * jnp.nan, **how)["plain"][0], [0, 0])


@every_method
def test_a_second_derivative_is_not_nan_at_norm_zero(how):
    near(outcome(2.5, **how)["derivative"], [0, 4], atol=1e-6)


@every_method
def test_batches_of_none_and_of_one(how):
    names = ("plain", "divided", "masked")
    its = outcome(xs=XS[:0], ys=YS[:0], mask=jnp.ones(0, bool), names=names, **how)
    for name in names:
        near(its[name][0], [0, 0])
    info = its["plain"][1]
    assert info.norms.shape == info.values.shape == info.weights.shape == (0,)
    near(outcome(xs=XS[:1], ys=YS[:1], mask=[True], names=("mean",), **how)["mean"][0], [0.6, 0.8])


# ---- several norms ------------------------------------------------------------------------------

TWO = {"a": jnp.zeros(()), "b": jnp.zeros(())}
ONE = jnp.ones(1)


def linear(params, x):
    return x * (3 * params["a"] + 4 * params["b"])


BOUNDS = [
    ({"a": 1, "b": 2}, 1, 2, 5**0.5),
    ({"a": 1, ...: 2}, 1, 2, 5**0.5),
    ({...: 1}, 0.6, 0.8, 1),  # one entry, one norm, of all that it governs together
    (1, 0.6, 0.8, 1),
    (np.float32(1), 0.6, 0.8, 1),
    (jnp.float32(1), 0.6, 0.8, 1),
    ({"a": math.inf, "b": 0}, 3, 0, math.inf),
    (ptk.Rules([("a", 1.0), ("b", 2.0)]), 1, 2, 5**0.5),
    (ptk.Rules([("a", 1.0), ("a", 9.0)], default=2.0), 1, 2, 5**0.5),
    (ptk.Rules([("{a,b}", 1)]), 0.6, 0.8, 1),  # one rule, one norm
    ({"a": 1, "b": ptk.Rules([("/**", 2)])}, 1, 2, 5**0.5),
]


def both(a, x, b):
    return x * (3 * a + 4 * b)


def test_a_bound_for_each_part():
    @jit
    def outcomes():
        of_trees = [
            [ptk.clipped_grad(linear, its[0], chunk_size=size)(TWO, ONE) for size in (None, 1)]
            for its in BOUNDS
        ]
        together = ptk.clipped_grad(both, 1.0, ("a", "b"))(0.0, ONE, 0.0)[0]
        return of_trees, together, apart(0.0, ONE, b=0.0)[0]

    apart = ptk.clipped_grad(both, (1.0, 2.0), (0, 2))
    of_trees, together, of_two = outcomes()
    for (clip_norm, a, b, sensitivity), its in zip(BOUNDS, of_trees, strict=True):
        for found, info in its:
            near([found["a"], found["b"]], [a, b])
            parts = len(clip_norm) if isinstance(clip_norm, dict) else 1
            if not isinstance(clip_norm, ptk.Rules):
                assert jax.tree.structure(info.norms).num_leaves == parts
        near(ptk.clipped_grad(linear, clip_norm).sensitivity, sensitivity)
    near(together, (0.6, 0.8))
    near(of_two, (1, 2))
    near(apart.sensitivity, 5**0.5)


def test_an_example_that_is_bad_in_one_part_counts_nowhere():
    over = ptk.clipped_grad(lambda p, x, y: x * p["a"] + y * p["b"], {"a": 1.0, "b": 1.0})
    found, info = jit(over)(TWO, jnp.array([jnp.nan, 1.0]), jnp.array([1.0, 1.0]))
    near([found["a"], found["b"]], [1, 1])
    near(info.weights["b"], [0, 1])
    assert int(info.nonfinite) == 1


# ---- losses that are a trap ---------------------------------------------------------------------

EMBEDDING = jnp.zeros((3, 1))


@jax.custom_vjp
def tripled(x, w):
    return x * w


tripled.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, g: (g * kept[1], 3 * g * kept[0]))


def scanned(params, x):
    return jax.lax.scan(lambda h, w: (h * w, None), x, params)[0]


TRAPS = {
    "a tied parameter": (lambda w, x: x * w * w, 2.0, 1.0, 4.0),
    "one in a loop": (
        lambda w, h: jax.lax.fori_loop(0, 3, lambda _, h: w * h, h), 2.0, 1.0, 12.0,
    ),
    "stacked layers": (scanned, [1.0, 2.0, 3.0], 1.0, [6.0, 3.0, 2.0]),
    "a row of an embedding, twice": (
        lambda e, ids: e[ids].sum(), EMBEDDING, [1, 1], [[0.0], [2.0], [0.0]],
    ),
    "a row beyond the end, clipped": (
        lambda e, i: jnp.take(e, i, axis=0, mode="clip").sum(), EMBEDDING, [5],
        [[0.0], [0.0], [1.0]],
    ),
    "a row beyond the end, filled": (
        lambda e, i: jnp.nansum(jnp.take(e, i, axis=0, mode="fill")), EMBEDDING, [5],
        [[0.0], [0.0], [0.0]],
    ),
    "a row from the end": (
        lambda e, i: e[i].sum(), EMBEDDING, [-1], [[0.0], [0.0], [1.0]],
    ),
    "a broadcast bias": (lambda b, x: (x + b).sum(), 0.0, [1.0, 1.0, 1.0, 1.0], 4.0),
    "a custom rule": (lambda w, x: tripled(x, w), 2.0, 1.0, 3.0),
    "one use stopped": (lambda w, x: x * w * jax.lax.stop_gradient(w), 2.0, 1.0, 2.0),
    "a regulariser": (lambda w, x: x * w + 0.5 * w**2, 2.0, 1.0, 3.0),
    "nothing of the params": (lambda w, x: x * jnp.float32(2), 2.0, 1.0, 0.0),
    "rematerialised": (jax.checkpoint(lambda w, x: jnp.sin(w * x)), 0.0, 2.0, 2.0),
}  # fmt: skip


@functools.cache
def trapped():
    """What becomes of all of them, compiled as one."""

    def all_of_them():
        return {
            name: (
                ptk.per_example_grad(of_one)(w, xs),
                ptk.per_example_norms(of_one)(w, xs),
                ptk.clipped_grad(of_one, 1.0, method="materialize")(w, xs)[0],
                ptk.clipped_grad(of_one, 1.0, method="chunked", chunk_size=1)(w, xs)[0],
                ptk.clipped_grad(of_one, 1.0, method="ghost")(w, xs)[0],
            )
            for name, (of_one, w, x, _) in TRAPS.items()
            for w, xs in [(jnp.asarray(w), jnp.asarray(x)[None])]
        }

    return jit(all_of_them)()


@pytest.mark.parametrize("name", TRAPS)
def test_losses_that_other_ways_to_norms_get_wrong(name):
    wanted = TRAPS[name][-1]
    gradient, norms, *clipped = trapped()[name]
    norm = np.sqrt(np.square(wanted).sum())
    near(gradient[0], wanted)
    near(norms, [norm])
    for found in clipped:
        near(found, np.divide(wanted, max(norm, 1)))


def test_a_matrix_and_its_transpose_have_the_same_norms():
    w, xs = np.arange(6.0, dtype="f").reshape(2, 3) / 9, np.arange(12.0, dtype="f").reshape(4, 3)

    @jit
    def outcomes():
        one = ptk.per_example_norms(lambda w, x: jnp.tanh(w @ x).sum())(w, xs)
        return one, ptk.per_example_norms(lambda w, x: jnp.tanh(x @ w).sum())(w.T, xs)

    near(*outcomes())


# ---- dtypes -------------------------------------------------------------------------------------


def test_half_precision_has_norms_of_single_precision():
    ones, xs = np.ones(4096, jnp.bfloat16), np.full((2, 4096), 1 / 256, jnp.bfloat16)

    @jit
    def outcomes():
        def of_one(w, x):
            return (w * x).sum()

        return [ptk.clipped_grad(of_one, 0.125, **how)(ones, xs) for how in METHODS]

    for found, info in outcomes():
        assert found.dtype == jnp.bfloat16
        assert info.norms.dtype == info.weights.dtype == jnp.float32
        near(info.norms, [0.25, 0.25])  # in bfloat16, a sum of squares would stop growing at 2**-8
        near(found.astype(np.float32), np.full(4096, 1 / 256))


def test_double_precision():
    with jax.enable_x64(True):
        w, xs = np.zeros(2), np.array([[3.0, 4.0], [1e-9, 0.0]])
        mixed = {"a": np.float32(0), "b": np.float64(0)}

        @jit
        def outcomes():
            return (
                ptk.clipped_grad(lambda w, x: w @ x, 1.0, chunk_size=1)(w, xs),
                ptk.clipped_grad(linear, 1.0)(mixed, np.ones(1)),
            )

        (found, info), (of_mixed, its) = outcomes()
        assert found.dtype == info.norms.dtype == jnp.float64
        near(found, [0.6 + 1e-9, 0.8], rtol=1e-15)
        assert [leaf.dtype for leaf in jax.tree.leaves(of_mixed)] == [jnp.float32, jnp.float64]
        near(its.norms, [5])


def test_complex_parameters():
    def of_one(z, x):
        return jnp.abs(z * x) ** 2 / 2

    z, xs = np.complex64(3 + 4j), np.array([1.0, 2.0], "f")

    @jit
    def outcomes():
        return (
            jax.vmap(jax.grad(of_one), (None, 0))(z, xs),
            ptk.per_example_grad(of_one)(z, xs),
            ptk.per_example_norms(of_one)(z, xs),
            [ptk.clipped_grad(of_one, 5.0, **how)(z, xs)[0] for how in METHODS],
        )

    wanted, gradient, norms, clipped = outcomes()
    near(gradient, wanted)
    near(norms, [5, 20])
    for found in clipped:
        near(found, 2 * wanted[0])


def test_python_numbers_are_differentiated_as_by_jax():
    over = ptk.per_example_grad(lambda p, x: p["w"] * x**2)
    gradient = over({"w": 2.0, "n": 3}, XS[:, 0])
    near(gradient["w"], [9, 0, 0])
    assert gradient["n"] is None
