"""None, shared arguments and PRNG keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from . import Setup, X, add, case


def noisy(x, key):
    return x + jax.random.normal(key, x.shape)


def squared(params, x):
    """A loss of one example."""
    return (jnp.sum(params["w"] * x)) ** 2


@case(
    "none-instead-of-zero-labels",
    "labels left unmapped: loss becomes an N x N matrix",
    accepts=True,
    silent=True,
    param="y",
    shape="(3,)",
    axis=0,
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda x, y: (x.sum() - y) ** 2,
        args=(X(), jnp.ones(3)),
        in_axes=(0, None),
        verify=lambda r: r.shape == (3, 3),
    )


@case(
    "none-prefix-over-batch-dict",
    "None covers a batch dict with the labels inside",
    accepts=True,
    silent=True,
    param="batch",
    path="batch['y']",
    shape="(3,)",
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda batch: batch["x"].sum() * batch["y"],
        args=({"x": X(), "y": jnp.ones(3)},),
        in_axes=({"x": 0, "y": None},),
        verify=lambda r: r.shape == (3, 3),
    )


@case(
    "per-example-grad-params-mapped",
    "per-example gradient with params mapped too",
    accepts=True,
    silent=True,
    issue="flax#858",
    param="params",
    path="params['w']",
    shape="(3, 2)",
    axis=0,
    sizes=(3,),
)
def _():
    return Setup(
        f=jax.grad(squared),
        args=({"w": jnp.ones((3, 2))}, X()),
        in_axes=0,
        verify=lambda r: r["w"].shape == (3, 2),
    )  # wanted (3, 3, 2)


@case("per-example-grad-ok", "per-example gradient done right", accepts=True, issue="flax#858")
def _():
    return Setup(
        f=jax.grad(squared),
        args=({"w": jnp.ones(2)}, X()),
        in_axes=(None, 0),
        verify=lambda r: r["w"].shape == (3, 2),
    )


@case(
    "all-none",
    "every argument unmapped and no axis_size",
    accepts=False,
    issue="jax#5021",
    path="in_axes",
)
def _():
    return Setup(f=add, args=(X(), X()), in_axes=(None, None))


@case(
    "all-none-with-axis-size",
    "everything unmapped but axis_size given: N identical copies",
    accepts=True,
    silent=True,
    issue="jax#5021",
    axis=None,
    sizes=(4,),
)
def _():
    return Setup(
        f=add, args=(X(), X()), in_axes=None, axis_size=4, verify=lambda r: r.shape == (4, 3, 2)
    )


@case(
    "only-none-argument", "the only argument is None", accepts=False, issue="jax#8403", param="mask"
)
def _():
    return Setup(f=lambda mask: 1.0, args=(None,), in_axes=0)


@case("optional-none-under-zero-ok", "optional argument None under axis 0", accepts=True)
def _():
    return Setup(
        f=lambda x, mask: x if mask is None else x * mask,
        args=(X(), None),
        in_axes=(0, 0),
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "optional-none-under-tuple",
    "optional argument None where in_axes has a tuple",
    accepts=False,
    param="mask",
    path="in_axes[1]",
)
def _():
    return Setup(f=lambda x, mask: x, args=(X(), None), in_axes=(0, (0, 1)))


@case(
    "tree-map-drops-none-axes",
    "in_axes produced by tree.map over a tree with None leaves",
    accepts=True,
)
def _():
    params = {"w": X(), "b": None}
    return Setup(
        f=lambda params: params["w"],
        args=(params,),
        in_axes=(jax.tree.map(lambda _: 0, params),),
        verify=lambda r: r.shape == (3, 2),
    )


@case(
    "tree-map-over-axes-drops-none",
    "axes post-processed with tree.map silently skip their None entries",
    accepts=True,
    silent=True,
    param="y",
    path="in_axes[1]",
    shape="(3, 3)",
    sizes=(3,),
)
def _():
    axes = (0, None)
    axes = jax.tree.map(lambda a: 0, axes)  # 'map everything now' - leaves the None alone
    return Setup(
        f=lambda x, y: x + y,
        args=(jnp.ones((3, 3)), jnp.ones((3, 3))),
        in_axes=axes,
        verify=lambda r: r.shape == (3, 3, 3),
    )


@case(
    "unmapped-size-mismatch-hidden",
    "a leaf under None with a wrong length is never checked",
    accepts=True,
)
def _():
    return Setup(
        f=lambda x, mask: x.sum() * mask,
        args=(X(), jnp.ones(5)),
        in_axes=(0, None),
        verify=lambda r: r.shape == (3, 5),
    )


@case(
    "typed-key-unsplit-under-zero",
    "one typed key under 0",
    accepts=False,
    param="key",
    shape="()",
    axis=0,
)
def _():
    return Setup(f=noisy, args=(X(), jax.random.key(0)), in_axes=0)


@case(
    "raw-key-unsplit-batch-three",
    "one raw uint32 key under 0, batch 3",
    accepts=False,
    issue="jax#20474",
    param="key",
    shape="(2,)",
    axis=0,
    sizes=(3, 2),
)
def _():
    return Setup(f=noisy, args=(X(), jax.random.PRNGKey(0)), in_axes=0)


@case(
    "raw-key-under-none-same-noise",
    "raw key under None: same noise",
    accepts=True,
    silent=True,
    param="key",
    shape="(2,)",
    sizes=(3,),
)
def _():
    return Setup(
        f=noisy,
        args=(jnp.zeros((3, 2)), jax.random.PRNGKey(0)),
        in_axes=(0, None),
        verify=lambda r: bool((r == r[0]).all()),
    )


@case(
    "key-inside-state-under-none",
    "dropout key inside a state dict under None",
    accepts=True,
    silent=True,
    param="state",
    path="state['rng']",
    shape="()",
    sizes=(3,),
)
def _():
    return Setup(
        f=lambda state, x: x * jax.random.bernoulli(state["rng"], 0.5, x.shape),
        args=({"w": jnp.ones(2), "rng": jax.random.key(1)}, jnp.ones((3, 2))),
        in_axes=(None, 0),
        verify=lambda r: bool((r == r[0]).all()),
    )


@case(
    "ensemble-init-same-key",
    "ensemble init by axis_size with a shared key: N identical members",
    accepts=True,
    silent=True,
    param="key",
    shape="()",
    sizes=(4,),
)
def _():
    return Setup(
        f=lambda key: jax.random.normal(key, (2,)),
        args=(jax.random.key(0),),
        in_axes=None,
        axis_size=4,
        verify=lambda r: r.shape == (4, 2) and bool((r == r[0]).all()),
    )


@case(
    "keys-split-wrong-count",
    "keys split for another batch size",
    accepts=False,
    param="key",
    shape="(4,)",
    axis=0,
    sizes=(3, 4),
)
def _():
    return Setup(f=noisy, args=(X(), jax.random.split(jax.random.key(0), 4)), in_axes=0)


@case(
    "legit-shared-square-weight",
    "shared square weight whose size equals the batch size",
    accepts=True,
)
def _():
    return Setup(
        f=lambda w, x: w @ x,
        args=(jnp.eye(3), jnp.arange(9.0).reshape(3, 3)),
        in_axes=(None, 0),
        verify=lambda r: bool((r == jnp.arange(9.0).reshape(3, 3)).all()),
    )


@case("legit-all-pairs", "self-distances: the same array mapped and shared", accepts=True)
def _():
    x = X()
    return Setup(
        f=lambda a, b: ((a - b) ** 2).sum(-1),
        args=(x, x),
        in_axes=(0, None),
        verify=lambda r: r.shape == (3, 3) and bool((jnp.diag(r) == 0).all()),
    )


@case("legit-common-random-numbers", "one key shared on purpose", accepts=True)
def _():
    return Setup(
        f=lambda theta, key: theta + jax.random.normal(key, ()),
        args=(jnp.arange(3.0), jax.random.key(0)),
        in_axes=(0, None),
        verify=lambda r: abs(float((r - jnp.arange(3.0)).std())) < 1e-6,
    )
