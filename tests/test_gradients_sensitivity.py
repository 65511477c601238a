"""No example moves the result by more than the sensitivity says, and some move it by that much."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

from .quick import jit

W = jnp.zeros(3)
SIZE = 5


def loss(w, x):
    return w @ x


def of_parts(params, x):
    return params["a"] @ x[:1] + params["b"] @ x[1:]


PARTS = {"a": jnp.zeros(1), "b": jnp.zeros(2)}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, 2.0),
        ({"normalize_by": 4}, 0.5),
        ({"rescale_to_unit_norm": True}, 1.0),
        ({"rescale_to_unit_norm": True, "normalize_by": 4}, 0.25),
        ({"reduction": "mean"}, 2.0),
        ({"nan_safe": False}, math.inf),
        ({"method": "chunked"}, 2.0),
    ],
)
def test_sensitivity(options, wanted):
    assert ptk.clipped_grad(loss, 2.0, **options).sensitivity == wanted
    assert jit(lambda c: ptk.clipped_grad(loss, c, **options).sensitivity)(2.0) == wanted


def test_the_plan_knows_the_sensitivity_of_a_mean_over_so_many():
    over = ptk.clipped_grad(loss, 2.0, reduction="mean")
    assert over.plan(W, jnp.ones((3, 3))).sensitivity == pytest.approx(4 / 3)
    assert over.plan(W, jnp.ones((1, 3))).sensitivity == 2.0
    masked = ptk.clipped_grad(loss, 2.0, reduction="mean", mask="real")
    assert masked.plan(W, jnp.ones((3, 3)), real=jnp.ones(3, bool)).sensitivity == 2.0


DIVIDED = ({}, {"normalize_by": 3.0}, {"reduction": "mean"})
BOUNDS = ((loss, W, 0.7), (of_parts, PARTS, {"a": 0.3, "b": 0.7}))


def batches():
    """Drawn ones with norms of many sizes, some with a NaN; the first is the worst that can be."""
    numbers = np.random.default_rng(0)
    drawn = numbers.normal(size=(60, SIZE, 3)) * numbers.lognormal(sigma=3, size=(60, SIZE, 1))
    drawn[::7, 3] = np.nan
    drawn[0], drawn[0, 0] = -100.0, 100.0
    return jnp.asarray(drawn, "f")


def moved(one, other):
    """The distance of two gradients."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jnp.sqrt(sum(jnp.square(here - there).sum() for here, there in pairs))


def test_no_example_moves_the_result_by_more():
    every = jnp.ones(SIZE, bool)
    masks = jnp.stack([every, every.at[0].set(False), jnp.arange(SIZE) < 1, ~every])
    names, sensitivities, calls = [], [], []
    for (of_one, params, bound), divided, rescale in itertools.product(
        BOUNDS, DIVIDED, (False, True)
    ):
        options = {"rescale_to_unit_norm": rescale, **divided}
        masked = ptk.clipped_grad(of_one, bound, mask="real", **options)
        plain = ptk.clipped_grad(of_one, bound, **options)
        names.append(options)
        shape = jax.ShapeDtypeStruct((SIZE, 3), "f")
        sensitivities.append((masked.sensitivity, plain.plan(params, shape).sensitivity))

        def both(xs, masked=masked, plain=plain, params=params):
            each = jax.vmap(lambda mask: masked(params, xs, real=mask)[0])(masks)
            four = [jax.tree.map(lambda leaf, i=i: leaf[i], each) for i in range(4)]
            whole, rest = plain(params, xs)[0], plain(params, xs[1:])[0]
            return jnp.stack([moved(*four[:2]), moved(*four[2:])]).max(), moved(whole, rest)

        calls.append(both)

    found = jit(jax.vmap(lambda xs: [call(xs) for call in calls]))(batches())
    for name, wanted, (of_masked, of_plain) in zip(names, sensitivities, found, strict=True):
        assert of_masked.max() <= wanted[0] * (1 + 1e-5), name
        assert of_plain.max() <= wanted[1] * (1 + 1e-5), name
        assert of_plain.max() == pytest.approx(wanted[1], rel=1e-5), name  # by the first batch
