"""`ptk.partition_specs` and `ptk.partition_plan`: what rules say becomes specs that JAX takes."""

from __future__ import annotations

import collections
import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AbstractMesh, Mesh
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .sharding_cases import CASES, SMALL, Case, nested, shape
from .telling import refused

PARAMS = nested({"mlp/kernel": (64, 256), "mlp/bias": (256,), "norm/scale": (64,), "step": ()})


def flat(specs: Any) -> dict[str, tuple[Any, ...]]:
    rows = jax.tree_util.tree_flatten_with_path(specs)[0]
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): tuple(spec) for path, spec in rows
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title.replace(" ", "-"))
def test_case(case: Case) -> None:
    try:
        plan = ptk.partition_plan(nested(case.tree), case.rules, mesh=case.mesh, **case.options)
    except ptk.SpecError as error:
        found = tuple((fault.code, fault.place) for fault in error.faults)
        assert found == case.faults
        text = " ".join(str(error).split())
        assert [fact for fact in case.facts if fact not in text] == []
        return
    assert case.faults == ()
    specs = flat(plan.specs)
    assert {path: specs[path] for path in case.specs} == case.specs
    kinds = {note.kind for note in plan.notes}
    assert set(case.notes) <= kinds
    assert not set(case.without) & kinds
    again = ptk.partition_specs(nested(case.tree), case.rules, mesh=case.mesh, **case.options)
    assert again == plan.specs


def test_meshes_of_every_kind() -> None:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "tp"))
    rules = ptk.Rules([("kernel", "data tp"), ("**", "replicate")])
    wanted = ptk.partition_specs(PARAMS, rules, mesh=SMALL)
    assert ptk.partition_specs(PARAMS, rules, mesh=mesh) == wanted
    assert ptk.partition_specs(PARAMS, rules, mesh=AbstractMesh((2, 4), ("data", "tp"))) == wanted
    with jax.set_mesh(mesh):
        assert ptk.partition_specs(PARAMS, rules) == wanted


def test_arrays_and_what_is_none() -> None:
    tree = {
        "w": np.ones((8, 4)),
        "x": jnp.ones((8, 4)),
        "f": jnp.tanh,
        "s": "text",
        "n": 3,
        "o": None,
    }
    specs = ptk.partition_specs(tree, [("{w,x}", "tp")], mesh=SMALL)
    assert specs == {"w": P("tp"), "x": P("tp"), "f": P(), "s": P(), "n": P(), "o": None}
    keys = jax.random.split(jax.random.key(0), 8)
    assert ptk.partition_specs(keys, [("**", "tp")], mesh=SMALL) == P("tp")


def test_the_structure_is_that_of_the_tree() -> None:
    Pair = collections.namedtuple("Pair", "kernel bias")
    tree = {0: [Pair(shape(8, 8), shape(8))], 10: (shape(8, 8), {})}
    specs = ptk.partition_specs(tree, [("0/*/kernel", "tp"), ("**", None)], mesh=SMALL)
    assert specs == {0: [Pair(P("tp"), P())], 10: (P(), {})}


class Odd:
    """A leaf that says nothing of itself."""

    @property
    def shape(self) -> Any:
        raise RuntimeError


def test_odd_leaves_and_rules_that_are_read_once() -> None:
    (size,) = export.symbolic_shape("b")
    tree = {"odd": Odd(), "b": jax.ShapeDtypeStruct((size, 8), "float32")}
    specs = ptk.partition_specs(tree, (rule for rule in [("b", "tp data")]), mesh=SMALL)
    assert specs == {"odd": P(), "b": P("tp", "data")}
    assert ptk.fsdp_specs(tree, mesh=SMALL, axis="tp") == {"odd": P(), "b": P()}


def test_what_functions_say_is_told() -> None:
    def slip(path: str, leaf: Any) -> str:
        return "dta ..."

    with pytest.raises(ptk.SpecError) as caught:
        ptk.partition_specs(PARAMS, [("kernel", slip), ("**", lambda path, leaf: 3)], mesh=SMALL)
    assert [(fault.code, fault.wanted, fault.hint) for fault in caught.value.faults] == [
        ("PTK306", "('**', <lambda>) gave 3", ""), ("PTK301", "('kernel', slip) gave 'dta ...'", "")
    ]  # fmt: skip


