"""`ptk.fsdp_specs` and `ptk.fsdp_plan`: which dimension is split, and why."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .sharding_cases import nested, shape
from .telling import refused

MESH = {"fsdp": 4, "model": 2}
EIGHT = {"fsdp": 8}

CASES = [
    ("the largest that divides", (64, 4096), None, MESH, (None, "fsdp")),
    ("the largest does not divide", (50257, 768), None, EIGHT, (None, "fsdp")),
    ("none divides", (7, 9), None, EIGHT, ()),
    ("ties go to the first", (64, 64), None, EIGHT, ("fsdp",)),
    ("a dimension that is taken is left", (1024, 4096), P(None, "model"), MESH, ("fsdp", "model")),
    ("or else split further", (7, 4096), P(None, "model"), MESH, (None, ("model", "fsdp"))),
    ("of those the largest", (16, 32), P("model", "x"), {**MESH, "x": 2}, ("model", ("x", "fsdp"))),
    ("it is there already", (64, 64), P(("model", "fsdp")), MESH, (("model", "fsdp"),)),
    ("no elements", (0, 8), None, EIGHT, ()),
    ("a scalar", (), None, EIGHT, ()),
    ("one element", (1, 1), None, {"fsdp": 1}, ()),
    ("a mesh axis of one", (7, 8), None, {"fsdp": 1}, (None, "fsdp")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].replace(" ", "-"))
def test_which_dimension(case: Any) -> None:
    _, sizes, base, mesh, wanted = case
    spec = ptk.fsdp_specs(shape(*sizes), base, mesh=mesh, min_size=1)
    assert tuple(spec) == wanted
    assert ptk.fsdp_specs(shape(*sizes), spec, mesh=mesh, min_size=1) == spec


def test_small_leaves_stay_whole() -> None:
    tree = nested({"b": (768,), "w": (768, 768), "limit": (256, 256)})
    plan = ptk.fsdp_plan(tree, mesh=EIGHT)
    assert plan.specs == {"b": P(), "w": P("fsdp"), "limit": P("fsdp")}
    assert [leaf.why for leaf in plan.leaves] == [
        "small",
        "dimension 0",
        "dimension 0",
    ]


ROUTER = nested({"router": (4096, 64), "layers/w": (64, 32, 64), "s": ()})


@pytest.mark.parametrize(
    "where",
    [
        [("router", False), ("**", True)],
        ptk.Rules([("router", False)], default=True),
        {"router": False, ...: True},
        {"router": lambda leaf: leaf.ndim != 2, "layers": True, "s": np.bool_(1)},
    ],
)  # fmt: skip
def test_what_is_chosen(where: Any) -> None:
    plan = ptk.fsdp_plan(ROUTER, mesh=EIGHT, min_size=1, where=where, stack={"layers/**": 0})
    assert plan.specs == {"router": P(), "layers": {"w": P(None, None, "fsdp")}, "s": P()}
    assert plan.leaves[1].why == "where says False"


def test_every_reason() -> None:
    tree = nested({"a": (7, 9), "b": (7, 4096), "c": (64, 64)})
    base = {"a": P(), "b": P(None, "model"), "c": P("fsdp")}
    plan = ptk.fsdp_plan(tree, base, mesh=MESH, min_size=1)
    assert [leaf.why for leaf in plan.leaves] == [
        "no dimension divides by 4",
        "dimension 1 further: no free one divides by 4",
        "fsdp splits it already",
    ]
    large = ptk.fsdp_plan(shape(1023, 1025), mesh=EIGHT)
    assert [note.kind for note in large.notes] == []
    large = ptk.fsdp_plan(shape(1025, 1025), mesh=EIGHT)
    assert [note.kind for note in large.notes] == ["replicated-large"]


def test_over_what_rules_say_and_over_two_axes() -> None:
    tree = nested({"w": (64, 4096), "b": (4096,)})
    mesh = {"data": 2, **MESH}
    base = ptk.partition_plan(tree, [("w", "_ model"), ("b", "_")], mesh=mesh)
    specs = ptk.fsdp_specs(tree, base, mesh=mesh, axis=("data", "fsdp"), min_size=1)
    assert specs == {"w": P(("data", "fsdp"), "model"), "b": P(("data", "fsdp"))}
    state = {"mu": tree, "count": shape()}
    again = ptk.fsdp_specs(state, {"mu": base.specs, "count": P()}, mesh=mesh, min_size=1)
    assert again["mu"] == {"w": P("fsdp", "model"), "b": P("fsdp")}


def test_all_that_is_wrong_with_the_base() -> None:
    tree = nested({"a": (6, 8), "b": (8,)})
    base = {"a": P("fsdp"), "b": P("fsdp", "model")}
    assert refused(ptk.fsdp_specs, tree, base, mesh=MESH) == [
        ("PTK303", "tree['a']"), ("PTK302", "tree['b']")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"axis": "fdsp"}, "PTK301"),
        ({"axis": None}, "PTK001"),
        ({"axis": ()}, "PTK001"),
        ({"axis": ("fsdp", "fsdp")}, "PTK001"),
        ({"min_size": -1}, "PTK001"),
        ({"where": 3}, "PTK001"),
        ({"where": [("router", False)]}, "PTK305"),
        ({"base": "x"}, "PTK001"),
        ({"stack": {"router": 2}}, "PTK306"),
    ],
)  # fmt: skip
def test_arguments_of_a_wrong_kind(options: dict[str, Any], code: str) -> None:
    found = refused(ptk.fsdp_specs, ROUTER, **{"mesh": MESH, **options})
    assert {its for its, _ in found} == {code}


SIZES = st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 24]), max_size=3).map(tuple)


@settings(max_examples=60)
@given(SIZES, st.sampled_from([P(), P("model"), P(None, "model"), P("fsdp")]), st.integers(0, 30))
def test_specs_hold_and_split_what_can_be_split(sizes: Any, base: Any, least: int) -> None:
    array = shape(*sizes)
    if ptk.check_shardings(array, base, mesh=MESH):
        return
    spec = ptk.fsdp_specs(array, base, mesh=MESH, min_size=least)
    assert ptk.check_shardings(array, spec, mesh=MESH) == ()
    free = [size % 4 == 0 and size > 0 for size in sizes]
    if jnp.size(np.empty(sizes)) >= max(least, 2) and base == P() and any(free):
        best = max(size for size, divides in zip(sizes, free, strict=True) if divides)
        assert sizes[list(spec).index("fsdp")] == best


def test_the_tree_may_hold_anything() -> None:
    tree = {"w": jnp.ones((512, 256)), "f": jnp.tanh, "none": None, "k": jax.random.key(0)}
    assert ptk.fsdp_specs(tree, mesh=EIGHT) == {"w": P("fsdp"), "f": P(), "none": None, "k": P()}
