"""`ptk.ShardingPlan`: values placed, made, constrained and verified; what plans are as data."""

from __future__ import annotations

import contextlib
import functools
import html.parser
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import TypeCheckError

import pytreekit as ptk
from pytreekit.testing import assert_plan_matches

from .sharding_cases import nested, shape
from .telling import refused

AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
KINDS = {"auto": (AUTO, AUTO), "explicit": (EXPLICIT, EXPLICIT), "mixed": (EXPLICIT, AUTO)}
SIZES = {"data": 2, "model": 4}
RULES = [
    ("kernel", "data model"), ("table", "model _"), ("wide", "_ data+model"), ("scale", "data"),
    ("**", "_"),
]  # fmt: skip


@functools.cache
def mesh_of(kind: str = "auto") -> Mesh:
    return jax.make_mesh((2, 4), ("data", "model"), axis_types=KINDS[kind])


def values() -> dict[str, Any]:
    counted = np.arange(64, dtype=np.float32)
    return {
        "a": {"kernel": counted.reshape(8, 8), "scale": counted[:8]},
        "b": [counted.reshape(16, 4), {"table": counted.reshape(4, 16)}],
        "wide": counted.reshape(2, 32),
        "step": np.int32(3),
    }


TREE = values()
PLAN = ptk.ShardingPlan(TREE, RULES, mesh_of())


def equal(one: Any, other: Any) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: bool(np.all(np.asarray(a) == b)), one, other))


def test_a_plan_of_arrays_is_one_of_shapes() -> None:
    shapes = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, TREE))
    assert ptk.ShardingPlan(shapes, RULES, mesh_of()) == PLAN
    assert ptk.ShardingPlan(TREE, ptk.partition_plan(TREE, RULES, mesh=SIZES), SIZES) == PLAN
    assert ptk.ShardingPlan(TREE, PLAN.specs, SIZES) == PLAN
    assert ptk.ShardingPlan(TREE, PLAN) == PLAN
    assert hash(ptk.ShardingPlan(shapes, RULES, SIZES)) == hash(PLAN)
    with jax.set_mesh(mesh_of()):
        assert ptk.ShardingPlan(TREE, RULES) == PLAN
    others = [
        ptk.ShardingPlan(TREE, RULES, {"data": 4, "model": 2}),
        ptk.ShardingPlan(TREE, RULES, mesh_of("mixed")),
        ptk.ShardingPlan(TREE, P(), SIZES),
        ptk.ShardingPlan({**TREE, "step": np.float32(3)}, RULES, SIZES),
        ptk.ShardingPlan({**TREE, "stop": TREE["step"]}, RULES, SIZES),
    ]
    assert all(other != PLAN for other in others)
    assert all(PLAN.diff(other) for other in others)
    assert PLAN != TREE


def test_everything_is_checked_when_it_is_made() -> None:
    specs = {"a": P("model", "data"), "b": P("modle"), "wide": P("model"), "step": P()}
    assert refused(ptk.ShardingPlan, TREE, specs, SIZES) == [
        ("PTK302", "tree['a']['scale']"), ("PTK301", "tree['b'][0]"),
        ("PTK301", "tree['b'][1]['table']"), ("PTK303", "tree['wide']"),
    ]  # fmt: skip
    assert refused(ptk.ShardingPlan, TREE, RULES) == [("PTK001", "")]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_placed_made_constrained_and_verified(kind: str) -> None:
    mesh = mesh_of(kind)
    plan = ptk.ShardingPlan(TREE, RULES, mesh)
    placed = plan.place(TREE)
    assert equal(placed, TREE)
    assert plan.verify(placed) == ()
    assert placed["a"]["kernel"].addressable_shards[0].data.shape == (4, 2)
    assert equal(plan.place(placed), TREE)

    def init(factor: Any) -> Any:
        return jax.tree.map(lambda leaf: (factor * leaf).astype(leaf.dtype), TREE)

    made = plan.init(init, 2)
    assert plan.verify(made) == ()
    assert equal(made, init(2))

    def constrained(tree: Any) -> Any:
        return plan.constrain(jax.tree.map(lambda leaf: leaf + 1, tree))

    with jax.set_mesh(mesh):
        compiled = jax.jit(constrained).lower(TREE).compile()
    assert plan.verify(compiled.output_shardings) == ()
    assert equal(compiled(TREE), jax.tree.map(lambda leaf: leaf + 1, TREE))
    with jax.set_mesh(mesh):
        lowered = jax.jit(ptk.ShardingPlan(TREE, RULES, SIZES).constrain).lower(TREE)
    assert plan.verify(lowered.compile().output_shardings) == ()


