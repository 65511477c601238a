"""Against a loop over examples, on real kinds of models and on drawn ones; against other libraries.

PYTREEKIT_EXAMPLES scales how many are drawn.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pytreekit as ptk

from .quick import jit

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "1200"))
ROOT = Path(__file__).parents[1]
MODELS = ROOT / "benchmarks" / "per_example_models.py"


def close(found, wanted, **how):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for ours, its in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, its, **{"rtol": 2e-5, "atol": 2e-6, **how})


def by_loop(loss, params, *batch):
    """The gradient of each example, one after the other, stacked."""
    gradient, count = jit(jax.grad(loss)), len(jax.tree.leaves(batch)[0])
    each = [gradient(params, *jax.tree.map(lambda leaf, i=i: leaf[i], batch)) for i in range(count)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def norms_of(gradients):
    squares = [
        np.square(np.abs(leaf, dtype="d")).reshape(len(leaf), -1).sum(1)
        for leaf in jax.tree.leaves(gradients)
    ]
    return np.sqrt(sum(squares))


def clipped_sum(gradients, clip_norm):
    weights = np.minimum(1, clip_norm / np.maximum(norms_of(gradients), 1e-30))
    return jax.tree.map(lambda leaf: np.einsum("b,b...->...", weights, leaf), gradients)


# ---- kinds of models ----------------------------------------------------------------------------


def filled(make, *args):
    """What `make` would give, with other numbers: drawing these takes longer than the test."""

    def fill(leaf):
        steps = np.arange(leaf.size).reshape(leaf.shape)
        return steps % 3 if np.issubdtype(leaf.dtype, np.integer) else np.sin(steps, dtype="f")

    return jax.tree.map(fill, jax.eval_shape(make, *args))


def of_benchmark(name, **sizes):
    spec = importlib.util.spec_from_file_location("per_example_models", MODELS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    made = []

    def make():
        made.append(getattr(module, name)(**sizes, examples=4))
        return made[0].params, made[0].batch

    params, batch = filled(make)
    return made[0].loss, params, (batch,)


def of_equinox():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.MLP(3, 2, 4, 1, activation=jnp.tanh, key=jax.random.key(0))

    def loss(model, x, y):
        return jnp.square(model(x) - y).sum()

    return loss, model, (np.sin(np.arange(12.0, dtype="f")).reshape(4, 3), np.ones((4, 2), "f"))


def of_linen():
    nn = pytest.importorskip("flax.linen")
    model = nn.Sequential([nn.Dense(4), nn.LayerNorm(), nn.tanh, nn.Dense(2)])
    xs = np.sin(np.arange(12.0, dtype="f")).reshape(4, 3)
    params = filled(model.init, jax.random.key(0), xs)

    def loss(params, x, y):
        return jnp.square(model.apply(params, x) - y).sum()

    return loss, params, (xs, np.ones((4, 2), "f"))


def of_nnx():
    nnx = pytest.importorskip("flax.nnx")
    graph, params = nnx.split(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))

    def loss(params, x, y):
        return jnp.square(nnx.merge(graph, params)(x) - y).sum()

    return loss, params, (np.sin(np.arange(12.0, dtype="f")).reshape(4, 3), np.ones((4, 2), "f"))


KINDS = {
    "an MLP": lambda: of_benchmark("mlp", sizes=(5, 4, 4, 3)),
    "a convnet": lambda: of_benchmark("convnet", side=4, width=5),
    "a transformer block": lambda: of_benchmark("transformer", words=7, length=4, width=8, heads=2),
    "a scan over layers": lambda: of_benchmark("scanned", layers=3, length=2, width=3),
    "an Equinox module": of_equinox,
    "flax linen variables": of_linen,
    "a flax NNX state": of_nnx,
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_methods_agree_with_a_loop(kind):
    loss, params, batch = KINDS[kind]()
    floats, rest = ptk.partition(params, lambda leaf: hasattr(leaf, "dtype"))
    wanted = by_loop(lambda its, *example: loss(ptk.combine(its, rest), *example), floats, *batch)
    norms = norms_of(wanted)
    bound = float(np.median(norms))

    @jit
    def outcomes(floats):
        params = ptk.combine(floats, rest)
        sums, norms = [], []
        for how in (
            {"method": "materialize"},
            {"method": "chunked", "chunk_size": 2},
            {"method": "ghost"},
        ):
            total, info = ptk.clipped_grad(loss, bound, **how)(params, *batch)
            sums.append(total)
            norms.append(info.norms)
        return norms, sums

    all_norms, sums = outcomes(floats)
    total = clipped_sum(wanted, bound)
    for found, its_norms in zip(sums, all_norms, strict=True):
        close(found, total)
        close(its_norms, norms.astype("f"))


TWO_THOUSAND = """
import jax, numpy as np
import pytreekit as ptk

