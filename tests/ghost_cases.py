"""Losses that are hard to read: how parameters are used in them, and what is made of that."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

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


WIDE = jnp.tile(W, (2, 3))


@case(XS[:, :1], {"a": WIDE[:, :2], "b": WIDE[:2]}, a="ghost", b="ghost")
def low_rank_merged_in_a_wide_one(p, x):
    merged = (WIDE - 0.5 * (p["a"] @ p["b"])).T
    return jnp.sum(jnp.tanh(merged @ jnp.concatenate([x, x**2], 1).T) ** 2)


@case(XS, {"w": W, "u": U}, w="itself", u="itself")
def merged_and_looked_at(p, x):
    whole = jnp.concatenate([p["w"], p["u"]], 1)
    return jnp.sum(jnp.tanh(x @ whole)) + whole[0, 0]


@case(XS, {"w": W[:4], "u": U[:2], "v": W[:3]}, w="ghost", u="itself", v="itself")
def one_after_the_other(p, x):
    groups = jnp.concatenate([p["v"], p["v"] + 1]).reshape(2, 3, WIDTH)
    h = jnp.tanh(x @ jnp.concatenate([p["w"], p["u"]]))
    return jnp.sum(jnp.einsum("tgd,gde->tge", h.reshape(ROWS, 2, 3), groups) ** 2)


@case(XS, {"w": W, "u": U}, w="ghost", u="ghost")
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


@jax.custom_jvp
def quintupled(x, w):
    return x @ w


quintupled.defjvp(
    lambda values, back: (
        quintupled(*values),
        2.0 * (back[0] @ values[1]) + 5.0 * (values[0] @ back[1]),
    )
)


@case(XS, {"w": W}, w="itself")
def a_rule_forward(p, x):
    return jnp.sum(jnp.tanh(quintupled(x, p["w"])) ** 2)


@case(XS[:, :1], {"w": W}, w="ghost")
def there_and_back(p, x):
    return jnp.sum((jnp.tanh(x @ p["w"]) @ p["w"].T - x) ** 2)


@case(XS[:, :1], {"e": TABLE}, e="ghost")
def looked_up_and_multiplied(p, x):
    at = (x[0, :1] > 0).astype(int) * 3
    return jnp.sum(jnp.tanh(p["e"][at] + x) @ p["e"].T[:, ::-1].T[::-1].T) ** 2


@case(XS, {"w": W}, w="itself")
def one_leaf_in_many_ways(p, x):
    return jnp.sum(jnp.tanh(x @ p["w"]) * (x[0] @ p["w"]) * p["w"][0])


@case(XS, {"a": W[:, :2], "b": U[:2]}, a="itself", b="itself")
def low_rank_beside(p, x):
    return jnp.sum(jnp.tanh(x @ W + (x @ p["a"]) @ p["b"]))


@case(IDS, {"e": TABLE}, e="ghost")
def one_row(p, ids):
    return jnp.sum(jnp.tanh(p["e"][ids[0]]) ** 2)


@case(IDS, {"e": TABLE.T}, e="ghost")
def columns(p, ids):
    return jnp.sum(jnp.tanh(p["e"][:, ids]) ** 2)


@case(XS, {"w": W}, w="ghost")
def in_parts(p, x):
    left, right = jnp.split(p["w"], 2, axis=1)
    return jnp.sum(jnp.tanh(x @ left) * (x @ right))


@case(XS, {"w": W}, w="itself")
def in_parts_of_which_one_is_empty(p, x):
    none, rest = jnp.split(p["w"], [0])
    return jnp.sum(jnp.tanh(x @ rest)) + jnp.sum(none)


@case(XS, {"w": W}, w="itself")
def in_parts_that_overlap(p, x):
    return jnp.sum(jnp.tanh(x @ p["w"][:, :4]) * (x @ p["w"][:, 2:]))


@case(XS, {"w": STACK, "b": BIAS}, w="ghost", b="itself")
def layers_computed_again(p, x):
    layer = jax.checkpoint(lambda h, w: (jnp.tanh(h @ w.T + p["b"]), h.sum()))
    last, sums = lax.scan(layer, x, p["w"], reverse=True)
    return jnp.sum(last**2) + jnp.sum(sums**2)


@case(XS, {"w": jnp.stack([STACK, STACK[::-1]]), "u": U}, w="ghost", u="itself")
def scans_in_scans(p, x):
    def outer(h, ws):
        h, _ = lax.scan(lambda h, w: (jnp.tanh(h @ w) @ p["u"], None), h, ws)
        return h, None

    return jnp.sum(lax.scan(outer, x, p["w"])[0] ** 2)


@case(XS, {"w": W, "u": U, "b": BIAS}, w="ghost", u="ghost", b="itself")
def a_recurrence(p, x):
    def step(h, x):
        h = jnp.tanh(x @ p["w"] + h @ p["u"] + p["b"])
        return h, h

    return jnp.sum(lax.scan(step, jnp.zeros(WIDTH), x.reshape(-1, WIDTH))[1] ** 2)


@case(XS[:, :1], {"w": jnp.tile(W, (2, 2)), "u": jnp.tile(U, (2, 2))}, w="ghost", u="ghost")
def a_wide_recurrence(p, x):
    def step(h, x):
        h = jnp.tanh(x @ p["w"] + h @ p["u"])
        return h, None

    steps = jnp.stack([jnp.tile(x[0], 2), jnp.tile(x[0], 2) ** 2])
    return jnp.sum(lax.scan(step, jnp.zeros(2 * WIDTH), steps)[0] ** 2)


@case(XS, {"w": STACK}, w="itself")
def stacked_and_beside(p, x):
    h, _ = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, p["w"])
    return jnp.sum(h @ p["w"][0])


@case(XS, {"w": STACK}, w="ghost")
def layers_by_number(p, x):
    def layer(at, h):
        return jnp.tanh(h @ lax.dynamic_index_in_dim(p["w"], at, keepdims=False))

    return jnp.sum(lax.fori_loop(0, 3, layer, x) ** 2)


IMAGES = jax.random.normal(KEYS[6], (SIZE, 1, 6, 5, 4))
KERNEL = jax.random.normal(KEYS[7], (3, 2, 4, 6)) / 4
NHWC = ("NHWC", "HWIO", "NHWC")


def convolved(x, kernel, numbers=NHWC, **options):
    out = lax.conv_general_dilated(x, kernel, dimension_numbers=numbers, **options)
    return jnp.sum(jnp.tanh(out) ** 2)


@case(IMAGES, {"k": KERNEL}, k="itself")
def windows(p, x):
    return convolved(x, p["k"], window_strides=(2, 1), padding="SAME", rhs_dilation=(1, 2))


@case(IMAGES[:, :, :3, :2], {"k": KERNEL}, k="ghost")
def one_window(p, x):
    return convolved(x, p["k"], window_strides=(1, 1), padding="VALID")


@case(IMAGES, {"k": KERNEL[:, :, :1, :4]}, k="itself")
def each_feature_by_itself(p, x):
    return convolved(x, p["k"], window_strides=(1, 1), padding="SAME", feature_group_count=4)


@case(IMAGES, {"k": KERNEL[:, :, :2]}, k="itself")
def groups_of_features(p, x):
    return convolved(x, p["k"], window_strides=(1, 1), padding="SAME", feature_group_count=2)


@case(IMAGES, {"k": KERNEL}, k="itself")
def spread(p, x):
    padding = ((2, 2), (1, 2))
    return convolved(x, p["k"], window_strides=(1, 1), padding=padding, lhs_dilation=(2, 2))


@case(IMAGES, {"k": KERNEL.transpose(3, 2, 0, 1)}, k="itself")
def features_first(p, x):
    numbers = ("NCHW", "OIHW", "NCHW")
    x = jnp.concatenate([x, x**2]).transpose(0, 3, 1, 2)
    return convolved(x, p["k"], numbers, window_strides=(1, 2), padding="VALID")


@case(IMAGES, {"k": KERNEL[:, 0]}, k="itself")
def along_one_dimension(p, x):
    numbers = ("NWC", "WIO", "NWC")
    return convolved(x[:, :, 0], p["k"][::-1], numbers, window_strides=(1,), padding="SAME")


@case(IMAGES[:, :, :3, :2], {"k": KERNEL.reshape(3, 2, 1, 4, 6)}, k="ghost")
def in_three_dimensions(p, x):
    numbers = ("NDHWC", "DHWIO", "NDHWC")
    return convolved(x[..., None, :], p["k"], numbers, window_strides=(1, 1, 1), padding="VALID")


@case(IMAGES, {"k": KERNEL}, k="itself")
def standardised(p, x):
    kernel = (p["k"] - p["k"].mean((0, 1, 2))) / (p["k"].std((0, 1, 2)) + 1e-5)
    return convolved(x, kernel, window_strides=(1, 1), padding="SAME")


@case(IMAGES, {"k": KERNEL[None, :, :, :, :4].repeat(2, 0), "g": jnp.ones((2, 4))},
      k="itself", g="itself")  # fmt: skip
def stacked_windows(p, x):
    def layer(h, its):
        kernel, gain = its
        h = lax.conv_general_dilated(h, kernel, (1, 1), "SAME", dimension_numbers=NHWC)
        return jnp.tanh(h * gain), h.sum()

    return jnp.sum(lax.scan(layer, x, (p["k"], p["g"]), reverse=True)[1] ** 2)
