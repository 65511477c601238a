"""Calls that have the faults of gradients: entered beside those of `fault_examples`."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .fault_examples import devices, example

PARAMS = {"w": jnp.ones(3), "b": jnp.zeros(())}
XS, YS = jnp.ones((8, 3)), jnp.ones(8)


def loss(params: Any, x: Any, y: Any) -> Any:
    """A loss of one example."""
    return (params["w"] @ x + params["b"] - y) ** 2


@example("PTK001")
def _() -> Any:
    return ptk.per_example_grad(loss, argnums=(0, -1, True))


@example("PTK001")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, method="ghosts", reduction="mean", normalize_by=0)


@example("PTK001")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, memory=0)


@example("PTK001")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, strict=True)


@example("PTK001")
def _() -> Any:
    return ptk.per_example_norms(loss, where={"w": jnp.ndim, ...: 1})(PARAMS, XS, YS)


@example("PTK105")
def _() -> Any:
    return ptk.per_example_grad(loss, argnums=("param", 3))


@example("PTK201")
def _() -> Any:
    return ptk.clipped_grad(loss, {"w": 1.0, "bias": 1.0})(PARAMS, XS, YS)


@example("PTK401")
def _() -> Any:
    return ptk.per_example_grad(loss, in_axes=0)(PARAMS, XS, YS)


@example("PTK401")
def _() -> Any:
    return ptk.per_example_grad(loss, in_axes=({"w": 0, "b": None}, 0, 0))(PARAMS, XS, YS)


@example("PTK401")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, argnums="params", in_axes=0)(x=XS, y=YS, params=PARAMS)


@example("PTK401")
def _() -> Any:
    return ptk.per_example_grad(loss, argnums=(0, 1), in_axes=(None, 0, 0))(PARAMS, XS, YS)


@example("PTK402")
def _() -> Any:
    return ptk.per_example_grad(loss)({"w": jnp.ones(3, int), "b": True, "act": "tanh"}, XS, YS)


@example("PTK402")
def _() -> Any:
    return ptk.per_example_norms(loss, argnums=("params", "x"), where=False)(PARAMS, XS[0], YS)


@example("PTK402")
def _() -> Any:
    return ptk.per_example_grad(lambda x, scale=None: x.sum(), argnums="scale")(XS)


@example("PTK403")
def _() -> Any:
    return ptk.per_example_grad(lambda w, x: w * x)(jnp.ones(3), XS)


@example("PTK403")
def _() -> Any:
    return ptk.clipped_grad(lambda w, x: (w * x).sum(), 1.0, has_aux=True)(jnp.ones(3), XS)


@example("PTK403")
def _() -> Any:
    statistics = ptk.gradient_statistics(lambda w, x: (jnp.vdot(w, x) > 0).astype(int))
    return statistics.plan(jnp.ones(3), XS)


@example("PTK403")
def _() -> Any:
    return ptk.per_example_norms(lambda z, x: jnp.sum(z * x))(jnp.ones(3, complex), XS)


@example("PTK404")
def _() -> Any:
    return ptk.clipped_grad(loss, -1.0)


@example("PTK404")
def _() -> Any:
    return ptk.clipped_grad(loss, {"w": math.nan, "b": None, "c": "1", "d": jnp.ones(2), "e": 1j})


@example("PTK404")
def _() -> Any:
    return ptk.clipped_grad(loss, {})


@example("PTK405")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, mask="y")


@example("PTK405")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, mask="real")(PARAMS, XS, YS)


@example("PTK405")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, mask="real")(PARAMS, XS, YS, real=YS)


@example("PTK406")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, reduction="mean")(PARAMS, XS[:0], YS[:0])


@example("PTK407")
def _() -> Any:
    return ptk.clipped_grad(loss, {"w": 1.0, "b": 2.0}, method="chunked")


def centred(w: Any, x: Any) -> Any:
    """A loss that would take in other examples."""
    return w @ (x - jax.lax.pmean(x, "data"))


def printed(w: Any, x: Any) -> Any:
    """A loss that prints in an order."""
    jax.debug.print("{}", x, ordered=True)
    return w @ x


@example("PTK408")
def _() -> Any:
    return ptk.clipped_grad(centred, 1.0)(PARAMS["w"], XS)


@example("PTK408")
def _() -> Any:
    over = jax.shard_map(
        ptk.per_example_grad(centred),
        mesh=devices(2), in_specs=(P(), P("data")), out_specs=P("data"),
    )  # fmt: skip
    return over(PARAMS["w"], XS)


@example("PTK409")
def _() -> Any:
    return ptk.clipped_grad(printed, 1.0, method="ghost")(PARAMS["w"], XS)


@example("PTK410")
def _() -> Any:
    options: Any = {"method": "ghost", "chunk_size": 8, "memory": 16, "strict": True}
    over = ptk.clipped_grad(loss, 1.0, **options)
    return over.plan({"w": jnp.ones(3), "b": jnp.ones(())}, XS, YS)


@example("PTK410")
def _() -> Any:
    def scaled(params: Any, x: Any, y: Any) -> Any:
        return jnp.sum(params["w"] * x - y)

    return ptk.clipped_grad(scaled, 1.0, memory=8, strict=True)({"w": jnp.ones(3)}, XS, YS)


@example("PTK101")
def _() -> Any:
    return ptk.per_example_grad(loss)(PARAMS, XS, 1.0)


@example("PTK102")
def _() -> Any:
    return ptk.clipped_grad(loss, 1.0, mask="real")(PARAMS, XS, YS, real=jnp.ones(7, bool))


@example("PTK103")
def _() -> Any:
    return ptk.gradient_statistics(loss).plan(PARAMS)
