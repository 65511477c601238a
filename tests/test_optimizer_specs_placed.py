"""States that are really placed on devices, and stepped there."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .optax_optimizers import by_rank, is_matrix

OPTIMIZERS = {
    "adamw": optax.adamw(1e-2, mask=is_matrix),
    "adafactor": optax.adafactor(1e-2, min_dim_size_to_factor=8, momentum=0.9),
    "sm3": optax.sm3(1e-2),
    "novograd": optax.novograd(1e-2),
    "lbfgs": optax.lbfgs(1e-2, memory_size=3, linesearch=None),
    "partition": optax.partition(
        {"a": optax.adam(1e-2), "b": optax.sgd(1e-2, 0.9)},
        lambda params: by_rank(params, "a", "b"),
    ),
}
SPECS = {"kernel": P("data", "model"), "square": P("model", "data"), "bias": P("model")}


def params() -> dict[str, Any]:
    keys = iter(jax.random.split(jax.random.key(0), 3))
    shapes = {"kernel": (8, 16), "square": (16, 16), "bias": (16,)}
    return {name: jax.random.normal(next(keys), shape) for name, shape in shapes.items()}


def init(params: Any) -> dict[str, Any]:
    return {name: tx.init(params) for name, tx in OPTIMIZERS.items()}


def step(params: Any, states: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """One update by each optimizer."""
    grads = jax.tree.map(lambda leaf: jnp.tanh(leaf) + 0.1, params)
    rows = {name: tx.update(grads, states[name], params) for name, tx in OPTIMIZERS.items()}
    updated = {name: updates for name, (updates, _) in rows.items()}
    return updated, {name: state for name, (_, state) in rows.items()}


@pytest.fixture(scope="module")
def mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def test_a_placed_state_steps_as_one_that_is_not(mesh: jax.sharding.Mesh) -> None:
    whole = params()
    specs = ptk.optimizer_specs(jax.eval_shape(init, whole), whole, SPECS, init=init, mesh=mesh)
    shardings = ptk.named_shardings(mesh, specs)
    placed = jax.device_put(whole, ptk.named_shardings(mesh, SPECS))
    states = jax.jit(init, out_shardings=shardings)(placed)
    assert ptk.spec_of(states) == specs
    assert jax.tree.leaves(states)[1].sharding.num_devices == 8

    stepping = jax.jit(step)
    wanted = stepping(whole, stepping(whole, jax.jit(init)(whole))[1])
    _, once = stepping(placed, states)
    # XLA was free to lay out the new state as it likes.
    assert mislaid(once, shardings) == []
    got = stepping(placed, once)
    assert mislaid(got[1], shardings) == []
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def mislaid(states: Any, shardings: Any) -> list[str]:
    def is_other(leaf: Any, sharding: NamedSharding) -> bool:
        return not leaf.sharding.is_equivalent_to(sharding, leaf.ndim)

    odd = jax.tree.map(is_other, states, shardings)
    rows = jax.tree_util.tree_flatten_with_path(odd)[0]
    return [jax.tree_util.keystr(path) for path, is_odd in rows if is_odd]
