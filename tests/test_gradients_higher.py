"""Derivatives of clipped gradients by two passes are those of gradients side by side."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import pytreekit as ptk

from .ghost_cases import IDS, STACK, TABLE, U
from .ghost_errors import apart
from .quick import jit

PARAMS = {"e": TABLE, "w": STACK[:2], "u": U}


def loss(p, ids):
    """Rows that are looked up, and layers that are computed again, one matrix in all of them."""

    @jax.checkpoint
    def layer(h, w):
        return jnp.tanh(h @ w @ p["u"]), None

    return jnp.sum(lax.scan(layer, p["e"][ids], p["w"])[0] ** 2)


def both(method):
    """A gradient through a clipped sum and its norms, and the Hessian of that times a vector."""

    def penalty(params):
        gradient, info = ptk.clipped_grad(loss, 0.7, method=method)(params, IDS)
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves((gradient, info.norms)))

    along = jax.tree.map(lambda leaf: jnp.cos(7 * leaf), PARAMS)
    return jit(lambda: jax.jvp(jax.grad(penalty), (PARAMS,), (along,)))()


def test_derivatives_are_those_of_gradients_side_by_side():
    found, side = both("two_pass"), both("materialize")
    assert [float(apart(*its)) < 1e-5 for its in zip(found, side, strict=True)] == [True, True]


def test_a_gradient_of_norm_zero_has_a_derivative():
    xs, ys = jnp.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]), jnp.array([-1.0, -1.0, 1.0])

    def entries(w, method):
        def half_square(w, x, y):
            return 0.5 * (w @ x - y) ** 2

        return ptk.clipped_grad(half_square, 2.5, method=method)(w, xs, ys)[0].sum()

    found = jit(lambda w: jax.grad(entries)(w, "two_pass"))(jnp.zeros(2))
    np.testing.assert_allclose(found, [0, 4], atol=1e-6)