def test_one_array_is_a_tree() -> None:
    assert ptk.partition_specs(shape(8, 8), [("**", "_ tp")], mesh=SMALL) == P(None, "tp")


@pytest.mark.parametrize(
    ("specs", "wanted"),
    [
        (P(), P()),
        (P("tp"), P("tp")),
        ({"mlp": {"kernel": P(..., "tp"), ...: None}, "norm": "replicate", "step": P("tp")}, None),
        ({"mlp": {"kernel": P(None, "tp"), "bias": P()}, "norm": None, "step": P()}, None),
        ({"mlp": ptk.Rules([("kernel", "_ tp")], default="_"), "norm": P(), "step": None}, None),
        (ptk.Rules([("kernel", ptk.by_rank({2: "_ tp"})), ("**", lambda path, x: None)]), None),
        ([ptk.optional("x", "y"), ("kernel", lambda path, x: (None, "tp")), ("**", "_")], None),
    ],
)  # fmt: skip
def test_specs_by_structure_and_rules_of_all_kinds(specs: Any, wanted: Any) -> None:
    each = jax.tree.map(lambda leaf: wanted if leaf.ndim == 2 else P(), PARAMS)
    if wanted is None:
        each["mlp"]["kernel"] = P(None, "tp")
    elif not isinstance(specs, ptk.Rules):
        each = jax.tree.map(lambda leaf: wanted if leaf.shape else P(), PARAMS)
    assert ptk.partition_specs(PARAMS, specs, mesh=SMALL) == each


def test_faults_of_a_spec_tree() -> None:
    specs = {"mlp": {"kernel": ("tp", None), "bias": P("tq")}, "norm": 3, "stp": P()}
    with pytest.raises(ptk.SpecError) as caught:
        ptk.partition_specs(PARAMS, specs, mesh=SMALL)
    told = {(fault.code, fault.spec_path): fault for fault in caught.value.faults}
    assert set(told) == {
        ("PTK202", "rules['mlp']['kernel']"), ("PTK301", "rules['mlp']['bias']"),
        ("PTK306", "rules['norm']"), ("PTK201", "rules['stp']"), ("PTK201", "rules"),
    }  # fmt: skip
    assert "write P('tp', None)" in told["PTK202", "rules['mlp']['kernel']"].note


def test_patterns_in_a_dict_are_not_rules() -> None:
    with pytest.raises(ptk.SpecError, match=r"if the keys are patterns, write ptk\.Rules"):
        ptk.partition_specs(PARAMS, {"mlp/kernel": "_ tp", "**": "_"}, mesh=SMALL)
    specs = ptk.partition_specs(PARAMS, ptk.Rules({"mlp/kernel": "_ tp", "**": "_"}), mesh=SMALL)
    assert specs["mlp"]["kernel"] == P(None, "tp")


def test_entries_that_are_alike_are_told_each() -> None:
    specs = [P("tq"), P(..., ...), P("tq"), P(..., ...)]
    found = refused(ptk.partition_specs, [shape(8)] * 4, specs, mesh=SMALL)
    assert found == [("PTK306", ""), ("PTK306", ""), ("PTK301", "tree[0]"), ("PTK301", "tree[2]")]


def test_rules_below_an_entry_need_none_for_scalars() -> None:
    specs = {"mlp": P(), "norm": ptk.Rules([("shift", "_")]), "step": ptk.Rules([])}
    assert refused(ptk.partition_specs, PARAMS, specs, mesh=SMALL) == [
        ("PTK305", "tree['norm']['scale']")
    ]


STACKED = nested({"layers/w": (12, 8, 16), "layers/b": (12, 16), "layers/s": (12,), "w": (8, 16)})


