"""Specs for the state of every optimizer of optax, beside what JAX's own types say of each."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .optax_optimizers import optimizers

MESH = {"data": 2, "model": 4}
EXPLICIT = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)

UNEXPLAINED = {
    "flatten": "the state has one vector, of all parameters in a row",
    "contrib.galore": "moments are those of gradients projected to another rank",
    "contrib.scale_by_galore": "as in contrib.galore",
}
"""Optimizers whose states are a fault, and why they should be."""

TYPES_LOST = {
    "lbfgs": "the memory is made by zeros of a shape, which have no sharding in their type",
    "scale_by_lbfgs": "as in lbfgs",
    "schedule-free L-BFGS": "as in lbfgs",
}
"""Optimizers of whose states JAX's types say less than we do, and why."""

SHAPES = {
    "square": (256, 256),
    "kernel": (256, 512),
    "stack": (4, 128, 256),
    "cube": (128, 128, 128),
    "experts": (8, 256, 256),
    "narrow": (16, 8),
    "bias": (512,),
    "scale": (),
}
SPECS = {
    "square": P("data", "model"),
    "kernel": P("model", "data"),
    "stack": P(None, "data", "model"),
    "cube": P("data", None, "model"),
    "experts": P("model", "data"),
    "narrow": P("data"),
    "bias": P("model"),
    "scale": P(),
}
PARAMS = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in SHAPES.items()}
OPTIMIZERS, LACKING = optimizers()


def typed(params: Any, specs: Any) -> Any:
    def one(leaf: Any, spec: P) -> Any:
        full = P(*spec, *[None] * (len(leaf.shape) - len(spec)))
        sharding = NamedSharding(EXPLICIT, full)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(one, params, specs)


def by_types(init: Any, params: Any, specs: Any) -> Any:
    """What sharding in types makes of a state."""
    with jax.sharding.use_abstract_mesh(EXPLICIT):
        state = jax.eval_shape(init, typed(params, specs))
    return ptk.spec_of(state)


def explained() -> dict[str, tuple[Any, Any]]:
    """The specs of each state by us and by JAX's types; codes where it is not explained."""
    found = {}
    for name, tx in OPTIMIZERS.items():
        state = jax.eval_shape(tx.init, PARAMS)
        try:
            specs = ptk.optimizer_specs(state, PARAMS, SPECS, init=tx, mesh=MESH)
        except ptk.SpecError as error:
            found[name] = sorted({fault.code for fault in error.faults}), None
            continue
        assert jax.tree.structure(specs) == jax.tree.structure(state)
        assert ptk.check_shardings(state, specs, mesh=MESH) == ()
        found[name] = specs, by_types(tx.init, PARAMS, SPECS)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[Any, Any]]:
    return explained()


def test_every_function_that_makes_an_optimizer_has_made_one() -> None:
    assert LACKING == []
    assert len(OPTIMIZERS) > 100


def test_every_state_is_explained_but_those_that_should_not_be(
    found: dict[str, tuple[Any, Any]],
) -> None:
    faulty = {name for name, (specs, _) in found.items() if isinstance(specs, list)}
    assert faulty == set(UNEXPLAINED)
    assert all(found[name][0] == ["PTK309"] for name in faulty)


def test_what_types_keep_is_what_we_say(found: dict[str, tuple[Any, Any]]) -> None:
    differing = {
        name: (specs, told)
        for name, (specs, told) in found.items()
        if name not in UNEXPLAINED and jax.tree.leaves(specs) != jax.tree.leaves(told)
    }
    assert differing.keys() == TYPES_LOST.keys()
    for specs, told in differing.values():  # there, types say nothing at all
        pairs = zip(jax.tree.leaves(specs), jax.tree.leaves(told), strict=True)
        assert {said for spec, said in pairs if spec != said} == {P()}


@pytest.mark.parametrize("size", [127, 128, 129, 256])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_factored_moments_without_init_are_as_with_it(size: int, rank: int) -> None:
    """Every shape of two sizes, so that the largest are equal, in each order."""
    shapes = itertools.product((size, 160) if rank < 4 else (size,), repeat=rank)
    params = {str(shape): jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes}
    specs = {name: P(*"abcd"[:rank]) for name in params}
    tx = optax.adafactor(1e-3)
    state = jax.eval_shape(tx.init, params)
    told = ptk.optimizer_specs(state, params, specs, init=tx)
    assert ptk.optimizer_specs(state, params, specs) == told
    assert len({str(spec) for spec in jax.tree.leaves(told)}) > 1
