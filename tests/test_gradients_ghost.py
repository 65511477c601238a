"""Ghost clipping gives what gradients side by side give, whatever it recognises of a loss."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

from .ghost_cases import CASES, IDS, KEYS
from .ghost_errors import apart, errors
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


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_norms_of_extreme_factors(scale):
    """Each factor squares beyond float32, their product does not."""
    xs = jnp.full((2, 1, 3), 1e10 * scale)
    clipped = ptk.clipped_grad(lambda w, x: jnp.sum(x @ w) / scale * 1e-10, 1.0, method="ghost")
    gradient, info = clipped(jnp.ones((3, 3)), xs)
    np.testing.assert_allclose(info.norms, 3.0, rtol=1e-6)
    np.testing.assert_allclose(gradient, 2 / 3, rtol=1e-6)


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


def test_a_block_of_haiku():
    haiku = pytest.importorskip("haiku")

    def net(ids):
        h = haiku.LayerNorm(-1, create_scale=True, create_offset=True)(haiku.Embed(11, 8)(ids))
        h = haiku.MultiHeadAttention(2, 4, w_init=haiku.initializers.VarianceScaling())(h, h, h)
        return jnp.sum(haiku.Linear(3)(h.mean(0)) ** 2)

    block = haiku.without_apply_rng(haiku.transform(net))

    @jit
    def outcome(ids):
        params = block.init(KEYS[6], ids[0])
        methods = ("ghost", "materialize")
        return apart(
            *(ptk.clipped_grad(block.apply, 0.5, method=its)(params, ids) for its in methods)
        )

    assert float(outcome(IDS)) <= 1e-5
    plan = ptk.clipped_grad(block.apply, 0.5, method="ghost").plan(
        jax.eval_shape(block.init, KEYS[6], IDS[0]), IDS
    )
    assert {leaf.how for leaf in plan.gradients if "'w'" in leaf.path} == {"ghost"}
