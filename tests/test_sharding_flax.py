"""Metadata of flax, read by its own functions: linen boxes and nnx Variables."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .sharding_cases import CUBE, TABLE, shape
from .telling import refused


class Mlp(nn.Module):
    """One layer with logical names, one with mesh axes."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        zeros = nn.initializers.zeros_init()
        up = nn.with_logical_partitioning(zeros, ("embed", "mlp"))
        x = nn.Dense(16, kernel_init=up, name="up")(x)
        return nn.Dense(8, kernel_init=nn.with_partitioning(zeros, ("tp", None)), name="down")(x)


def linen() -> Any:
    return jax.eval_shape(lambda: Mlp().init(jax.random.key(0), jnp.ones((1, 8))))


def state() -> Any:
    init = nnx.with_partitioning(nnx.initializers.zeros_init(), ("embed", "mlp"))
    with nnx.use_eager_sharding(False):  # the names are no mesh axes
        model = nnx.eval_shape(lambda: nnx.Linear(8, 16, kernel_init=init, rngs=nnx.Rngs(0)))
    return nnx.state(model)


def test_linen_metadata_alone() -> None:
    plan = ptk.partition_plan(linen(), mesh=CUBE, axes=TABLE)
    specs = {leaf.text: leaf.spec for leaf in plan.leaves}
    assert specs == {
        "params/down/bias": P(), "params/down/kernel": P("tp"),
        "params/up/bias": P(), "params/up/kernel": P("fsdp", "tp"),
    }  # fmt: skip
    assert {note.kind for note in plan.notes} == {"defaulted", "idle-axis"}
    assert jax.tree.structure(plan.specs) == jax.tree.structure(linen())


def test_nnx_metadata_alone() -> None:
    plan = ptk.partition_plan(state(), mesh=CUBE, axes=TABLE)
    assert [leaf.spec for leaf in plan.leaves] == [P(), P("fsdp", "tp")]
    assert jax.tree.structure(plan.specs) == jax.tree.structure(state())


@pytest.mark.parametrize("tree", [linen(), state()], ids=["linen", "nnx"])
def test_rules_win_and_what_differs_is_noted(tree: Any) -> None:
    rules = ptk.Rules([("{up/kernel,kernel}", "_ fsdp")], default="_")
    plan = ptk.partition_plan(tree, rules, mesh=CUBE, axes=TABLE)
    assert P(None, "fsdp") in {leaf.spec for leaf in plan.leaves}
    notes = [note for note in plan.notes if note.kind == "metadata"]
    assert any("P('embed', 'mlp')" in note.note for note in notes)


def test_metadata_serve_where_no_rule_matches() -> None:
    specs = ptk.partition_specs(linen(), [("bias", "_")], mesh=CUBE, axes=TABLE)
    assert set(jax.tree.leaves(specs)) == {P(), P("tp"), P("fsdp", "tp")}


def test_metadata_may_speak_of_a_stack_or_not() -> None:
    for names in (("layers", "embed", "mlp"), ("embed", "mlp")):
        tree = {"w": nn.LogicallyPartitioned(shape(3, 8, 16), names=names)}
        specs = ptk.partition_specs(tree, mesh=CUBE, axes=TABLE, stack={"w": 0})
        assert jax.tree.leaves(specs) == [P(None, "fsdp", "tp")]


def test_faults_of_metadata() -> None:
    with pytest.raises(ptk.SpecError) as caught:
        ptk.partition_specs(linen(), mesh=CUBE, axes=[("embed", "fsdp")])
    (fault,) = caught.value.faults
    assert (fault.code, fault.spec_path) == ("PTK307", "metadata")
    assert "'mlp'" in fault.fact
    found = refused(ptk.partition_specs, {"w": shape(8)}, mesh=CUBE)
    assert found == [("PTK001", "")]


def test_boxes_stay_in_what_is_put() -> None:
    mesh = jax.make_mesh((2, 2, 2), ("data", "fsdp", "tp"))
    params = Mlp().init(jax.random.key(0), jnp.ones((1, 8)))
    shardings = ptk.named_shardings(mesh, ptk.partition_specs(params, mesh=mesh, axes=TABLE))
    assert ptk.check_shardings(params, shardings) == ()
    placed = jax.device_put(params, shardings)
    assert set(jax.tree.leaves(ptk.spec_of(placed))) == {P(), P("tp"), P("fsdp", "tp")}