params = [{"w": np.float32(index % 7), "b": np.zeros(2, "f")} for index in range(1000)]
xs = np.arange(4.0, dtype="f")

def loss(params, x):
    return x * (params[0]["w"] + 2 * params[999]["b"][1])

clipped = ptk.clipped_grad(loss, 1.0)
assert len(clipped.plan(params, xs).gradients) == 2000
each = ptk.clipped_grad(loss, [{"w": 1.0, ...: 2.0}] * 1000)
assert abs(each.sensitivity - 5000**0.5) < 1e-9
assert each.check(params, xs) == ()
gradient, info = clipped(params, xs)
np.testing.assert_allclose(info.norms, 5**0.5 * xs, rtol=1e-6)
np.testing.assert_allclose([gradient[0]["w"], gradient[999]["b"][1]], [3 / 5**0.5, 6 / 5**0.5])
_, *others, _ = (leaf for leaf in jax.tree.leaves(gradient) if leaf.any())
assert not others
"""


def test_two_thousand_leaves():
    """In a process of its own, without the checks at run time that the suite adds to each call."""
    command = [sys.executable, "-c", TWO_THOUSAND]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


# ---- drawn models -------------------------------------------------------------------------------

SHAPES = st.sampled_from([(), (1,), (3,), (2, 3)])
ACTIVATIONS = (jnp.tanh, jnp.sin, jnp.square)


@st.composite
def problems(draw):
    """A loss of leaves of many shapes, in many containers, with a batch on any axis."""
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=3))
    containers = [list, tuple, lambda its: {f"leaf {i}": leaf for i, leaf in enumerate(its)}]
    contain, act = draw(st.sampled_from(containers)), draw(st.sampled_from(ACTIVATIONS))
    size, axis = draw(st.integers(1, 4)), draw(st.sampled_from([0, 1, -1]))
    numbers = np.random.default_rng(draw(st.integers(0, 99)))
    params = contain([numbers.normal(size=shape).astype("f") for shape in shapes])
    xs, ys = numbers.normal(size=(size, 3)).astype("f"), numbers.normal(size=size).astype("f")

    def loss(params, x, *, y):
        leaves = jax.tree.leaves(params)
        return sum(jnp.sum(act(leaf * x[i]) * y) for i, leaf in enumerate(leaves))

    chunk = draw(st.sampled_from([None, 1, 2, 3, 7]))
    bound = draw(st.sampled_from([0.0, 0.5, 2.0, np.inf]))
    return loss, params, (xs, axis, ys), chunk, bound


@settings(max_examples=max(8, EXAMPLES // 100), suppress_health_check=list(HealthCheck))
@given(problems())
def test_drawn_models_agree_with_a_loop(problem):
    loss, params, (xs, axis, ys), chunk, bound = problem
    wanted = by_loop(lambda its, x, y: loss(its, x, y=y), params, xs, ys)
    given_xs, in_axes = np.moveaxis(xs, 0, axis), {"params": None, "x": axis, ...: 0}
    options = {"in_axes": in_axes, "chunk_size": chunk}

    @jit
    def outcomes(*args):
        def of(over):
            return over(*args, y=ys)

        return (
            of(ptk.per_example_value_and_grad(loss, **options))[1],
            of(ptk.per_example_norms(loss, **options)),
            of(ptk.clipped_grad(loss, bound, method="materialize", **options))[0],
            of(ptk.clipped_grad(loss, bound, method="chunked", **options))[0],
            of(ptk.clipped_grad(loss, bound, method="ghost", **options))[0],
            of(ptk.gradient_statistics(loss, **options)).mean,
        )

    gradients, norms, materialized, chunked, ghost, mean = outcomes(params, given_xs)
    close(gradients, wanted)
    close(norms, norms_of(wanted).astype("f"))
    for found in (materialized, chunked, ghost):
        close(found, clipped_sum(wanted, bound))
    close(mean, jax.tree.map(lambda leaf: leaf.mean(0), wanted))


# ---- other libraries ----------------------------------------------------------------------------

STEPS = np.arange(60, dtype="f")
PARAMS = {"w": np.sin(STEPS[:12]).reshape(4, 3), "b": np.cos(STEPS[:3])}
XS, YS = 3 * np.sin(1.5 * STEPS[:20]).reshape(5, 4), np.cos(STEPS[:15]).reshape(5, 3)
WITH_NAN = np.where(STEPS[:20].reshape(5, 4) == 16, np.float32(np.nan), XS)  # in the last example


def tanh_loss(params, x, y):
    return jnp.square(jnp.tanh(x @ params["w"] + params["b"]) - y).sum()


def test_the_same_as_optax_where_both_clip():
    clip_norm = 0.7

    @jit
    def outcomes():
        gradients = ptk.per_example_grad(tanh_loss)(PARAMS, XS, YS)
        whole, _ = optax.per_example_global_norm_clip(gradients, clip_norm)
        parts, _ = optax.per_example_layer_norm_clip(gradients, clip_norm)
        noisy = optax.contrib.differentially_private_aggregate(clip_norm, 0.0, jax.random.key(0))
        mean, _ = noisy.update(gradients, noisy.init(PARAMS))
        of_parts = {"w": clip_norm / 2**0.5, "b": clip_norm / 2**0.5}
        return (whole, parts, mean), [
            ptk.clipped_grad(tanh_loss, its, **how)(PARAMS, XS, YS)[0]
            for its, how in ((clip_norm, {}), (of_parts, {}), (clip_norm, {"reduction": "mean"}))
        ]

    theirs, ours = outcomes()
    for its, own in zip(theirs, ours, strict=True):
        close(own, its)


# By jax_privacy 2.0.0 on jax 0.10.2: clipping.clipped_grad(tanh_loss, batch_argnums=(1, 2),
# keep_batch_dim=False, l2_clip_norm=0.7)(PARAMS, WITH_NAN, YS). With rescale_to_unit_norm=True it
# gave that over 0.7, with normalize_by=4.0 that over 4.
OF_JAX_PRIVACY = {
    "b": [0.01432002, 0.00150038, -0.00736398],
    "w": [[-0.22321352, -0.08183578, 0.11947457], [-0.07118711, -0.04451934, 0.03003986],
          [0.2131424, 0.07553746, -0.11522472], [0.10134134, 0.05520595, -0.04634122]],
}  # fmt: skip
ITS_NORMS = [9.408767, 9.939777, 11.645496, 8.729046, np.nan]
ITS_VALUES = [1.2047408, 1.3675207, 1.9892008, 1.1282803, np.nan]


def test_the_same_as_jax_privacy_where_both_clip():
    @jit
    def outcomes():
        return [
            ptk.clipped_grad(tanh_loss, 0.7, **how)(PARAMS, WITH_NAN, YS)
            for how in ({}, {"rescale_to_unit_norm": True}, {"normalize_by": 4.0})
        ]

    for (found, info), over in zip(outcomes(), (1, 0.7, 4), strict=True):
        close(found, {name: np.divide(its, over) for name, its in OF_JAX_PRIVACY.items()})
        close(info.norms, np.array(ITS_NORMS))
        close(info.values, np.array(ITS_VALUES))