def test_the_state_of_an_optimizer_follows() -> None:
    optax = pytest.importorskip("optax")
    tree = {"w": np.ones((128, 256), "f"), "b": np.ones(256, "f")}
    plan = ptk.ShardingPlan(tree, [("w", "data model"), ("b", "model")], mesh_of())
    params = plan.place(tree)
    optimizer = optax.adafactor(1e-3)
    its = plan.for_state(jax.eval_shape(optimizer.init, tree), init=optimizer)
    told = its.explain("**/v_row/w")
    assert "by its parameter params['w'] without dimension 1\n" in told
    assert (
        ptk.ShardingPlan.from_json(its.to_json(), jax.eval_shape(optimizer.init, tree)).explain(
            "**/v_row/w"
        )
        == told
    )
    state = its.init(optimizer.init, params)
    assert its.verify(state) == ()
    updates, state = jax.jit(optimizer.update, out_shardings=(plan.shardings, its.shardings))(
        params, state, params
    )
    assert plan.verify(updates) == its.verify(state) == ()
    alone = optimizer.update(tree, optimizer.init(tree), tree)[0]
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-5), updates, alone))
    other = {"mu": tree, "unknown": np.ones((512, 3), "f")}
    assert refused(plan.for_state, other) == [("PTK309", "state['unknown']")]


def test_an_order_of_axes_that_no_constraints_make() -> None:
    tree = {"w": np.zeros((8, 8), "f")}
    for kind, order, faults in [
        ("mixed", ("model", "data"), [("PTK312", "tree['w']")]),
        ("mixed", ("data", "model"), []),
        ("auto", ("model", "data"), []),
    ]:
        plan = ptk.ShardingPlan(tree, P(order), mesh_of(kind))
        if faults:
            assert refused(jax.eval_shape, plan.constrain, tree) == faults
        else:
            jax.eval_shape(plan.constrain, tree)


def test_plans_without_devices() -> None:
    plan = ptk.ShardingPlan(TREE, RULES, SIZES)
    assert refused(plan.place, TREE) == [("PTK001", "")]
    assert refused(plan.init, lambda: TREE) == [("PTK001", "")]
    assert refused(jax.eval_shape, plan.constrain, TREE) == [("PTK001", "")]
    assert plan.verify(PLAN.place(TREE)) == ()
    assert len(plan.verify(TREE)) == 6
    other = ptk.ShardingPlan(TREE, P(), jax.make_mesh((8,), ("data",), axis_types=(AUTO,)))
    assert len(plan.verify(other.place(TREE))) == 6


FUNCTIONS = {"w": np.ones((8, 4), np.float32), "act": jnp.tanh, "size": 3, "none": None}


def test_what_is_no_array_passes_by() -> None:
    plan = ptk.ShardingPlan(FUNCTIONS, [("w", "model")], mesh_of())
    for tree in (plan.place(FUNCTIONS), plan.init(lambda: FUNCTIONS), plan.constrain(FUNCTIONS)):
        assert tree["act"] is jnp.tanh
        assert tree["size"] == 3
        assert plan.verify(tree) == ()
    assert plan.abstract()["act"] is jnp.tanh
    assert plan.memory().total == 128
    assert "no array" in plan.explain("act")
    assert ptk.ShardingPlan.from_json(plan.to_json(), FUNCTIONS) == plan
    assert refused(ptk.ShardingPlan.from_json, plan.to_json()) == [("PTK001", "text")]


