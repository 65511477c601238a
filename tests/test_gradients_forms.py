"""Ways to call: what is differentiated and what is left alone, axes, keys, masks, composition."""

from __future__ import annotations

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import pytreekit as ptk

from .quick import jit

XS = jnp.arange(8.0).reshape(4, 2)
YS = jnp.array([1.0, -1.0, 2.0, 0.5])
PARAMS = {"w": jnp.ones(2), "b": jnp.zeros(()), "step": jnp.int32(3), "act": jnp.tanh, "on": True}


def loss(params, x, y):
    return (params["act"](params["w"] @ x + params["b"]) - y) ** 2


def plain(w, x, y):
    return (w @ x - y) ** 2


def with_aux(w, x, y):
    return plain(w, x, y), {"seen": x, "double": 2 * y}


def by_loop(of_one, w, *batch):
    """The gradient of each example, one after the other."""
    count = len(jax.tree.leaves(batch)[0])
    examples = [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(count)]
    return jnp.stack([jax.grad(of_one)(w, *example) for example in examples])


def near(found, wanted, **how):
    np.testing.assert_allclose(found, wanted, **{"rtol": 1e-5, "atol": 5e-6, **how})


W = jnp.array([0.3, -0.2])
WANTED = by_loop(plain, W, XS, YS)


# ---- what is differentiated ---------------------------------------------------------------------


@pytest.mark.parametrize("argnums", [0, "w"])
def test_one_argument_by_position_or_by_name(argnums):
    near(ptk.per_example_grad(plain, argnums)(W, XS, YS), WANTED)
    near(ptk.per_example_grad(plain, argnums)(y=YS, x=XS, w=W), WANTED)


def test_several_arguments_give_a_tuple():
    def two(a, x, b):
        return a * x * b

    @jit
    def outcomes():
        ways = [ptk.per_example_grad(two, its) for its in ((0, 2), ("a", "b"), [0, "b"])]
        alone = ptk.per_example_grad(two, (2,), in_axes=(None, 0, None))(2.0, YS, 3.0)
        return [over(2.0, YS, 3.0) for over in ways], alone

    both, (alone,) = outcomes()
    for ours in both:
        assert isinstance(ours, tuple)
        near(ours[0], 3 * YS)
        near(ours[1], 2 * YS)
    near(alone, 2 * YS)


class Loss:
    def __call__(self, w, x, y):
        return plain(w, x, y)

    def of(self, w, x, y):
        return plain(w, x, y)


def of_args(*args):
    return plain(*args)


def of_rest(w, *args):
    return plain(w, *args)


@pytest.mark.parametrize(
    "of_one",
    [of_args, of_rest, functools.partial(plain), Loss(), Loss().of, jax.jit(plain),
     ptk.vmap(plain, in_axes=None, axis_size=1, out_axes=None)],
    ids=["args", "rest", "partial", "object", "method", "jit", "vmap"],
)  # fmt: skip
def test_losses_of_every_kind_of_callable(of_one):
    over, clipped = ptk.per_example_grad(of_one), ptk.clipped_grad(of_one, jnp.inf)
    gradient, (total, _) = jit(lambda *its: (over(*its), clipped(*its)))(W, XS, YS)
    near(gradient, WANTED)
    near(total, WANTED.sum(0))


def test_what_is_no_float_is_left_alone_and_told():
    over = ptk.per_example_grad(loss)
    gradient = jit(lambda: over(PARAMS, XS, YS))()
    assert {name: its for name, its in gradient.items() if its is None}.keys() == {
        "step", "act", "on",
    }  # fmt: skip
    wanted = by_loop(lambda w, x, y: loss({**PARAMS, "w": w}, x, y), PARAMS["w"], XS, YS)
    near(gradient["w"], wanted)
    left = {leaf.path: leaf.left for leaf in over.plan(PARAMS, XS, YS).gradients}
    assert left == {
        "['act']": "no array", "['b']": "", "['on']": "bool is no float",
        "['step']": "i32 is no float", "['w']": "",
    }  # fmt: skip


@pytest.mark.parametrize("where", [{"b": False, ...: True}, lambda leaf: jnp.ndim(leaf) == 1])
def test_leaves_that_are_frozen(where):
    over = ptk.clipped_grad(loss, 1.0, where=where)

    @jit
    def outcomes():
        return over(PARAMS, XS, YS), ptk.per_example_grad(loss)(PARAMS, XS, YS)

    (gradient, info), whole = outcomes()
    assert gradient["b"] is None
    near(info.norms, np.linalg.norm(whole["w"], axis=1))
    plan = over.plan(PARAMS, XS, YS)
    assert {leaf.path: leaf.left for leaf in plan.gradients}["['b']"] == "left out by where"


