"""Arguments of dry runs that are of a wrong kind: all are told at once, and nothing is traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

MESH = {"data": 4}
X = jax.ShapeDtypeStruct((32, 64), jnp.float32)
PLAN = ptk.ShardingPlan(X, P("data"), MESH)
JITTED = jax.jit(jnp.sin)
# As users have them: within these tests a type checker refuses what is of a wrong kind.
dry_run, compare, suggest = map(inspect.unwrap, (ptk.dry_run, ptk.compare, ptk.suggest))
STAGES = JITTED.trace(X), JITTED.lower(X), JITTED.lower(X).compile()


def untouched(x: Any) -> Any:
    raise AssertionError("it is traced")


CALLS: dict[str, Callable[..., Any]] = {
    "dry_run": lambda step, **more: dry_run(step, X, **{"mesh": MESH, **more}),
    "compare": lambda step, **more: compare(step, (X,), {"a": PLAN}, **more),
    "suggest": lambda step, **more: suggest(X, step, **{"mesh": MESH, **more}),
}


def told(call: Callable[[], Any]) -> list[tuple[str, str, str]]:
    with pytest.raises(ptk.SpecError) as raised:
        call()
    faults = raised.value.faults
    return [(fault.code, fault.place + fault.spec_path, fault.title) for fault in faults]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("stage", STAGES, ids=["Traced", "Lowered", "Compiled"])
def test_a_stage_of_a_step_is_no_step(call: Callable[..., Any], stage: Any) -> None:
    fact = f"must be a function, this is a {type(stage).__name__}"
    assert told(lambda: call(stage)) == [("PTK001", "step", fact)]


def test_it_is_said_what_to_give_instead() -> None:
    with pytest.raises(ptk.SpecError, match="give the function itself"):
        dry_run(JITTED.lower(X), X, mesh=MESH)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("mesh", [{}, AbstractMesh((), ())], ids=["dict", "AbstractMesh"])
def test_a_mesh_without_axes(call: Callable[..., Any], mesh: Any) -> None:
    assert told(lambda: call(untouched, mesh=mesh)) == [("PTK001", "mesh", "has no axes")]


def test_manual_axes_are_those_of_shard_map() -> None:
    mesh = AbstractMesh((4,), ("data",), axis_types=(AxisType.Manual,))
    (fault,) = told(lambda: ptk.dry_run(untouched, X, mesh=mesh))
    assert fault[:2] == ("PTK001", "mesh")
    assert fault[2].startswith("has Manual axes")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("progress", ["yes", 1, 0])
def test_progress_is_a_bool(call: Callable[..., Any], progress: Any) -> None:
    (fault,) = told(lambda: call(untouched, progress=progress))
    assert fault[:2] == ("PTK001", "progress")
    assert fault[2] == f"must be a bool or None, this is {progress!r}"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("bandwidth", ["fast", 0, -1.0, float("nan"), True, {"data": 0}, {}])
def test_a_bandwidth_is_a_number_for_each_axis(call: Callable[..., Any], bandwidth: Any) -> None:
    (fault,) = told(lambda: call(untouched, bandwidth=bandwidth))
    assert fault[:2] in {("PTK001", "bandwidth"), ("PTK001", "bandwidth['data']")}


@pytest.mark.parametrize("latency", ["late", -1.0, float("nan"), None, {"data": -1}])
def test_a_latency_is_a_number(latency: Any) -> None:
    (fault,) = told(lambda: dry_run(untouched, X, mesh=MESH, latency=latency))
    assert fault[:2] in {("PTK001", "latency"), ("PTK001", "latency['data']")}


def test_plans_to_compare_have_names_and_are_there() -> None:
    assert told(lambda: compare(untouched, (X,), {})) == [("PTK001", "plans", "has no plan")]
    for plans in (None, [PLAN], PLAN):
        (fault,) = told(lambda plans=plans: compare(untouched, (X,), plans))
        assert fault[2].startswith("must be a dict of plans by name, this is ")
    assert told(lambda: compare(untouched, (X,), {"a": PLAN, "b": "c"})) == [
        ("PTK001", "plans['b']", "must be a ShardingPlan or several, this is a str")
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda **more: compare(untouched, X, {"a": PLAN}, **more),
        lambda **more: suggest(X, untouched, MESH, args=X, **more),
    ],
)
def test_arguments_are_a_tuple(call: Callable[..., Any]) -> None:
    (fault,) = told(call)
    assert fault[:2] == ("PTK001", "args")


def test_all_faults_are_told_at_once() -> None:
    wrong: dict[str, Any] = {"bandwidth": 0, "latency": -1, "progress": "yes"}
    known = ["bandwidth", "latency", "progress"]
    lowered = JITTED.lower(X)
    found = told(lambda: dry_run(lowered, X, plan=3, mesh={}, **wrong))
    assert [place for _, place, _ in found] == ["step", "plan", "mesh", *known]
    calls = {
        "args plans": lambda: compare(lowered, X, {}, mesh={}, memory=0, **wrong),
        "plans['a']": lambda: compare(lowered, (X,), {"a": 3}, mesh={}, memory=0, **wrong),
        "args": lambda: suggest(X, lowered, {}, args=X, memory=0, **wrong),
    }
    for more, call in calls.items():
        places = [place for _, place, _ in told(call)]
        assert sorted(places) == sorted(["step", "mesh", "memory", *known, *more.split()])
        assert places[0] == "step"


def test_what_is_no_plan_is_one_fault_though_there_is_no_mesh() -> None:
    (fault,) = told(lambda: dry_run(untouched, X, plan="fsdp"))
    assert fault[1] == "plan"


def test_none_is_asked_for_within_a_traced_function() -> None:
    within = jax.jit(lambda x: (dry_run(untouched, X, mesh=MESH), x))
    (fault,) = told(lambda: within(jnp.ones(3)))
    assert fault[2] == "is asked for while another function is traced: do so outside of it"


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("size", [4, 16])
def test_what_does_not_divide_is_shown_by_its_type(kind: AxisType, size: int) -> None:
    mesh = AbstractMesh((size,), ("data",), axis_types=(kind,))
    split = NamedSharding(mesh, P("data"))
    uneven = jax.ShapeDtypeStruct((6, 64), jnp.bfloat16, sharding=split)
    with pytest.raises(ptk.SpecError) as raised:
        dry_run(lambda params: params, {"ü": uneven})
    (fault,) = raised.value.faults
    assert (fault.code, fault.place, fault.found) == ("PTK303", "params['ü']", "bf16[6,64]")
    assert "ShapeDtypeStruct" not in str(raised.value)
