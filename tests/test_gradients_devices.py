"""Gradients of examples that are split over devices: exact values on 2, 4 and 8 of them."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .quick import jit

XS = jnp.arange(8.0)


def scaled(w, x):
    return w * x


def near(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def mesh_of(count, kind=AxisType.Auto):
    return jax.make_mesh((count,), ("data",), (kind,), devices=jax.devices()[:count])


@pytest.mark.parametrize("count", [2, 4, 8])
def test_inside_shard_map_each_gradient_is_clipped_before_any_sum(count):
    """JAX sums the gradient of what is the same on all devices over these by itself."""

    def on_each(w, xs):
        gradients = ptk.per_example_grad(scaled)(w, xs)
        norms = ptk.per_example_norms(scaled)(w, xs)
        naive = jax.lax.pmean(
            jax.grad(lambda w: jax.vmap(scaled, (None, 0))(w, xs).mean())(w), "data"
        )
        sums = {}
        for method in ("materialize", "chunked", "ghost"):
            for clip_norm in (1.0, 1e9):
                over = ptk.clipped_grad(scaled, clip_norm, method=method, chunk_size=3)
                sums[method, clip_norm] = jax.lax.psum(over(w, xs)[0], "data")
        mean = ptk.clipped_grad(scaled, 1e9, reduction="mean")(w, xs)[0]
        masked = ptk.clipped_grad(scaled, 1.0, mask="real")(w, xs, real=xs != 7)[0]
        return gradients, norms, list(sums.values()), naive, (
            jax.lax.pmean(mean, "data"), jax.lax.psum(masked, "data"),
        )  # fmt: skip

    out_specs = (P("data"), P("data"), P(), P(), P())
    mapped = jax.shard_map(
        on_each, mesh=mesh_of(count), in_specs=(P(), P("data")), out_specs=out_specs
    )
    gradients, norms, sums, naive, (mean, masked) = jit(mapped)(1.0, XS)
    near(gradients, XS)
    near(norms, XS)
    near(sums, [7, 28] * 3)
    near(mean, 3.5)
    near(masked, 6)
    near(naive, 3.5 * count)  # which is why the wrappers do what they do


@functools.cache
def problem():
    keys = jax.random.split(jax.random.key(0), 4)
    params = {"w": jax.random.normal(keys[0], (6, 4)), "b": jax.random.normal(keys[1], (4,))}
    xs, ys = jax.random.normal(keys[2], (16, 6)), jax.random.normal(keys[3], (16, 4))

    def loss(params, x, y):
        return jnp.square(jnp.tanh(x @ params["w"] + params["b"]) - y).sum()

    def outcomes(params, xs, ys):
        real = xs[:, 0] > 0
        return (
            ptk.per_example_grad(loss)(params, xs, ys),
            ptk.clipped_grad(loss, 0.5, mask="real")(params, xs, ys, real=real),
            ptk.clipped_grad(loss, 0.5, method="chunked", chunk_size=16)(params, xs, ys),
            ptk.clipped_grad(loss, 0.5, method="ghost")(params, xs, ys),
            ptk.gradient_statistics(loss)(params, xs, ys).mean,
        )

    return (params, xs, ys), outcomes


@functools.cache
def on_one_device():
    given, outcomes = problem()
    return jit(outcomes)(*given)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def test_a_batch_split_over_eight_devices_gives_what_one_device_does(kind):
    (params, xs, ys), outcomes = problem()
    mesh = mesh_of(8, kind)
    params = jax.device_put(params, NamedSharding(mesh, P()))
    xs, ys = jax.device_put((xs, ys), NamedSharding(mesh, P("data")))
    with jax.set_mesh(mesh):
        found = jit(outcomes)(params, xs, ys)
    assert found[0]["w"].sharding.spec[0] == "data"
    jax.tree.map(near, found, on_one_device())


def test_the_norm_of_a_parameter_that_is_split_inside_shard_map_is_that_of_all_parts():
    def on_each(w, xs):
        def of_one(w, x):
            return jax.lax.psum(w @ x, "data")

        norms = ptk.per_example_norms(of_one)(w, xs)
        return norms, ptk.clipped_grad(of_one, 1.0)(w, xs)[0]

    mapped = jax.shard_map(
        on_each, mesh=mesh_of(2), in_specs=(P("data"), P(None, "data")), out_specs=(P(), P("data"))
    )
    norms, clipped = jit(mapped)(jnp.zeros(2), jnp.array([[3.0, 4.0], [0.0, 2.0]]))
    near(norms, [5, 2])
    near(clipped, [0.6, 1.8])


def test_each_shard_clips_its_own_and_the_sum_is_that_of_one_device():
    (params, xs, ys), _ = problem()

    def loss(params, x, y):
        return jnp.square(jnp.tanh(x @ params["w"] + params["b"]) - y).sum()

    clipped = ptk.clipped_grad(loss, 0.5)
    mapped = ptk.shard_map(
        lambda params, xs, ys: jax.lax.psum(clipped(params, xs, ys)[0], "data"),
        mesh=mesh_of(8), in_specs={"params": P(), ...: P("data")}, out_specs=P(),
    )  # fmt: skip
    found = jit(mapped)(params, xs, ys)
    jax.tree.map(near, found, jit(clipped)(params, xs, ys)[0])
