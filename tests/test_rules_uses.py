"""Rules at work: boxes of frameworks, masks and labels of optax, axes of vmap, halves of a tree."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.core import meta
from jaxtyping import Array, Float

import pytreekit as ptk

PARAMS = {
    "encoder": {
        "kernel": jnp.full((2, 3), 2.0),
        "bias": jnp.ones(3),
        "norm": {"scale": jnp.ones(3)},
    },
    "head": {"kernel": jnp.full((3, 1), 2.0), "bias": jnp.ones(1)},
}
ZEROS = jax.tree.map(jnp.zeros_like, PARAMS)


def texts(tree: Any) -> list[str]:
    found = ptk.Rules(default=0).assign(tree)
    return [found.text(index) for index in range(len(found.leaves))]


# ---- boxes --------------------------------------------------------------------------------------

BOXED = meta.Partitioned(jnp.ones(2), names=("model",))
VARIABLES = nnx.state(nnx.Linear(2, 3, rngs=nnx.Rngs(0)))


def test_a_path_ends_at_the_box_of_an_array() -> None:
    class Dense(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            init = nn.with_logical_partitioning(nn.initializers.ones, ("embed", "mlp"))
            return nn.Dense(3, kernel_init=init)(x)

    linen = jax.eval_shape(Dense().init, jax.random.key(0), jnp.ones(2))
    assert texts(linen) == ["params/Dense_0/bias", "params/Dense_0/kernel"]
    assert texts(VARIABLES) == ["bias", "kernel"]
    moments = optax.adam(1e-3).init(VARIABLES)
    assert texts(moments) == [
        "0/count",
        *(f"0/{m}/{w}" for m in ("mu", "nu") for w in texts(VARIABLES)),
    ]
    rules = ptk.Rules([("kernel", "k"), ("**", "-")])
    assert rules(linen)["params"]["Dense_0"]["kernel"].value == "k"
    assert rules(VARIABLES)["kernel"].get_value() == "k"
    assert rules(moments)[0].mu["kernel"].get_value() == "k"


def test_a_key_is_no_box_for_its_word() -> None:
    assert texts({"value": jnp.ones(2), "box": {"value": BOXED}, "list": [BOXED]}) == [
        "box/value", "list/0", "value"
    ]  # fmt: skip
    assert texts(BOXED) == [""]
    assert texts({"a": meta.Partitioned(BOXED, names=())}) == ["a"]
    assert texts({"a": meta.Partitioned({"b": 1, "c": [2]}, names=()), "d": 3}) == [
        "a/value/b", "a/value/c/0", "d"
    ]  # fmt: skip
    assert texts({"a": meta.Partitioned(None, names=()), "b": 1}) == ["b"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Named:
    """As the named arrays of haliax are."""

    array: Any
    axes: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Scaled(Named):
    """A box of two arrays."""

    scale: Any = 1.0


def test_users_register_boxes() -> None:
    tree = {"w": Named(1.0, ("x",)), "q": Scaled(1.0)}
    rules = ptk.Rules([("w", 1), ("**", 0)])
    assert texts(tree) == ["q/array", "q/scale", "w/array"]
    assert rules.assign(tree).numbers == rules.assign(tree).numbers == [1, 1, 1]
    assert ptk.register_box(Named) is Named
    assert texts(tree) == ["q", "q", "w"]
    assert rules(tree) == {"w": Named(1, ("x",)), "q": Scaled(0, scale=0)}  # not what was known
    past_the_hook = inspect.unwrap(ptk.register_box)
    with pytest.raises(ptk.SpecError, match="must be a class, this is a Named"):
        past_the_hook(tree["w"])


# ---- optax --------------------------------------------------------------------------------------

DECAY = ptk.Rules([("{bias,scale}", False), ("**", True)])


def test_a_mask_for_weight_decay() -> None:
    tx = optax.add_decayed_weights(0.5, mask=DECAY)  # a function of the parameters
    updates, _ = tx.update(ZEROS, tx.init(PARAMS), PARAMS)
    assert jax.tree.map(lambda update: float(update.max()), updates) == {
        "encoder": {"kernel": 1.0, "bias": 0.0, "norm": {"scale": 0.0}},
        "head": {"kernel": 1.0, "bias": 0.0},
    }
    adamw = optax.adamw(0.1, weight_decay=0.5, mask=DECAY(PARAMS))
    updates, _ = adamw.update(ZEROS, adamw.init(PARAMS), PARAMS)
    assert float(updates["head"]["kernel"][0, 0]) == pytest.approx(-0.1)
    assert float(updates["head"]["bias"][0]) == 0.0


def test_a_mask_of_a_transformation() -> None:
    tx = optax.masked(optax.scale(0.0), ptk.Rules([("encoder/**", True)], default=False))
    updates, _ = tx.update(PARAMS, tx.init(PARAMS))
    assert not updates["encoder"]["norm"]["scale"].any()
    assert updates["head"] is not None
    np.testing.assert_array_equal(updates["head"]["kernel"], PARAMS["head"]["kernel"])


def test_labels_of_several_optimizers() -> None:
    labels = ptk.Rules([("head/**", "fast"), ("scale", "frozen"), ("**", "slow")])
    tx = optax.multi_transform(
        {"fast": optax.sgd(1.0), "slow": optax.sgd(0.25), "frozen": optax.set_to_zero()}, labels
    )
    ones = jax.tree.map(jnp.ones_like, PARAMS)
    updates, _ = jax.jit(tx.update)(ones, tx.init(PARAMS))
    assert jax.tree.map(lambda update: float(update.min()), updates) == {
        "encoder": {"kernel": -0.25, "bias": -0.25, "norm": {"scale": 0.0}},
        "head": {"kernel": -1.0, "bias": -1.0},
    }


# ---- halves of a tree, axes ---------------------------------------------------------------------


def test_rules_choose_what_is_trained() -> None:
    trained, frozen = ptk.partition(PARAMS, ptk.Rules([("head/**", True)], default=False))
    assert jax.tree.leaves(trained) == jax.tree.leaves(PARAMS["head"])
    assert jax.tree.structure(ptk.combine(trained, frozen)) == jax.tree.structure(PARAMS)
    assert (
        ptk.partition(PARAMS, {"encoder": ptk.Rules([("/bias", True)], default=False), ...: False})[
            0
        ]["encoder"]["bias"]
        is PARAMS["encoder"]["bias"]
    )
    with pytest.raises(ptk.SpecError) as caught:
        ptk.partition(PARAMS, ptk.Rules([("kernel", True), ("bias", 1)]))
    assert [(fault.code, fault.path) for fault in caught.value.faults] == [
        ("PTK305", "['encoder']['norm']['scale']")
    ]  # fmt: skip
    axes = ptk.axes_like(PARAMS, 0, ptk.Rules([("kernel", True)], default=False))
    assert axes["head"] == {"kernel": 0, "bias": None}


def apply(params: Any, x: Any, *, scale: Any = 1.0) -> Any:
    hidden = x @ params["encoder"]["kernel"] + params["encoder"]["bias"]
    return scale * hidden @ params["head"]["kernel"] + params["head"]["bias"]


def test_rules_as_axes_of_all_arguments() -> None:
    xs = jnp.arange(8.0).reshape(4, 2)
    rules = ptk.Rules([("params/**", None), ("x", 0), ptk.optional("scale", 0)])
    mapped = ptk.vmap(apply, in_axes=rules)
    np.testing.assert_allclose(mapped(PARAMS, xs), jax.vmap(apply, (None, 0))(PARAMS, xs))
    jaxprs = [
        str(jax.make_jaxpr(f)(PARAMS, xs)) for f in (mapped, jax.vmap(apply, in_axes=(None, 0)))
    ]
    assert jaxprs[0] == jaxprs[1]
    assert {leaf.axis for leaf in mapped.plan(PARAMS, xs, scale=jnp.ones(4)).leaves} == {None, 0}
    assert mapped.check(PARAMS, xs, scale=jnp.ones(5))[0].code == "PTK102"


def test_rules_as_axes_of_one_argument() -> None:
    members = {**PARAMS, "head": ptk.stack([PARAMS["head"]] * 4)}
    rules = ptk.Rules([("/head/**", 0)], default=None)
    xs = jnp.ones((4, 2))
    wanted = jax.vmap(apply, ({"encoder": None, "head": 0}, 0))(members, xs)
    for in_axes in (
        (rules, 0),
        {"params": rules, "x": 0},
        (ptk.Rules({"head/*": 0}, default=None), 0),
    ):
        np.testing.assert_allclose(ptk.vmap(apply, in_axes=in_axes)(members, xs), wanted)
    split = ptk.Rules([("key", ptk.SPLIT), ("**", ptk.if_array(0))])
    drawn = ptk.vmap(lambda key, act, x: act(x) + jax.random.normal(key), in_axes=split)
    assert drawn(jax.random.key(0), jnp.tanh, jnp.ones(3)).shape == (3,)


def test_what_is_wrong_with_rules_as_axes_is_told() -> None:
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(apply, in_axes=ptk.Rules([("x", "data"), ("params/**", None)], default=1.5))
    assert [(fault.code, fault.spec_path) for fault in caught.value.faults] == [
        ("PTK107", "in_axes['x']"), ("PTK107", "in_axes.default")
    ]  # fmt: skip
    mapped = ptk.vmap(apply, in_axes=ptk.Rules([("kernel", 5), ("x", 0), ("{bias,scale}", None)]))
    with pytest.raises(ptk.SpecError) as caught:
        mapped(PARAMS, jnp.ones((4, 2)))
    assert {(fault.code, fault.spec_path) for fault in caught.value.faults} == {
        ("PTK101", "in_axes['kernel']")
    }
    assert caught.value.repaired is not None
    assert ptk.vmap(apply, in_axes=caught.value.repaired).check(PARAMS, jnp.ones((4, 2))) == ()


def test_rules_of_any_value_are_bound() -> None:
    bound = ptk.bind(ptk.Rules([("kernel", "k")], default="-"), PARAMS, name="params")
    assert not bound.faults
    assert [value for _, _, _, value in bound] == ["-", "k", "-", "-", "k"]


def test_annotations_are_held_against_rules() -> None:
    def layer(w: Float[Array, "d k"], x: Float[Array, " d"]) -> Any:
        return x @ w

    square = jnp.ones((3, 3))
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(layer, in_axes=ptk.Rules({"**": 0}))(square, square)
    assert [(fault.code, fault.spec_path) for fault in caught.value.faults] == [
        ("PTK602", "in_axes['**']")
    ]
    assert caught.value.repaired == ptk.Rules({"/w": None, "**": 0})