def test_numbers_are_the_arrays_that_jax_makes_of_them() -> None:
    def init() -> Any:
        return {"step": 0, "w": jnp.ones(8)}

    plan = ptk.ShardingPlan(jax.eval_shape(init), [("w", "model")], mesh_of())
    for made in (plan.init(init), plan.place(init()), jax.jit(lambda: plan.constrain(init()))()):
        assert plan.verify(made) == ()
        assert made["step"] == 0
    (fault,) = plan.verify({**plan.init(init), "step": 0})
    assert (fault.code, fault.note) == ("PTK310", "it is an int, on no device")
    assert refused(plan.place, {**init(), "step": 0.5}) == [("PTK205", "tree['step']")]
    assert refused(plan.place, {**init(), "stop": 1}) == [("PTK205", "tree['stop']")]
    assert plan.place({**init(), "step": 0.5}, cast=True)["step"] == 0
    assert plan.place(lambda path, leaf: 0 if path == "step" else np.ones(8, "f"))["step"] == 0


class Read:
    """What is read like an array, and counts how much of it was read at once."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.most = 0

    def __getitem__(self, index: Any) -> Any:
        found = self.array[index]
        self.most = max(self.most, np.size(found))
        return found


def test_a_piece_at_a_time_is_read() -> None:
    lazy = jax.tree.map(Read, TREE)
    assert equal(PLAN.place(lazy), TREE)
    assert [leaf.most for leaf in jax.tree.leaves(lazy)] == [8, 4, 64, 16, 1, 8]
    by_text = dict(zip([leaf.text for leaf in PLAN.leaves], jax.tree.leaves(TREE), strict=True))
    assert equal(PLAN.place(lambda path, leaf: by_text[path]), TREE)


def test_other_trees_are_told_before_anything_is_placed() -> None:
    other = values()
    other["a"]["kernel"] = other["a"]["kernel"].astype(np.float16)
    other["b"][0] = other["b"][0].T
    wrong = [("PTK205", "tree['a']['kernel']"), ("PTK205", "tree['b'][0]")]
    assert refused(PLAN.place, other) == wrong
    flat = dict(zip([leaf.text for leaf in PLAN.leaves], jax.tree.leaves(other), strict=True))
    assert refused(PLAN.place, lambda path, leaf: flat[path]) == wrong
    assert refused(PLAN.init, lambda: other) == [(code, "output" + p[4:]) for code, p in wrong]
    assert refused(jax.eval_shape, PLAN.constrain, other) == wrong[1:]
    other["b"][0] = TREE["b"][0]
    assert equal(PLAN.place(other, cast=True), TREE)
    for dtype in ("complex64", "U1"):
        there = {**TREE, "wide": np.zeros((2, 32), dtype)}
        assert refused(PLAN.place, there, cast=True) == [("PTK205", "tree['wide']")]
    jax.eval_shape(PLAN.constrain, other)
    del other["wide"], other["a"]["kernel"]
    assert refused(PLAN.place, other) == [
        ("PTK205", "tree['wide']"), ("PTK205", "tree['a']['kernel']")
    ]  # fmt: skip
    assert refused(PLAN.place, list(TREE.values()))[0] == ("PTK205", "tree")


def test_verify_finds_what_was_planted_and_nothing_else() -> None:
    mesh = mesh_of()
    placed = PLAN.place(TREE)

    def put(leaf: Any, spec: P, on: Any = mesh) -> Any:
        return jax.device_put(leaf, NamedSharding(on, spec))

    turned = Mesh(mesh.devices[::-1], mesh.axis_names)
    kernel, scale, wide = placed["a"]["kernel"], placed["a"]["scale"], placed["wide"]
    same = {"a": {"kernel": put(kernel, P("data", "model"), Mesh(mesh.devices, ("data", "model"))),
                  "scale": put(scale, P(("data",)))},
            "b": placed["b"], "wide": put(wide, P(None, ("data", "model"))),
            "step": put(placed["step"], P())}  # fmt: skip
    assert PLAN.verify(same) == ()
    planted = {
        "a": {"kernel": put(kernel, P("data")), "scale": put(scale, P("data"), turned)},
        "b": [TREE["b"][0], {"table": jnp.asarray(TREE["b"][1]["table"])}],
        "wide": put(wide, P(None, ("model", "data"))),
        "step": placed["step"],
    }
    found = PLAN.verify(planted)
    assert [(fault.code, fault.place) for fault in found] == [
        ("PTK310", f"arrays{leaf.path}") for leaf in PLAN.leaves if leaf.text != "step"
    ]
    assert [fault.note for fault in found] == [
        "it has P('data',) over data=2, model=4",
        "it has P('data',) over data=2, model=4, on other devices or in another order",
        "it is a ndarray, on no device",
        "it has a SingleDeviceSharding on 1 device",
        "it has P(None, ('model', 'data')) over data=2, model=4",
    ]
    assert PLAN.verify({**placed, "step": placed["step"].astype("f")})[0].code == "PTK205"


def test_verify_and_memory_of_what_was_compiled() -> None:
    placed = PLAN.place(TREE)

    def step(scale: Any, state: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf * scale, {**state["params"], "wide": 0})

    jitted = jax.jit(step)
    compiled = jitted.lower(1, {"params": placed}).compile()
    assert PLAN.verify(compiled) == ()
    other = ptk.ShardingPlan(TREE, [("{kernel,wide}", "data"), *RULES], mesh_of())
    assert [fault.place for fault in other.verify(compiled)] == ["args[1]['params']['a']['kernel']"]
    assert ptk.ShardingPlan([shape(3)], P(), SIZES).verify(compiled)[0].code == "PTK205"


def test_memory_is_that_of_the_compiled_function() -> None:
    tree = {
        "w": jnp.zeros((16, 8), "bfloat16"), "i": jnp.zeros((8, 24), "int4"),
        "keys": jax.random.split(jax.random.key(0), 8), "odd": jnp.zeros((3, 5), "int4"),
        "b": jnp.zeros(7, bool), "none": jnp.zeros((0, 4)), "n": jnp.zeros(()),
    }  # fmt: skip
    rules = [("{w,i}", "data model"), ("keys", "model"), ("**", "_")]
    plan = ptk.ShardingPlan(tree, rules, mesh_of())
    whole = jax.jit(lambda tree: tree, keep_unused=True)
    compiled = whole.lower(plan.abstract()).compile()
    assert plan.memory().per_device == compiled.memory_analysis().argument_size_in_bytes
    compiled = whole.lower(PLAN.place(TREE)).compile()
    assert PLAN.memory().per_device == compiled.memory_analysis().argument_size_in_bytes
    assert ptk.ShardingPlan.from_json(plan.to_json()) == plan


def test_check_names_the_largest_that_are_whole() -> None:
    plan = ptk.ShardingPlan(nested({"a": (64, 6), "b": (32, 8), "c": (8,), "d": (4, 3)}),
                            [("a", "data _"), ("**", "_")], SIZES)  # fmt: skip
    assert [(fault.code, fault.place) for fault in plan.check()] == [
        ("PTK311", "plan['b']"), ("PTK311", "plan['d']")
    ]  # fmt: skip
    assert (
        plan.check()[0].note == "data=2 divides dimension 0 or 1; model=4 divides dimension 0 or 1"
    )
    assert [fault.place for fault in plan.check(max_replicated=0.1)] == ["plan['b']"]
    assert plan.check(max_replicated=1) == ()
    assert refused(plan.check, max_replicated=2) == [("PTK001", "max_replicated")]
    assert ptk.ShardingPlan(TREE, P(), {"data": 1}).check() == ()


def test_differences_and_golden_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTREEKIT_GOLDEN", raising=False)
    path = tmp_path / "golden" / "plan.json"
    with pytest.raises(AssertionError, match="there is no file plan"):
        assert_plan_matches(PLAN, path)
    monkeypatch.setenv("PYTREEKIT_GOLDEN", "write")
    assert_plan_matches(PLAN, path)
    monkeypatch.delenv("PYTREEKIT_GOLDEN")
    assert_plan_matches(PLAN, path)
    other = ptk.ShardingPlan(
        {**TREE, "step": shape(2), "new": shape(2)}, RULES, {"data": 2, "model": 2}
    )
    assert [one.kind for one in PLAN.diff(other)] == ["mesh", "leaf", "keys"]
    with pytest.raises(AssertionError, match="3 differences between plan and plan"):
        assert_plan_matches(other, path)
    assert refused(assert_plan_matches, TREE, path) == [("PTK001", "plan")]


def broken(text: str) -> list[str]:
    data = json.loads(text)
    leaf = data["leaves"][0]
    changes = [
        {"version": 2}, {"format": "x"}, {"leaves": None}, {"mesh": [{"name": "data", "size": 0}]},
        {"mesh": [{"name": "data", "size": 2, "type": "Odd"}]}, {"structure": {"set": []}},
        {"structure": {"dict": [["a"]]}}, {"structure": 99}, {"leaves": [{**leaf, "shape": [-1]}]},
        {"leaves": [{**leaf, "dtype": "flaot32"}]}, {"leaves": [{**leaf, "spec": [{}]}]},
        {"leaves": [{**leaf, "shape": [True]}]}, {"notes": [{"kind": 1}]}, {"structure": None},
        {"mesh": [{"name": "data", "size": 2, "type": []}]}, {"mesh": []},
        {"leaves": [{**leaf, "spec": ["modle"]}]},
    ]  # fmt: skip
    return ["", "[1]", "[" * 10**5, *(json.dumps({**data, **change}) for change in changes)]


def test_files_that_are_no_plans() -> None:
    for text in broken(PLAN.to_json()):
        assert refused(ptk.ShardingPlan.from_json, text) == [("PTK001", "text")]
    for text in broken(PLAN.to_json())[:-4]:
        with contextlib.suppress(ptk.SpecError):  # the structure is not looked at
            PLAN.diff(text)
    for text in broken(PLAN.to_json())[-3:]:
        assert refused(PLAN.diff, text) == [("PTK001", "text")]
    text = PLAN.to_json().replace('"model", "size": 4', '"model", "size": 3')
    assert {code for code, _ in refused(ptk.ShardingPlan.from_json, text)} == {"PTK303"}
    found = refused(ptk.ShardingPlan.from_json, PLAN.to_json(), {**TREE, "step": shape(3)})
    assert found == [("PTK205", "tree['step']")]
    assert ptk.ShardingPlan.from_json(PLAN.to_json(), mesh=mesh_of()).verify(PLAN.place(TREE)) == ()


LEAVES = st.tuples(
    st.sampled_from(["float32", "int8", "bfloat16", "bool"]),
    st.lists(st.sampled_from([1, 2, 4, 8]), max_size=3),
)
TREES = st.recursive(
    LEAVES.map(lambda its: np.arange(int(np.prod(its[1]))).reshape(its[1]).astype(its[0])),
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.tuples(below, st.none()),
        st.dictionaries(st.text(max_size=3), below, max_size=3),
    ),
    max_leaves=5,
)


@settings(max_examples=50)
@given(TREES, st.sampled_from(["data? model?", "_ data+model? ...", "model? ...", "... data?"]))
def test_place_is_the_identity_and_json_keeps_plans(tree: Any, text: str) -> None:
    def rule(path: str, leaf: Any) -> str:
        tokens = text.replace(" ...", "").replace("... ", "").split()[: leaf.ndim]
        return " ".join(tokens) or "replicate"

    its = {"mesh": SIZES, "on_indivisible": "replicate"}
    specs = ptk.partition_plan(tree, [("**", rule)], **its)
    plan = ptk.ShardingPlan(tree, specs, mesh_of())
    back = jax.device_get(plan.place(tree))
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    again = ptk.ShardingPlan.from_json(plan.to_json())
    assert again == plan
    assert again.leaves == plan.leaves
    assert again.notes == plan.notes
    assert ptk.ShardingPlan(jax.eval_shape(lambda: tree), plan) == plan


def test_arguments_of_the_wrong_kind_are_told() -> None:
    params = {"w": jnp.ones((8, 4))}
    plan = ptk.ShardingPlan(params, [("w", "model")], {"model": 4})
    calls: list[Any] = [
        lambda: plan.init(3),
        lambda: ptk.ShardingPlan.from_json(3),  # type: ignore[arg-type]
        lambda: plan.diff(3),  # type: ignore[arg-type]
        lambda: ptk.ShardingPlan(params, None, {"model": 4}),
        lambda: ptk.ShardingPlan(params, [("w", "model")], "model"),
    ]
    for call in calls:
        with pytest.raises((ptk.SpecError, TypeCheckError)):
            call()
    assert [plan.for_state(its).leaves for its in (None, (), {})] == [()] * 3


def test_explain() -> None:
    assert PLAN.explain("a/kernel") == PLAN.explain("['a']['kernel']")
    assert "by specs[0] = ('kernel', 'data model')" in PLAN.explain("kernel")
    assert "dimension 1 of 32: over data=2, model=4, 4 each" in PLAN.explain("wide")
    assert PLAN.explain("**").count("\n\n") == 5
    with pytest.raises(ptk.SpecError, match="did you mean 'a/kernel'"):
        PLAN.explain("a/kernle")
    assert ptk.ShardingPlan(TREE, PLAN, {"data": 2, "model": 2}).explain("wide") != ""


ODD = {
    "halves \ud800\x00": np.zeros(64, "f"),
    '<script>"&': {f"</svg>{n}": np.zeros((8, 8), "f") for n in range(3)},
    "w": np.zeros(64, "f"),
}


def test_pictures_are_whole_escaped_and_load_nothing() -> None:
    plan = ptk.ShardingPlan(
        ODD, [("w", "_"), ("halves*", "data"), ("**", "data|model model|data")], mesh_of()
    )
    tree = ET.fromstring(plan.treemap())
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}g"))) == 5
    page = plan._repr_html_()
    page.encode()
    assert "<script" not in page
    assert page.count("</svg>") == page.count("<svg")
    assert not {"http:", "https:", "url(h", "src="} & set(
        page.replace("http://www.w3.org/2000/svg", "").split('"')
    )
    html.parser.HTMLParser().feed(page)
    large = {f"layer{n}": {"w": shape(64, 64), "b": shape(64)} for n in range(500)}
    big = ptk.ShardingPlan(large, [("w", "data model"), ("b", "_")], SIZES)
    assert len(big._repr_html_()) < 100_000
    areas = [
        float(r.get("width", 0)) * float(r.get("height", 0))
        for r in ET.fromstring(big.treemap()).iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert sum(areas) == pytest.approx(880 * 440, rel=0.02)


def test_tables_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = io.StringIO()
    Console(file=stream, width=100, force_terminal=True, color_system="standard").print(PLAN)
    assert "\x1b[1;33m/model" in stream.getvalue()
    assert PLAN.table() == str(PLAN)
    assert repr(PLAN).startswith("<ShardingPlan of 6 leaves over data=2, model=4: 1.0 KiB")
    assert "largest" in str(PLAN.memory())
    Console(file=stream).print(PLAN.memory())


def test_a_bar_is_shown_when_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    PLAN.place(TREE, progress=True)
    PLAN.place(TREE)
    assert "\n" not in capsys.readouterr().out