def test_stacks_are_left_alone() -> None:
    rules = [("w", "data tp"), ("b", "tp"), ("s", "tp")]
    specs = ptk.partition_specs(STACKED, rules, mesh=SMALL, stack={"layers/**": 0})
    assert flat(specs) == {
        "layers/w": (None, "data", "tp"), "layers/b": (None, "tp"), "layers/s": (),
        "w": ("data", "tp"),
    }  # fmt: skip
    tree = {"w": shape(8, 12, 3, 16)}
    for stack in ((1, 2), (-3, 2)):
        its = {"mesh": SMALL, "stack": [("w", stack)]}
        assert ptk.partition_specs(tree, rules, **its) == {"w": P("data", None, None, "tp")}


def test_faults_of_stacks() -> None:
    for stack in (3, (0, 0), True, "0", (0, -3)):
        found = refused(
            ptk.partition_specs, STACKED, [("**", None)], mesh=SMALL, stack={"layers/w": stack}
        )
        assert found == [("PTK306", "tree['layers']['w']")]
    with pytest.raises(ptk.SpecError, match="has 2 dimensions besides its stack"):
        ptk.partition_specs(STACKED, [("**", "tp _ _")], mesh=SMALL, stack={"layers/w": 0})


BAD = [
    ({"rules": "replicate"}, "rules"),
    ({"rules": b"x"}, "rules"),
    ({"rules": None}, "rules"),
    ({"mesh": None}, "mesh"),
    ({"mesh": 8}, "mesh"),
    ({"mesh": {"tp": 0}}, "mesh['tp']"),
    ({"mesh": {"tp": "2"}}, "mesh['tp']"),
    ({"mesh": {1: 2}}, "mesh[1]"),
    ({"mesh": Mesh(np.array(jax.devices()).reshape(2, 4), ("tp", "tp"))}, "mesh['tp']"),
    ({"mesh": AbstractMesh((2, 4), ("tp", "tp"))}, "mesh['tp']"),
    ({"on_indivisible": "drop"}, "on_indivisible"),
    ({"on_indivisible": None}, "on_indivisible"),
    ({"on_indivisible": {"tp": "drop"}}, "on_indivisible['tp']"),
    ({"missing_axes": "replicate"}, "missing_axes"),
    ({"stack": "layers"}, "stack"),
    ({"axes": "embed"}, "axes"),
    ({"axes": [("embed", "tp", "data")]}, "axes[0]"),
    ({"axes": [("embed", 1)]}, "axes[0]"),
    ({"axes": {"embed": ("tp", "tp")}}, "axes['embed']"),
    ({"axes": [("", "tp")]}, "axes[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "place"), BAD, ids=lambda value: str(value)[:30])
def test_arguments_of_a_wrong_kind(options: dict[str, Any], place: str) -> None:
    options = {"rules": [("**", None)], "mesh": SMALL, **options}
    with pytest.raises(ptk.SpecError) as caught:
        ptk.partition_specs(PARAMS, **options)
    assert [(fault.code, fault.spec_path) for fault in caught.value.faults] == [("PTK001", place)]


def test_axes_that_the_mesh_lacks_in_arguments() -> None:
    rules = [("**", None)]
    its = {"mesh": SMALL, "axes": [("embed", "fsdp")]}
    assert refused(ptk.partition_specs, PARAMS, rules, **its) == [("PTK301", "")]
    its = {"mesh": SMALL, "on_indivisible": {"fsdp": "replicate"}}
    assert refused(ptk.partition_specs, PARAMS, rules, **its) == [("PTK301", "")]


def test_trees_that_are_none() -> None:
    for rules in ([("**", None)], P()):
        found = refused(ptk.partition_specs, {1: shape(8), "a": shape(8)}, rules, mesh=SMALL)
        assert found == [("PTK104", "tree")]


def test_notes_say_which_leaf_and_why() -> None:
    tree = nested({"a": (2048, 1024), "b": (8, 8), "c": (8, 6), "d": (2, 3)})
    rules = ptk.Rules([("a", "_"), ("b", "pod+tp"), ("c", "tp tp?|data")], default="_")
    plan = ptk.partition_plan(tree, rules, mesh={**SMALL, "idle": 2}, missing_axes="drop")
    assert [(note.kind, note.text) for note in plan.notes] == [
        ("replicated-large", "a"), ("dropped", "b"), ("under-rank", "b"), ("fallback", "c"),
        ("defaulted", "d"), ("idle-axis", ""),
    ]  # fmt: skip
    assert [leaf.why for leaf in plan.leaves] == [
        "rules[0]",
        "rules[1]",
        "rules[2]",
        "rules.default",
    ]
    assert plan.leaves[2][:4] == ("['c']", "c", "f32[8,6]", P("tp", "data"))
    text = plan.table()
    assert text == str(plan)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88
    assert "<table>" in plan._repr_html_()
    assert dataclasses.replace(plan) == plan


def test_hints_are_tried_on_every_leaf_of_a_rule() -> None:
    def hints(tree: Any, rules: Any) -> list[str]:
        with pytest.raises(ptk.SpecError) as caught:
            ptk.partition_specs(nested(tree), rules, mesh=SMALL)
        return [fault.hint for fault in caught.value.faults]

    assert hints({"w": (8, 8)}, [("w", "dta|_ _")]) == ["write 'data|_ _' in rules[0]"]
    assert hints({"w": (8, 8)}, [("w", P("tp", ("dta",)))]) == ["write P('tp', 'data') in rules[0]"]
    assert hints({"a/w": (8, 8), "b/w": (5, 8)}, [("w", "dta _")]) == ["", ""]
    assert (
        hints({"a/w": (8, 6), "b/w": (8, 7)}, [("w", "_ tp")]) == ["write '_ tp?' in rules[0]"] * 2
    )
    assert hints({"w": (6, 9)}, [("w", "tp data")])[0] == (
        "write 'tp? data' in rules[0]   (then PTK303 remains)"
    )


def test_what_repairs_everything_is_there_to_use() -> None:
    def instead(tree: Any, rules: Any, **options: Any) -> Any:
        with pytest.raises(ptk.SpecError) as caught:
            ptk.partition_specs(tree, rules, mesh=SMALL, **options)
        return caught.value.repaired

    tree = nested({"a/w": (8, 6), "a/b": (8,), "c": (9, 7)})
    rules = ptk.Rules([("a/w", P("dta", "tp")), ptk.optional("x", "_")], default="... tp")
    repaired = instead(tree, rules)
    assert repaired == ptk.Rules([("a/w", "data tp?"), ptk.optional("x", "_")], default="... tp?")
    specs = ptk.partition_specs(tree, repaired, mesh=SMALL)
    assert specs == {"a": {"w": P("data"), "b": P("tp")}, "c": P()}
    assert instead(tree["a"], {"w": "dta _", "b": P("tpp")}) == {"w": "data _", "b": P("tp")}
    assert instead(tree, [("a/**", "dta"), ("c", "tp tp")]) is None
    assert instead(tree, [("a/**", "dta")]) is None
    assert instead(tree["a"], [("**", lambda path, leaf: "dta ...")]) is None


def test_many_leaves_take_little_time() -> None:
    layer = {"kernel": shape(64, 256), "bias": shape(256), "scale": shape(64), "odd": shape(6, 6)}
    tree = {f"layers_{number}": dict(layer) for number in range(25_000)}
    rules = ptk.Rules([("kernel", "... tp"), ("odd", "data"), ("**", "replicate")])
    start = time.perf_counter()
    specs = ptk.partition_specs(tree, rules, mesh=SMALL)
    assert time.perf_counter() - start < 20  # a twentieth of it, where annotations go unchecked
    assert specs["layers_7"] == {
        "kernel": P(None, "tp"),
        "bias": P(),
        "scale": P(),
        "odd": P("data"),
    }
    some = {name: tree[name] for name in list(tree)[:500]}
    with pytest.raises(ptk.SpecError, match="x500, first") as caught:
        ptk.partition_specs(some, [("**", "tp tp")], mesh=SMALL)
    assert len(caught.value.faults) == 2500