def test_a_key_among_the_parameters_is_left_alone():
    params = {"w": W, "key": jax.random.key(0)}
    gradient = ptk.per_example_grad(lambda p, x: p["w"] @ x)(params, XS)
    assert gradient["key"] is None
    near(gradient["w"], XS)


# ---- what else comes back -----------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [3])
def test_what_else_the_loss_returns(chunk_size):
    options = {"has_aux": True, "chunk_size": chunk_size}

    @jit
    def outcomes(*given):
        return (
            ptk.per_example_grad(with_aux, **options)(*given),
            ptk.per_example_value_and_grad(with_aux, **options)(*given),
            ptk.per_example_norms(with_aux, **options)(*given),
            ptk.clipped_grad(with_aux, 1.0, method="materialize", **options)(*given)[1],
            ptk.clipped_grad(with_aux, 1.0, method="chunked", **options)(*given)[1],
            ptk.gradient_statistics(with_aux, **options)(*given),
        )

    grad, value_and_grad, norm, materialized, chunked, statistics = outcomes(W, XS, YS)
    values, norms = jax.vmap(plain, (None, 0, 0))(W, XS, YS), jnp.linalg.norm(WANTED, axis=1)
    near(grad[0], WANTED)
    near(value_and_grad[0][0], values)
    near(value_and_grad[1], WANTED)
    near(norm[0], norms)
    near(statistics[0].norms, norms)
    auxes = (grad[1], value_and_grad[0][1], norm[1], materialized.aux, chunked.aux, statistics[1])
    for aux in auxes:
        near(aux["seen"], XS)
        near(aux["double"], 2 * YS)


# ---- axes, keys, batches of one -----------------------------------------------------------------


def noisy(w, x, *, key, rate):
    return (w * x * jax.random.bernoulli(key, 1 - rate, x.shape)).sum()


def test_keys_are_those_of_the_examples_whatever_the_chunk_and_the_method():
    in_axes = {"x": 0, "key": ptk.SPLIT, ...: None}
    xs, key = jnp.ones((6, 32)), jax.random.key(1)

    @jit
    def outcomes():
        given = (jnp.ones(32), xs), {"key": key, "rate": 0.5}
        keys = jax.random.split(key, 6)
        masks = jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (32,)))(keys)
        gradients = [
            ptk.per_example_grad(noisy, in_axes=in_axes, chunk_size=size)(*given[0], **given[1])
            for size in (None, 1, 4)
        ]
        sums = [
            ptk.clipped_grad(noisy, jnp.inf, in_axes=in_axes, method=method, chunk_size=4)(
                *given[0], **given[1]
            )[0]
            for method in ("materialize", "chunked", "ghost")
        ]
        return masks, gradients, sums

    masks, gradients, sums = outcomes()
    assert len({tuple(mask) for mask in masks.tolist()}) == 6
    for gradient in gradients:
        near(gradient, masks)
    for found in sums:
        near(found, masks.sum(0))


def test_a_bad_example_is_replaced_together_with_its_key():
    def of_one(w, x, key):
        return w * x / (jax.random.bits(key) % 2)  # half of the keys make any example bad

    over = ptk.clipped_grad(
        of_one, 10.0, in_axes={"w": None, "key": ptk.SPLIT, ...: 0}, method="chunked"
    )
    key = jax.random.key(0)
    good = jax.vmap(jax.random.bits)(jax.random.split(key, 4)) % 2 == 1
    assert 0 < good.sum() < 4
    found, info = jit(over)(1.0, jnp.arange(1.0, 5), key)
    near(found, jnp.arange(1.0, 5) @ good)
    assert int(info.nonfinite) == 4 - good.sum()


