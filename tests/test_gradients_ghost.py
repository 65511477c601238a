"""Ghost clipping gives what gradients side by side give, whatever it recognises of a loss."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import pytreekit as ptk

from .ghost_cases import CASES
from .ghost_errors import apart, clipped, errors
from .quick import jit

GROUP = 8
"""How many losses are compiled together, which takes less time than each by itself."""


@functools.cache
def outcomes(group):
    names = list(CASES)[group * GROUP :][:GROUP]

    @jit
    def of_all(given):
        return {name: errors(CASES[name][0], *given[name], 0.7) for name in names}

    return of_all({name: CASES[name][1:3] for name in names})


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_gradients_side_by_side(name):
    loss, params, given, wanted = CASES[name]
    tolerance = 1e-3 if name == "a_wider_dtype" else 1e-5
    found = outcomes(list(CASES).index(name) // GROUP)[name]
    assert max(map(float, found.values())) <= tolerance
    plan = ptk.clipped_grad(loss, 0.7, method="ghost").plan(params, given)
    assert {leaf.path[2:-2]: leaf.how for leaf in plan.gradients} == wanted


def test_the_plan_says_why():
    loss, params, given, _ = CASES["layers"]
    plan = ptk.clipped_grad(loss, 1.0, method="ghost").plan(params, given)
    assert [leaf.why for leaf in plan.gradients] == ["add", "dot_general", "dot_general"]
    assert "ghost" in str(plan)
    assert plan.reason == ""
    assert ptk.clipped_grad(loss, 1.0).plan(params, given).gradients[0].how == ""
    whys = {
        name: ptk.clipped_grad(CASES[name][0], 1.0, method="ghost").plan(*CASES[name][1:3])
        for name in ("used_twice", "low_rank_merged", "no_example", "repeated_rows")
    }
    assert [plan.gradients[-1].why for plan in whys.values()] == [
        "used 2 times: dot_general, smaller than the products of its positions",
        "dot_general, smaller than the products of its positions",
        "the loss returns it",
        "dot_general, smaller than the products of its positions",
    ]


def test_no_gradient_of_an_example_is_formed():
    def loss(p, x):
        return jnp.sum(jnp.tanh(x @ p) ** 2)

    clipped = ptk.clipped_grad(loss, 1.0, method="ghost")
    text = str(jax.make_jaxpr(clipped)(jnp.ones((40, 30)), jnp.ones((5, 40))))
    assert "[40,30]" in text
    assert "[5,40,30]" not in text


def test_norms_of_extreme_factors():
    """Each factor squares beyond float32, their product does not."""

    @jit
    def outcome(scale):
        def loss(w, x):
            return jnp.sum(x @ w) / scale * 1e-10

        xs = jnp.full((2, 1, 3), 1e10) * scale
        return ptk.clipped_grad(loss, 1.0, method="ghost")(jnp.ones((3, 3)), xs)

    for scale in (1e-12, 1e12):
        gradient, info = outcome(scale)
        np.testing.assert_allclose(info.norms, 3.0, rtol=1e-6)
        np.testing.assert_allclose(gradient, 2 / 3, rtol=1e-6)


def test_bad_examples_of_layers_under_scan():
    """There, what is not finite is taken out where it comes back."""
    loss, params, given, _ = CASES["layers_under_scan"]
    bad = given.at[1, 0, 0].set(jnp.nan).at[2].set(jnp.inf)

    @jit
    def outcome(params, given, bad):
        safe = ptk.clipped_grad(loss, 0.7, method="ghost")
        unsafe = ptk.clipped_grad(loss, 0.7, method="ghost", nan_safe=False)
        good = clipped(loss, params, given[jnp.array([0, 3])], 0.7)[0]
        return apart(safe(params, bad)[0], good), unsafe(params, bad)[0]["w"]

    error, nowhere = outcome(params, given, bad)
    assert float(error) <= 1e-5
    assert jnp.isnan(nowhere).all()


def test_bad_examples_mask_and_bounds_of_parts():
    loss, params, given, _ = CASES["layers"]
    given = given.at[1].set(jnp.nan).at[2].set(jnp.inf)
    mask = jnp.array([True, True, True, False])

    @jit
    def outcome(params, given, mask):
        found = []
        for bound in (0.5, {"w": 0.5, "b": 0.1, "u": 2.0}):
            for method in ("materialize", "ghost"):
                over = ptk.clipped_grad(loss, bound, method=method, mask="m", reduction="mean")
                found.append(over(params, given, m=mask)[0])
        return found

    side, ghost, sides, ghosts = outcome(params, given, mask)
    assert float(apart(ghost, side)) <= 1e-5
    assert float(apart(ghosts, sides)) <= 1e-5


def test_a_second_derivative_is_right():
    """Also where a norm is 0."""
    loss, params, given, _ = CASES["layers"]

    @jit
    def outcome(given):
        def penalty(params, method):
            gradient, _ = ptk.clipped_grad(loss, 0.7, method=method)(params, given)
            return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))

        return [jax.grad(penalty)(params, method) for method in ("materialize", "ghost")]

    side, ghost = outcome(given.at[0].set(0.0))
    assert float(apart(ghost, side)) <= 1e-4


@jax.custom_vjp
def three_times(w, x):
    return w * x


three_times.defvjp(lambda w, x: (w * x, x), lambda x, back: (3 * x * back, back))

ONE, TWO = jnp.ones(1), jnp.array(2.0)
# A loss, a parameter, a batch of one, and the gradient, whose norm is that of the example.
EXACT = {
    "tied": (lambda w, x: x * w * w, TWO, ONE, 4),
    "steps": (
        lambda w, x: lax.scan(lambda h, _: (h * w, None), x, None, length=3)[0], TWO, ONE, 12,
    ),
    "stacked": (
        lambda w, x: lax.scan(lambda h, its: (h * its, None), x, w)[0],
        jnp.array([1.0, 2, 3]), ONE, [6, 3, 2],
    ),
    "a row twice": (lambda e, ids: e[ids].sum(), jnp.zeros((3, 1)), jnp.array([[1, 1]]),
                    [[0], [2], [0]]),
    "no such row": (lambda e, ids: jnp.nansum(e[ids]), jnp.zeros((3, 1)), jnp.array([[5]]),
                    [[0], [0], [0]]),
    "the last row": (lambda e, ids: e[ids].sum(), jnp.zeros((3, 1)), jnp.array([[-1]]),
                     [[0], [0], [1]]),
    "a bias": (lambda b, x: (x + b).sum(), jnp.array(0.0), jnp.ones((1, 4)), 4),
    "a rule": (three_times, TWO, ONE, 3),
    "held": (lambda w, x: x * w * lax.stop_gradient(w), TWO, ONE, 2),
    "a regulariser": (lambda w, x: x * w + 0.5 * w**2, TWO, ONE, 3),
    "a matrix": (lambda w, x: (x @ w).sum(), jnp.ones((2, 1)), jnp.array([[3.0, 4]]), [[3], [4]]),
    "a transposed one": (lambda w, x: (x @ w.T).sum(), jnp.ones((1, 2)), jnp.array([[3.0, 4]]),
                         [[3, 4]]),
}  # fmt: skip


@pytest.mark.parametrize("method", ["ghost", "two_pass"])
def test_exact_values(method):
    losses = {name: its[0] for name, its in EXACT.items()}

    @jit
    def outcomes(given):
        return {
            name: ptk.clipped_grad(loss, math.inf, method=method)(*given[name])
            for name, loss in losses.items()
        }

    found = outcomes({name: its[1:3] for name, its in EXACT.items()})
    for name, (gradient, info) in found.items():
        np.testing.assert_allclose(gradient, EXACT[name][3], rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(info.norms, np.linalg.norm(EXACT[name][3]), rtol=1e-6)
