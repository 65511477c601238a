"""Steps with each code of dry runs. Their messages name lines of this file."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .fault_examples import example

MESH = {"data": 4}


def on_mesh(spec: P, *sizes: int) -> Any:
    """A shape, laid out."""
    its = jax.ShapeDtypeStruct(sizes, jnp.float32)
    return ptk.ShardingPlan(its, spec, MESH).abstract()


def raised(step: Any, *args: Any, mesh: Any = None) -> None:
    """Raise what a dry run finds, which is nothing that it would raise."""
    found = ptk.dry_run(step, *args, mesh=mesh).findings
    ptk.raise_faults(found, doing=f"dry_run({step.__name__})")


@example("PTK701")
def _() -> Any:
    def step(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x

    return ptk.dry_run(step, jnp.ones(32), mesh={"data": 16})


@example("PTK702")
def _() -> Any:
    def step(x: Any) -> Any:
        return jax.ffi.ffi_call("not_there", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    return ptk.dry_run(step, jnp.ones(8), mesh=MESH)


@example("PTK751")
def _() -> Any:
    def step(x: Any) -> Any:
        return jnp.cumsum(x, axis=0)

    return raised(step, on_mesh(P("data"), 64, 32))


@example("PTK752")
def _() -> Any:
    def step(params: Any) -> Any:
        mesh = on_mesh(P(), 1).sharding.mesh
        whole = jax.sharding.NamedSharding(mesh, P())
        return {"w": jax.lax.with_sharding_constraint(params["w"] + 1, whole)}

    return raised(step, {"w": on_mesh(P("data"), 8)})


@example("PTK753")
def _() -> Any:
    def step(x: Any) -> Any:
        return x + 1

    return raised(step, jnp.ones(8), mesh=MESH)


@example("PTK754")
def _() -> Any:
    def step(w: Any, batches: Any) -> Any:
        def one(total: Any, x: Any) -> Any:
            return total + jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w), None

        return jax.lax.scan(one, jnp.zeros_like(w), batches)[0]

    return raised(step, on_mesh(P(), 16, 16), on_mesh(P(None, "data"), 5, 8, 16))