@pytest.mark.parametrize("axis", [0, -1])
def test_losses_of_a_batch_of_one(axis):
    def of_batch(w, xs, ys):
        assert xs.shape == (1, 2) if axis == 0 else (2, 1)
        assert ys.shape == (1,)
        return jnp.mean(((xs if axis == 0 else xs.T) @ w - ys) ** 2)

    options = {"in_axes": (None, axis, 0), "keep_batch_dim": True}
    xs = XS if axis == 0 else XS.T

    @jit
    def outcomes():
        gradient = ptk.per_example_grad(of_batch, **options)(W, xs, YS)
        ways = [
            ptk.clipped_grad(of_batch, jnp.inf, method=method, chunk_size=3, **options)
            for method in ("materialize", "chunked", "ghost")
        ]
        return gradient, [over(W, xs, YS)[0] for over in ways]

    gradient, sums = outcomes()
    near(gradient, WANTED)
    for found in sums:
        near(found, WANTED.sum(0))
    plan = ptk.per_example_grad(of_batch, **options).plan(W, xs, YS)
    assert plan.examples[0].example == ("f32[1,2]" if axis == 0 else "f32[2,1]")


def test_a_mask_beside_axes_by_position_and_keywords():
    mask = jnp.array([True, False, True, True])

    def with_rest(w, x, **rest):
        return plain(w, x, rest["y"])

    def clipped(of_one, in_axes):
        return ptk.clipped_grad(of_one, jnp.inf, in_axes=in_axes, mask="valid")

    @jit
    def outcomes():
        return (
            clipped(plain, (None, 0, 0))(W, XS, YS, valid=mask)[0],
            clipped(with_rest, {"w": None, ...: 0})(W, XS, y=YS, valid=mask)[0],
            clipped(plain, {"w": None, "x": 0, "y": 0})(W, XS, valid=mask, y=YS)[0],
        )

    for found in outcomes():
        near(found, WANTED[np.array(mask)].sum(0))


# ---- transformations ----------------------------------------------------------------------------


def test_the_jaxpr_is_that_of_a_gradient_that_is_mapped():
    ours = jax.make_jaxpr(ptk.per_example_grad(plain))(W, XS, YS)
    theirs = jax.make_jaxpr(jax.vmap(jax.grad(plain), (None, 0, 0)))(W, XS, YS)
    assert str(ours) == str(theirs)


def test_a_compiled_call_traces_the_loss_once():
    traced = []

    def counted(w, x, y):
        traced.append(1)
        return plain(w, x, y)

    over = jit(ptk.clipped_grad(counted, 1.0))
    over(W, XS, YS)
    over(W, XS + 1, YS)
    assert len(traced) == 1


def test_under_vmap_scan_checkpoint_and_grad():
    over = ptk.per_example_grad(plain)
    clipped = ptk.clipped_grad(plain, 1.0, method="chunked", chunk_size=3)

    def step(w, batch):
        gradient, info = clipped(w, *batch)
        return w - 0.1 * gradient, info.values.mean()

    @jit
    def outcomes():
        ws, batches = jnp.stack([W, -W]), (jnp.stack([XS, XS + 1]), jnp.stack([YS, YS]))
        gradients = (
            jax.vmap(over, (0, None, None))(ws, XS, YS)[0],
            ptk.vmap(over, in_axes={"w": 0, ...: None})(ws, XS, YS)[0],
            jax.checkpoint(over)(W, XS, YS),
        )
        once, _ = step(W, (XS, YS))
        twice, _ = step(once, (XS + 1, YS))
        hessian = jax.jacfwd(lambda w: over(w, XS, YS))(W)
        return gradients, hessian, twice, jax.lax.scan(step, W, batches)

    gradients, hessian, twice, (scanned, losses) = outcomes()
    for found in gradients:
        near(found, WANTED)
    near(hessian, 2 * XS[:, :, None] * XS[:, None])
    near(scanned, twice)
    assert losses.shape == (2,)


def test_abstract_arguments_have_a_plan():
    shapes = jax.eval_shape(lambda: (W, XS, YS))
    over = ptk.clipped_grad(plain, 1.0)
    plan = over.plan(*shapes)
    assert (plan.axis_size, plan.method, plan.chunk_size) == (4, "materialize", None)
    assert plan.bytes_at_once == 4 * 2 * 4
    assert over.check(*shapes) == ()
    assert "sensitivity" in str(plan)
    wide = ptk.clipped_grad(lambda w, x: (w * x).sum(), 1.0)
    plan = wide.plan(jax.ShapeDtypeStruct((2**20,), jnp.float32), jnp.ones(64))
    assert plan.chunk_size == 4
    assert "estimated to take" in plan.reason


def test_copies_and_pickles():
    for over in (
        ptk.per_example_grad(plain, chunk_size=3),
        ptk.clipped_grad(plain, {...: 1.0}, mask="real"),
        ptk.gradient_statistics(plain),
    ):
        over.check(W, XS, YS)
        again = copy.deepcopy(pickle.loads(pickle.dumps(over)))
        assert repr(again) == repr(over)
        assert again.__name__ == "plain"
    near(jit(again)(W, XS, YS).mean, WANTED.mean(0))


