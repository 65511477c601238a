"""Ghost clipping gives what gradients side by side give, whatever it recognises of a loss."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import pytreekit as ptk

SIZE, ROWS, WIDTH = 4, 2, 6
KEYS = jax.random.split(jax.random.key(7), 8)
XS = jax.random.normal(KEYS[0], (SIZE, ROWS, WIDTH))
IDS = jax.random.randint(KEYS[1], (SIZE, 3), 0, 7)
W = jax.random.normal(KEYS[2], (WIDTH, WIDTH)) / 2
U = jax.random.normal(KEYS[3], (WIDTH, WIDTH)) / 2
STACK = jax.random.normal(KEYS[4], (3, WIDTH, WIDTH)) / 2
TABLE = jax.random.normal(KEYS[5], (7, WIDTH))
BIAS = jnp.full((WIDTH,), 0.1)

CASES = {}


def case(given, params, **wanted):
    """A loss of named parameters and one example, and how each is to be treated."""

    def add(loss):
        CASES[loss.__name__] = (loss, params, given, wanted)
        return loss

    return add


@jax.custom_vjp
def tripled(x, w):
    return x @ w


tripled.defvjp(
    lambda x, w: (x @ w, (x, w)),
    lambda kept, back: (back @ kept[1].T, 3.0 * (kept[0].T @ back)),
)


@case(XS, {"w": W, "b": BIAS, "u": U}, w="ghost", b="itself", u="ghost")
def layers(p, x):
    return jnp.sum(jnp.tanh(jax.nn.relu(x @ p["w"] + p["b"]) @ p["u"].T) ** 2)


@case(XS, {"w": W, "z": BIAS}, w="ghost", z="unused")
def one_row_and_one_unused(p, x):
    return jnp.sum(jnp.tanh(p["w"] @ x[0]) ** 2)


@case(XS, {"w": STACK[:2, :3, :6]}, w="ghost")
def a_weight_for_each_group(p, x):
    return jnp.sum(jnp.tanh(jnp.einsum("tgd,gde->tge", x.reshape(ROWS, 2, 3), p["w"])) ** 2)


@case(XS, {"w": W.reshape(2, 3, 6), "u": W.reshape(6, 2, 3)}, w="ghost", u="ghost")
def heads(p, x):
    h = jnp.einsum(
        "td,dhe->hte",
        jnp.einsum("td,hed->the", x, p["w"].transpose(0, 1, 2)).reshape(ROWS, 6),
        p["u"],
    )
    return jnp.sum(jnp.sin(h) ** 2)


@case(IDS, {"e": TABLE, "w": W[:, :5]}, e="ghost", w="itself")
def repeated_rows(p, ids):
    return jnp.sum(jnp.tanh(p["e"][ids] @ p["w"]) ** 2)


@case(IDS * 2, {"e": TABLE}, e="ghost")
def rows_beyond_are_clipped(p, ids):
    return jnp.sum(jnp.tanh(jnp.take(p["e"], ids, axis=0, mode="clip")) ** 2)


@case(IDS * 2 - 5, {"e": TABLE}, e="ghost")
def rows_beyond_are_nan_or_negative(p, ids):
    rows = p["e"][ids]
    return jnp.sum(jnp.where(jnp.isfinite(rows), jnp.tanh(rows) ** 2, 1.0))


@case(IDS, {"e": TABLE}, e="itself")
def tied_to_the_output(p, ids):
    return jnp.sum(jax.nn.log_softmax(jnp.tanh(p["e"][ids]) @ p["e"].T)[:, 1])


@case(XS, {"w": W}, w="itself")
def used_twice(p, x):
    return jnp.sum(jnp.tanh(jnp.tanh(x @ p["w"]) @ p["w"]) ** 2)


@case(XS, {"w": W}, w="ghost")
def held_once(p, x):
    return jnp.sum(jnp.tanh(jnp.tanh(x @ p["w"]) @ lax.stop_gradient(p["w"])) ** 2)


@case(XS, {"w": W}, w="itself")
def a_rule_of_its_own(p, x):
    return jnp.sum(jnp.tanh(tripled(x, p["w"])) ** 2)


@case(XS, {"w": W, "u": U}, w="itself", u="ghost")
def a_regulariser(p, x):
    return jnp.sum(jnp.tanh(x @ p["w"]) @ p["u"]) + 0.1 * jnp.sum(p["w"] ** 2)


@case(XS, {"a": W[:, :2], "b": U[:2]}, a="itself", b="itself")
def low_rank_merged(p, x):
    return jnp.sum(jnp.tanh(x @ (W + p["a"] @ p["b"])) ** 2)


@case(XS, {"w": W, "u": U}, w="itself", u="itself")
def side_by_side(p, x):
    return jnp.sum(jnp.tanh(x @ jnp.concatenate([p["w"], p["u"]], 1)) ** 2)


@case(XS, {"w": W, "b": BIAS}, w="ghost", b="itself")
def calls_in_calls(p, x):
    inner = jax.jit(lambda p, x: jax.jit(jnp.tanh)(x @ p["w"] + p["b"]))
    return jnp.sum(jax.jit(inner)(p, x) ** 2)


@case(XS, {"w": W}, w="ghost")
def computed_again(p, x):
    return jnp.sum(jax.checkpoint(lambda w, x: jnp.tanh(x @ w))(p["w"], x) ** 2)


@case(XS, {"w": STACK}, w="ghost")
def layers_under_scan(p, x):
    return jnp.sum(lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, p["w"])[0] ** 2)


@case(XS, {"w": STACK}, w="ghost")
def layers_in_slices(p, x):
    for index in range(3):
        x = jnp.tanh(x @ p["w"][index])
    return jnp.sum(x**2)


@case(XS, {"w": W}, w="itself")
def steps_in_time(p, x):
    return jnp.sum(lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h @ p["w"]), x) ** 2)


@case(XS, {"w": W, "u": U}, w="ghost", u="ghost")
def either_branch(p, x):
    branches = (lambda x: x @ p["w"], lambda x: x @ p["u"])
    return jnp.sum(jnp.tanh(lax.cond(x[0, 0] > 0, *branches, x)) ** 2)


@case(XS, {"w": W.astype(jnp.float16)}, w="ghost")
def a_wider_dtype(p, x):
    return jnp.sum(jnp.tanh(x @ p["w"].astype(jnp.float32)) ** 2)


@case(XS, {"s": jnp.array(0.3)}, s="itself")
def a_number(p, x):
    return jnp.sum(jnp.sin(x * p["s"])) + p["s"]


@case(XS, {"s": jnp.array(0.3)}, s="itself")
def no_example(p, x):
    return p["s"]


def apart(one, other):
    """The relative distance of two trees."""
    flat = [
        jnp.concatenate([jnp.ravel(leaf).astype("f") for leaf in jax.tree.leaves(its)])
        for its in (one, other)
    ]
    return jnp.linalg.norm(flat[0] - flat[1]) / jnp.maximum(jnp.linalg.norm(flat[1]), 1e-30)


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_gradients_side_by_side(name):
    loss, params, given, wanted = CASES[name]
    bound = 0.7

    @jax.jit
    def outcome(params, given):
        side = ptk.clipped_grad(loss, bound, method="materialize")(params, given)
        ghost = ptk.clipped_grad(loss, bound, method="ghost")(params, given)
        return apart(ghost[0], side[0]), apart(ghost[1], side[1])

    tolerance = 1e-3 if name == "a_wider_dtype" else 1e-5
    assert max(map(float, outcome(params, given))) <= tolerance
    plan = ptk.clipped_grad(loss, bound, method="ghost").plan(params, given)
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

    @jax.jit
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

    @jax.jit
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

    @jax.jit
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
