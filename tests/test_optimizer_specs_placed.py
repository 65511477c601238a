"""States that are really placed on devices, and stepped there.

Of all optimizers of optax one in a few is stepped here, every one with any PYTREEKIT_EXAMPLES.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .optax_optimizers import by_rank, is_matrix, optimizers

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
EVERY = 1 if "PYTREEKIT_EXAMPLES" in os.environ else 12

ASK_FOR_MORE = {
    "a batch of gradients": ["contrib.differentially_private_aggregate", "contrib.dpsgd"],
    "the loss, or its value": [
        "contrib.hutchinson_estimator_diag_hessian", "contrib.momo", "contrib.momo_adam",
        "contrib.reduce_on_plateau", "contrib.sophia", "lbfgs", "polyak_sgd",
        "scale_by_backtracking_linesearch", "scale_by_polyak", "scale_by_zoom_linesearch",
        "schedule-free L-BFGS",
    ],
    "parameters of a type of its own": ["lookahead"],
    "masked gradients": ["contrib.scale_by_muon"],
    "no faultless specs": ["contrib.galore", "contrib.scale_by_galore", "flatten"],
}  # fmt: skip
"""Optimizers that are not stepped, by what they would need for it."""

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


def rows_of_optimizers() -> list[str]:
    left_out = [name for names in ASK_FOR_MORE.values() for name in names]
    found = optimizers()[0]
    assert set(left_out) <= set(found)
    return sorted(set(found) - set(left_out))


def test_states_of_optax_step_where_they_are_placed(mesh: jax.sharding.Mesh) -> None:
    whole, (found, _) = params(), optimizers()
    plan = ptk.ShardingPlan(whole, SPECS, mesh)
    placed = plan.place(whole)
    for name in rows_of_optimizers()[::EVERY]:
        tx = found[name]

        def step(params: Any, state: Any, tx: Any = tx) -> Any:
            grads = jax.tree.map(lambda leaf: jnp.tanh(leaf) + 0.1, params)
            return tx.update(grads, state, params)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that one is deprecated, that dtypes are cut
            state = tx.init(whole)
            its = plan.for_state(state, init=tx)
            wanted = jax.jit(step)(whole, state)
            got = jax.jit(step)(placed, its.place(state))
        assert its.verify(got[1]) == (), name  # as XLA likes it
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            if not jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)


def mislaid(states: Any, shardings: Any) -> list[str]:
    def is_other(leaf: Any, sharding: NamedSharding) -> bool:
        return not leaf.sharding.is_equivalent_to(sharding, leaf.ndim)

    odd = jax.tree.map(is_other, states, shardings)
    rows = jax.tree_util.tree_flatten_with_path(odd)[0]
    return [jax.tree_util.keystr(path) for path, is_odd in rows if is_odd]