def test_options_are_copied():
    clip_norm, in_axes = {"w": 1.0, ...: 1.0}, {"params": None, ...: 0}
    over = ptk.clipped_grad(loss, clip_norm, in_axes=in_axes)
    before = over(PARAMS, XS, YS)[0]["w"]
    clip_norm["w"], in_axes["params"] = 0.0, 0
    near(over(PARAMS, XS, YS)[0]["w"], before)


# ---- annotations --------------------------------------------------------------------------------


def declared(w: Float[Array, " d"], x: Float[Array, " d"], y: Float[Array, ""]) -> Float[Array, ""]:
    return plain(w, x, y)


def test_annotations_of_one_example_are_held_against_calls():
    over, square = ptk.per_example_grad(declared), jnp.ones((2, 2))
    near(over(W, XS, YS), WANTED)
    assert [its.code for its in over.check(W, XS[:, :1], YS)] == ["PTK603"]
    assert [its.code for its in over.check(W, XS, XS)] == ["PTK602"]
    inferred = ptk.clipped_grad(declared, jnp.inf, in_axes="infer", mask="real")
    near(inferred(W, XS.T, YS, real=YS > 0)[0], WANTED[np.array(YS > 0)].sum(0))
    assert [its.code for its in inferred.check(W, square, YS[:2], real=YS[:2] > 0)] == ["PTK605"]


# ---- rules --------------------------------------------------------------------------------------


def test_rules_as_clip_norms_as_choices_and_as_axes():
    clip_norm = ptk.Rules([("w", 1.0), ("b", 2.0)])  # what is no float needs no rule
    over = ptk.clipped_grad(loss, clip_norm, mask="real")
    frozen = ptk.per_example_grad(loss, where=ptk.Rules([("b", False), ("w", True)]))
    by_path = ptk.Rules([("/params/**", None), ("**", 0)])
    axes = ptk.clipped_grad(plain, jnp.inf, in_axes=ptk.Rules([("/w", None), ("{x,y}", 0)]),
                            mask="real")  # fmt: skip
    assert ptk.per_example_grad(loss, in_axes=by_path).check(PARAMS, XS, YS) == ()

    @jit
    def outcomes():
        real = YS > 0
        return (
            over(PARAMS, XS, YS, real=real),
            frozen(PARAMS, XS, YS),
            axes(W, XS, YS, real=real)[0],
        )

    (gradient, info), left, total = outcomes()
    assert info.norms.keys() == {"w", "b"}
    assert jnp.linalg.norm(gradient["w"]) <= 3 + 1e-5
    assert left["b"] is None
    assert left["w"].shape == (4, 2)
    near(total, WANTED[np.array(YS > 0)].sum(0))
    bounds = dict(over.plan(PARAMS, XS, YS, real=YS > 0).bounds)
    assert bounds == {"clip_norm['w']": 1.0, "clip_norm['b']": 2.0}


def test_faults_of_rules():
    of_one = ptk.clipped_grad(loss, ptk.Rules([("w", 1.0)]))
    (fault,) = of_one.check(PARAMS, XS, YS)
    assert (fault.code, fault.place) == ("PTK305", "params['b']")
    with pytest.raises(ptk.SpecError, match=r"clip_norm\['w'\] = -1.0") as error:
        ptk.clipped_grad(loss, ptk.Rules([("w", -1.0)], default=len))
    assert [its.code for its in error.value.faults] == ["PTK404", "PTK404"]


@pytest.mark.parametrize("params", [None, {}, {"W": 1.0}, {"w": jnp.arange(3), "b": None}])
def test_a_loss_that_fails_hides_no_fault(params):
    """What the loss cannot be run on is told as what it is."""
    of_none = ptk.clipped_grad(loss, jnp.inf, mask="real")
    found = {fault.code for fault in of_none.check(params, XS, YS)}
    assert found == ({"PTK405"} if params and "W" in params else {"PTK402", "PTK405"})
    last = of_none.check(params, XS, YS)[-1]
    assert "the loss raises" in last.note
    with pytest.raises(ptk.SpecError):
        of_none(params, XS, YS)
    if params and "W" in params:
        with pytest.raises(KeyError, match="w"):
            of_none(params, XS, YS, real=YS > 0)
