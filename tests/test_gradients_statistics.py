"""What gradients say: exact values, batches and devices that merge, tables and pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .quick import jit

XS = jnp.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
W = jnp.zeros(2)


def dot(w, x):
    return w @ x


def near(found, wanted, **how):
    np.testing.assert_allclose(found, wanted, **{"rtol": 1e-6, "atol": 1e-7, **how})


def is_base(found):
    """Whether statistics are those of the gradients [3, 4], [0, 2] and [0, 0]."""
    assert int(found.count) == 3
    near(found.mean, [1, 2])
    near(found.variance, [3, 4])
    near(found.signal_to_noise, [3**-0.5, 1])
    near(found.trace_cov, 7)
    near(found.grad_sq, 8 / 3)
    near(found.noise_scale, 2.625)
    near(found.cosine, ((3 + 8) / 5 + 2) / 3 / 5**0.5)


def test_exact_values_whatever_the_chunk():
    @jit
    def outcomes():
        return [ptk.gradient_statistics(dot, chunk_size=size)(W, XS) for size in (None, 1, 2)]

    for found in outcomes():
        is_base(found)
        near(found.norms, [5, 2, 0])
        near(found.leaf_norms, [5, 2, 0])


def test_batches_merge_as_if_they_had_been_one():
    over = ptk.gradient_statistics(dot)

    @jit
    def outcomes():
        parts = [over(W, XS[:1]), over(W, XS[1:1]), over(W, XS[1:])]
        joined = parts[0].merge(parts[1]).merge(parts[2])
        turned = parts[2].merge(parts[0])
        start = over(W, XS[:0]).moments()
        streamed, _ = jax.lax.scan(
            lambda state, x: (state.merge(over(W, x[None])), None), start, XS
        )
        return joined, turned, streamed, start

    joined, turned, streamed, start = outcomes()
    for found in (joined, turned, streamed):
        is_base(found)
    near(joined.norms, [5, 2, 0])
    near(joined.leaf_norms, [5, 2, 0])
    near(turned.norms, [2, 0, 5])
    assert streamed.norms is None
    assert streamed.leaf_norms is None
    assert int(start.count) == 0


def test_a_large_mean_costs_no_digits():
    """Squares minus the square of the mean would leave nothing of the spread."""
    xs = 1e4 + jnp.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])[:, None]
    found = jit(ptk.gradient_statistics(dot, chunk_size=2))(jnp.zeros(1), xs)
    near(found.mean, [10002.5])
    near(found.variance, [3.5], rtol=1e-5)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_devices_merge_as_if_they_had_been_one(count):
    mesh = jax.make_mesh((count,), ("data",), (AxisType.Auto,), devices=jax.devices()[:count])
    over = ptk.gradient_statistics(dot, chunk_size=2)

    def of_each(w, xs):
        return over(w, xs).over("data")

    xs = jax.random.normal(jax.random.key(count), (24, 2))
    split = jax.shard_map(of_each, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())
    found, wanted = jit(lambda w, xs: (split(w, xs), over(w, xs)))(W, xs)
    for name in ("count", "mean", "variance", "trace_cov", "grad_sq", "cosine"):
        near(getattr(found, name), getattr(wanted, name), rtol=1e-5)
    assert found.norms is None


def test_one_example_or_none_has_no_variance():
    over = jit(ptk.gradient_statistics(dot))
    one, none = over(W, XS[:1]), over(W, XS[:0])
    near(one.mean, [3, 4])
    assert np.isnan(one.variance).all()
    assert np.isnan(one.noise_scale)
    near(none.mean, [0, 0])
    near(none.cosine, 0)
    assert "nan" in str(one)
    assert "0 examples" in str(none)


def test_the_noise_scale_has_unbiased_parts():
    """Their means over many small batches are the true ones; that of a plain square is not."""
    keys = jax.random.split(jax.random.key(0), 4000)

    def parts(key):
        xs = jnp.array([1.0, 0.5]) + jax.random.normal(key, (4, 2))
        found = ptk.gradient_statistics(dot)(W, xs)
        return found.trace_cov, found.grad_sq, jnp.square(found.mean).sum()

    trace_cov, grad_sq, biased = (its.mean() for its in jit(jax.vmap(parts))(keys))
    near(trace_cov, 2, rtol=0.03)
    near(grad_sq, 1.25, rtol=0.03)
    assert biased > 1.25 + 0.4  # by trace_cov / 4


def test_halves_are_taken_in_single_precision_and_complex_numbers_have_real_variances():
    def of_one(params, x):
        return (params["half"] * x[0]).sum().astype("f") + (params["z"] * x[1]).real

    params = {"half": jnp.zeros(2, jnp.bfloat16), "z": jnp.complex64(0), "step": 3}
    found = jit(ptk.gradient_statistics(of_one))(params, XS)
    assert found.mean["half"].dtype == found.variance["half"].dtype == jnp.float32
    assert found.mean["z"].dtype == jnp.complex64
    assert found.variance["z"].dtype == found.norms.dtype == jnp.float32
    assert found.mean["step"] is None
    near(found.mean["half"], [1, 1])
    near(found.variance["z"], 4)
    near(found.noise_scale, (3 + 3 + 4) / (1 + 1 + 4 - 10 / 3), rtol=1e-5)


def test_tables_and_a_picture():
    def of_one(params, x):
        return params["w"] @ x + params["b"] * 0

    over = ptk.gradient_statistics(of_one)
    found = over({"w": W, "b": 0.0}, XS)
    told = str(found)
    assert told.isascii()
    assert max(map(len, told.splitlines())) <= 88
    assert "gradients of 3 examples" in told
    assert "| noise scale " in told
    assert "2.625" in told
    rows = {row.path: row for row in found.leaves()}
    near(rows["['w']"][2:], [5**0.5, 7**0.5, (5 / 7) ** 0.5, 7 / 3])
    near(rows["['b']"][2:], [0, 0, 0, 0])
    picture = ET.fromstring(found.picture())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [its.text for its in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "norms of 3 gradients" in texts
    assert "['w']" in texts
    assert "<svg" in found._repr_html_()
    assert "norms of" not in found.moments().picture()
    seen = []
    jit(lambda w: seen.append(str(over({"w": w, "b": 0.0}, XS))))(W)
    assert "traced" in seen[0]
