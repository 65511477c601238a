"""Checkpoints: saved under one plan and restored under another, nothing whole on any one device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

TREE = {
    "layers": [
        {"kernel": np.arange(64, dtype=np.float32).reshape(8, 8) + n, "bias": np.ones(8, "f")}
        for n in range(2)
    ],
    "table": np.arange(64, dtype=np.int32).reshape(16, 4),
}  # fmt: skip
RULES = [("kernel", "data model"), ("bias", "data"), ("table", "data+model _")]


def mesh(data: int, model: int, kind: AxisType = AxisType.Auto) -> Mesh:
    devices = np.array(jax.devices()[: data * model]).reshape(data, model)
    return Mesh(devices, ("data", "model"), axis_types=(kind, kind))


def largest(tree: Any) -> list[int]:
    """The most of each array that one device has."""
    return [max(s.data.size for s in leaf.addressable_shards) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(
    "other", [(4, 2, AxisType.Auto), (2, 2, AxisType.Auto), (2, 1, AxisType.Explicit)]
)
def test_restored_under_another_plan(tmp_path: Path, other: Any) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    saved = ptk.ShardingPlan(TREE, RULES, mesh(2, 4))
    plan = ptk.ShardingPlan(TREE, RULES, mesh(*other))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "saved", saved.place(TREE))
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "saved", plan.abstract())
    assert plan.verify(restored) == ()
    devices = other[0] * other[1]
    assert largest(restored) == [8 // other[0], 64 // devices] * 2 + [64 // devices]
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(np.all(np.asarray(a) == b)), restored, TREE))


@pytest.mark.filterwarnings("ignore:Sharding info not provided when restoring")
def test_a_state_restored_as_it_lies_on_disk_finds_its_specs(tmp_path: Path) -> None:
    ocp, optax = pytest.importorskip("orbax.checkpoint"), pytest.importorskip("optax")
    plan = ptk.ShardingPlan(TREE["layers"], RULES, mesh(2, 4))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adafactor(1e-3, 8, momentum=0.9))
    state = jax.device_get(optimizer.init(jax.tree.map(jnp.asarray, TREE["layers"])))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "saved", state)
        checkpointer.wait_until_finished()
        found = checkpointer.restore(tmp_path / "saved")  # dicts and lists: types are not saved
    assert jax.tree.structure(found) != jax.tree.structure(state)
    its, wanted = (plan.for_state(one, init=optimizer) for one in (found, state))
    assert its.verify(its.place(found)) == ()
    specs = {leaf.text: (leaf.found, leaf.spec) for leaf in wanted.leaves}
    assert {leaf.text: (leaf.found, leaf.spec) for leaf in its.leaves} == specs
    assert {spec for _, spec in specs.values()} >= {P("data"), P("model"), P("data", "model")}


def test_a_safetensors_file_is_read_into_shards(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    plan = ptk.ShardingPlan(TREE, RULES, mesh(2, 4))
    names = {leaf.text: f"model.{leaf.text.replace('/', '.')}" for leaf in plan.leaves}
    flat = dict(zip(names.values(), jax.tree.leaves(TREE), strict=True))
    half = {name: array.astype(jnp.bfloat16) for name, array in flat.items()}
    numpy.save_file(flat, tmp_path / "model.safetensors")
    numpy.save_file({**half, "model.step": np.array(3, np.int32)}, tmp_path / "half.safetensors")
    from safetensors import safe_open

    with safe_open(tmp_path / "model.safetensors", "numpy") as file:
        placed = plan.place(lambda path, leaf: file.get_slice(names[path]))
        dotted = ptk.Rules(RULES, split="/.")
        whole = ptk.ShardingPlan(flat, dotted, mesh(2, 4))
        assert whole.verify(whole.place({name: file.get_slice(name) for name in flat})) == ()
    assert plan.verify(placed) == ()
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(np.all(np.asarray(a) == b)), placed, TREE))
    with safe_open(tmp_path / "half.safetensors", "numpy") as file:
        with pytest.raises(ptk.SpecError) as caught:
            plan.place(lambda path, leaf: file.get_slice(names[path]))
        assert len(caught.value.faults) == len(names)
        placed = plan.place(lambda path, leaf: file.get_slice(names[path]), cast=True)
        step = ptk.ShardingPlan({"model.step": np.int32(0)}, P(), mesh(2, 4))
        assert step.place({"model.step": file.get_slice("model.step")})["model.step"] == 3
    assert plan.verify(placed) == ()
