"""`ptk.check_shardings`, `ptk.named_shardings`, `ptk.spec_of`: shardings beside trees."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .sharding_cases import SMALL, nested, shape
from .telling import refused

MESH = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "tp"))
TREE = nested({"a/w": (6, 8), "a/b": (8,), "c": ()})


def on(*entries: Any) -> NamedSharding:
    return NamedSharding(MESH, P(*entries))


def told(faults: tuple[ptk.Fault, ...]) -> list[tuple[str, str, str]]:
    return [(fault.code, fault.place, fault.spec_path) for fault in faults]


def test_every_leaf_that_jax_would_refuse() -> None:
    shardings = {"a": {"w": on("tp", "data"), "b": on("tp", None)}, "c": on(None)}
    assert told(ptk.check_shardings(TREE, shardings)) == [
        ("PTK302", "tree['a']['b']", "shardings['a']['b']"),
        ("PTK303", "tree['a']['w']", "shardings['a']['w']"),
        ("PTK302", "tree['c']", "shardings['c']"),
    ]
    assert ptk.check_shardings(TREE, {"a": on(), "c": None}) == ()
    assert ptk.check_shardings(TREE, on()) == ()


def test_a_prefix_that_is_none() -> None:
    found = ptk.check_shardings(TREE, {"a": [on()], "d": on()})
    assert {fault.code for fault in found} == {"PTK201", "PTK202"}


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class One:
    w: Any
    b: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Other:
    w: Any
    b: Any


class Unequal:
    """A node whose static data has no truth value."""

    def __init__(self, w: Any) -> None:
        self.w = w


jax.tree_util.register_pytree_node(
    Unequal, lambda node: ((node.w,), np.ones(3)), lambda static, children: Unequal(*children)
)


def test_nodes_that_are_alike_and_not_the_same() -> None:
    leaf = shape(8, 8)
    faults = ptk.check_shardings(One(leaf, leaf), Other(on(), on()))
    assert told(faults) == [("PTK202", "tree", "shardings")]
    faults = ptk.check_shardings({"a": Unequal(leaf), "b": leaf}, {"a": Unequal(on()), "b": on()})
    assert told(faults) == [("PTK204", "tree['a']", "shardings['a']")]
    assert ptk.check_shardings({"a": Unequal(leaf), "b": leaf}, {"a": on(), "b": on()}) == ()


def test_what_no_tree_of_shardings_holds() -> None:
    values = {
        "dots": P(..., "tp"),
        "tuple": ("tp", None),
        "text": "tp",
        "number": 3,
        "nested": P(("tp", None)),
        "empty": P(("tp", "")),
        "free": P(P.UNCONSTRAINED),
        "twice": P("tp", "tp"),
        "long": P("data", None, None),
        "slip": P("dta"),
        "fine": P("tp"),
        "none": None,
    }
    tree = dict.fromkeys(values, shape(8, 8))
    codes = {f.path[2:-2]: f.code for f in ptk.check_shardings(tree, values, mesh=SMALL)}
    assert codes == {
        "dots": "PTK001", "tuple": "PTK202", "text": "PTK001", "number": "PTK001",
        "nested": "PTK001", "empty": "PTK301", "free": "PTK001", "twice": "PTK304",
        "long": "PTK302", "slip": "PTK301",
    }  # fmt: skip


def test_specs_need_a_mesh() -> None:
    assert told(ptk.check_shardings(TREE, {"a": P("x", "x"), "c": P()})) == [
        ("PTK001", "", "mesh"),
        ("PTK302", "tree['a']['b']", "shardings['a']"),
        ("PTK304", "tree['a']['w']", "shardings['a']"),
    ]
    with jax.set_mesh(MESH):
        assert [its[0] for its in told(ptk.check_shardings(TREE, P("tp")))] == ["PTK303", "PTK302"]
    assert ptk.check_shardings(TREE["a"], P(), mesh=MESH) == ()


def test_other_shardings_say_themselves() -> None:
    one = SingleDeviceSharding(jax.devices()[0])
    assert ptk.check_shardings(TREE, {"a": one, "c": jax.devices()[1]}) == ()
    assert ptk.check_shardings(TREE, {"a": one, "c": jax.memory.Space.Device}) == ()
    assert [its[0] for its in told(ptk.check_shardings(TREE, {"a": one, "c": 1}))] == ["PTK001"]


def test_named_shardings() -> None:
    specs = {"a": [P("tp"), None], "b": P(None, "data")}
    assert ptk.named_shardings(MESH, specs) == {"a": [on("tp"), None], "b": on(None, "data")}
    abstract = ptk.named_shardings(SMALL, P("tp"))
    assert isinstance(abstract.mesh, AbstractMesh)
    assert set(abstract.mesh.axis_types) == {AxisType.Auto}
    plan = ptk.partition_plan(TREE, [("**", None)], mesh=SMALL)
    assert ptk.named_shardings(MESH, plan) == {"a": {"w": on(), "b": on()}, "c": on()}
    with jax.set_mesh(MESH):
        assert ptk.named_shardings(None, P("tp")).mesh.axis_names == ("data", "tp")


def test_named_shardings_of_what_is_none() -> None:
    specs = {"a": P("tp"), "b": P("dta"), "c": ("tp", 3), "d": P("tp", "tp"), "e": P(..., "tp")}
    with pytest.raises(ptk.SpecError) as caught:
        ptk.named_shardings(MESH, specs)
    assert [(fault.code, fault.spec_path) for fault in caught.value.faults] == [
        ("PTK301", "specs['b']"), ("PTK001", "specs['c'][0]"), ("PTK001", "specs['c'][1]"),
        ("PTK304", "specs['d']"), ("PTK001", "specs['e']"),
    ]  # fmt: skip
    assert refused(ptk.named_shardings, MESH, {1: P(), "a": P()}) == [("PTK104", "specs")]
    assert refused(ptk.named_shardings, "mesh", P()) == [("PTK001", "")]


def test_what_arrays_have_now() -> None:
    arrays = {
        "split": jax.device_put(jnp.zeros((8, 8)), on("data", None)),
        "both": jax.device_put(jnp.zeros((8, 8)), on(None, ("data", "tp"))),
        "shape": jax.ShapeDtypeStruct((8,), "float32", sharding=on(("tp",))),
        "one": jnp.zeros(8),
        "numpy": np.zeros(8),
        "number": 1.0,
        "none": None,
    }
    assert ptk.spec_of(arrays) == {
        "split": P("data"), "both": P(None, ("data", "tp")), "shape": P("tp"), "one": P(),
        "numpy": P(), "number": P(), "none": None,
    }  # fmt: skip
    assert refused(ptk.spec_of, {1: 0.0, "a": 0.0}) == [("PTK104", "arrays")]


def test_specs_come_back_from_where_they_were_put() -> None:
    tree = {"w": jnp.zeros((8, 16)), "b": jnp.zeros(16), "step": 0}
    specs = ptk.partition_specs(tree, [("w", "data tp"), ("b", "tp")], mesh=MESH)
    placed = jax.device_put(tree, ptk.named_shardings(MESH, specs))
    assert ptk.spec_of(placed) == specs
    assert ptk.check_shardings(tree, jax.tree.map(lambda leaf: leaf.sharding, placed)) == ()
