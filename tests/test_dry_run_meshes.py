"""What a step finds of the mesh that is asked for, and how often a dry run traces it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk
from pytreekit.commands.dry_run import run as command

HERE, ELSEWHERE = {"data": 4}, {"data": 16}
PLACES = pytest.mark.parametrize("mesh", [HERE, ELSEWHERE], ids=["here", "elsewhere"])
BOTH_KINDS = pytest.mark.parametrize(
    ("mesh", "kind"),
    [(HERE, AxisType.Auto), (HERE, AxisType.Explicit), (ELSEWHERE, AxisType.Explicit)],
)
WRAPPED = pytest.mark.parametrize("wrap", [lambda step: step, jax.jit], ids=["plain", "jitted"])
SIZE = 4 * 32 * 64


def shape(*sizes: int, sharding: Any = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, jnp.float32, sharding=sharding)


X = shape(32, 64)


def constrained(x: Any) -> Any:
    return jax.lax.with_sharding_constraint(x * 2, P("data"))


def nested(x: Any) -> Any:
    return jax.jit(jnp.sin, in_shardings=P("data"), out_shardings=P("data"))(x)


def mapped(x: Any) -> Any:
    return jax.shard_map(jnp.sin, in_specs=P("data"), out_specs=P("data"))(x)


def all_of_them(x: Any) -> Any:
    return mapped(nested(constrained(x)))


@pytest.mark.parametrize(
    ("step", "mesh"),
    [
        *((step, HERE) for step in (constrained, nested, mapped)),
        *((jax.jit(step), HERE) for step in (constrained, nested, mapped)),
        *((step, ELSEWHERE) for step in (all_of_them, jax.jit(all_of_them))),
    ],
)
def test_bare_specs_in_a_step_are_of_the_mesh(step: Callable[..., Any], mesh: Any) -> None:
    run = ptk.dry_run(step, X, mesh=mesh)
    assert run.memory.outputs == SIZE // mesh["data"]
    assert run.collectives == ()


@BOTH_KINDS
def test_a_step_can_ask_for_the_mesh(mesh: Any, kind: AxisType) -> None:
    asked: list[Any] = []

    def step(x: Any) -> Any:
        asked.append(jax.sharding.get_abstract_mesh())
        return x

    ptk.dry_run(step, X, mesh=AbstractMesh((mesh["data"],), ("data",), axis_types=(kind,)))
    (found,) = asked
    assert dict(found.shape) == mesh
    assert found.axis_types == (kind,)


@pytest.mark.parametrize(
    ("of", "mesh"),
    [("mesh", HERE), ("plan", HERE), ("arguments", HERE), ("plan", ELSEWHERE)],
)
def test_it_wins_over_a_mesh_that_is_set(mesh: Any, of: str) -> None:
    other = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    plan = ptk.ShardingPlan(X, P("data"), mesh)
    asked = {
        "mesh": lambda: ptk.dry_run(constrained, X, mesh=mesh),
        "plan": lambda: ptk.dry_run(constrained, X, plan=plan),
        "arguments": lambda: ptk.dry_run(constrained, plan.abstract()),
    }
    with jax.set_mesh(other):
        assert asked[of]().memory.outputs == SIZE // mesh["data"]
        assert jax.sharding.get_mesh() == other
    assert jax.sharding.get_mesh().empty


def test_a_mesh_that_is_set_serves_where_there_is_no_other() -> None:
    devices = np.array(jax.devices()[:4])[::-1]
    mesh = Mesh(devices, ("data",), axis_types=(AxisType.Auto,))
    step = jax.jit(jnp.sin, out_shardings=NamedSharding(mesh, P("data")))
    with jax.set_mesh(mesh):
        assert ptk.dry_run(step, X).memory.outputs == SIZE // 4


def test_no_trace_of_a_step_is_kept_for_later_calls() -> None:
    def step(x: Any) -> Any:
        return nested(x)

    ptk.dry_run(step, X, mesh=HERE)
    other = Mesh(np.array(jax.devices()[:4])[::-1], ("data",), axis_types=(AxisType.Auto,))
    with jax.set_mesh(other):
        assert jax.jit(step)(jnp.ones(X.shape)).sharding.mesh == other


def test_of_compared_plans_each_step_finds_its_own_mesh() -> None:
    plans = {str(size): ptk.ShardingPlan(X, P(), {"data": size}) for size in (2, 8, 16)}
    found = ptk.compare(constrained, (X,), plans)
    held = {name: run.memory.outputs for name, run in found.runs.items()}
    assert held == {name: SIZE // int(name) for name in plans}
    best = ptk.suggest({"w": X}, lambda params: constrained(params["w"]), ELSEWHERE)
    assert {run.memory.outputs for run in best.runs.values()} == {SIZE // 16}


@PLACES
def test_bare_specs_as_shardings_of_a_jitted_step(mesh: Any) -> None:
    parts = mesh["data"]
    into = ptk.dry_run(jax.jit(jnp.sin, in_shardings=P("data")), X, mesh=mesh)
    out = ptk.dry_run(jax.jit(jnp.sin, out_shardings=P("data")), X, mesh=mesh)
    assert into.memory.arguments == out.memory.outputs == SIZE // parts


@BOTH_KINDS
def test_shardings_of_a_plan_without_devices_as_those_of_a_jitted_step(
    mesh: Any, kind: AxisType
) -> None:
    its = AbstractMesh((mesh["data"],), ("data",), axis_types=(kind,))
    plan = ptk.ShardingPlan(X, P("data"), its)
    step = jax.jit(jnp.sin, in_shardings=plan.shardings, out_shardings=plan.shardings)
    for arguments in (plan.abstract(), X):
        run = ptk.dry_run(step, arguments, mesh=its)
        assert run.memory.arguments == run.memory.outputs == SIZE // mesh["data"]


@PLACES
@WRAPPED
def test_a_step_may_bring_the_mesh_of_its_plan(mesh: Any, wrap: Callable[..., Any]) -> None:
    plan = ptk.ShardingPlan(X, P("data"), mesh)

    def step(x: Any) -> Any:
        x = jax.lax.with_sharding_constraint(x, NamedSharding(plan.mesh, P(None, "data")))
        return jax.shard_map(jnp.sin, mesh=plan.mesh, in_specs=P("data"), out_specs=P("data"))(x)

    run = ptk.dry_run(wrap(step), plan.abstract())
    assert run.memory.outputs == SIZE // mesh["data"]


def test_a_step_may_bring_another_mesh_of_the_same_devices() -> None:
    flat = Mesh(np.array(jax.devices()[:8]), ("all",), axis_types=(AxisType.Auto,))
    plan = ptk.ShardingPlan(X, P("data"), {"data": 4, "model": 2})
    step = jax.shard_map(jnp.sin, mesh=flat, in_specs=P("all"), out_specs=P("all"))
    assert ptk.dry_run(step, plan.abstract()).memory.outputs == SIZE // 8


@pytest.mark.parametrize(
    "step",
    [
        lambda mesh: jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("d"), out_specs=P("d")),
        lambda mesh: jax.jit(jnp.sin, in_shardings=NamedSharding(mesh, P("d"))),
        lambda mesh: jax.jit(jnp.sin, out_shardings=NamedSharding(mesh, P("d"))),
    ],
)
def test_a_mesh_of_fewer_devices_cannot_leave_this_process(step: Callable[..., Any]) -> None:
    mesh = Mesh(np.array(jax.devices()[:8]), ("d",), axis_types=(AxisType.Auto,))
    with pytest.raises(ptk.SpecError) as raised:
        ptk.dry_run(step(mesh), X, mesh=ELSEWHERE)
    assert [fault.code for fault in raised.value.faults] == ["PTK701"]


# -- traced once -----------------------------------------------------------------------------------


def counting(times: list[str], wrap: Callable[..., Any] = lambda step: step) -> Any:
    """A step that no cache of JAX knows, which tells how often it is entered."""

    def step(x: Any) -> Any:
        times.append("entered")
        return x * 2

    return wrap(step)


@BOTH_KINDS
@pytest.mark.parametrize(
    "wrap",
    [
        lambda step: step,
        lambda step: jax.jit(step, donate_argnums=0),
        lambda step: jax.jit(step, out_shardings=P("data")),
    ],
    ids=["plain", "jitted", "with_shardings"],
)
def test_a_step_is_traced_once(mesh: Any, kind: AxisType, wrap: Callable[..., Any]) -> None:
    its = AbstractMesh((mesh["data"],), ("data",), axis_types=(kind,))
    times: list[str] = []
    run = ptk.dry_run(counting(times, wrap), X, mesh=its)
    assert all([run.to_json(), str(run), run._repr_html_()])
    assert times == ["entered"]


@WRAPPED
def test_a_step_with_laid_out_arguments_is_traced_once(wrap: Callable[..., Any]) -> None:
    times: list[str] = []
    ptk.dry_run(counting(times, wrap), ptk.ShardingPlan(X, P("data"), HERE).abstract())
    assert times == ["entered"]


@PLACES
def test_a_step_is_traced_once_for_each_plan(mesh: Any) -> None:
    times: list[str] = []
    specs = {"whole": P(), "split": P("data")}
    plans = {name: ptk.ShardingPlan(X, spec, mesh) for name, spec in specs.items()}
    ptk.compare(counting(times), (X,), plans)
    assert len(times) <= 2


MODULE = """\
import jax
import pytreekit as ptk

times = []


def step(x):
    times.append("entered")
    return x * 2


def dry():
    return {"step": step, "args": (jax.ShapeDtypeStruct((32, 64), "float32"),)}
"""


@PLACES
def test_a_report_traces_the_step_no_second_time(
    mesh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"counted_{mesh['data']}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = tmp_path / "report.html"
    assert command(target=f"{name}:dry", mesh=mesh, html=str(page)) == 0
    assert "temporaries" in page.read_text()
    assert __import__(name).times == ["entered"]


@PLACES
@WRAPPED
@pytest.mark.parametrize("error", [ValueError("mine"), KeyError("mine")])
def test_an_error_of_the_step_is_its_own_and_ends_it(
    mesh: Any, wrap: Callable[..., Any], error: Exception
) -> None:
    times: list[str] = []

    def step(x: Any) -> Any:
        times.append("entered")
        raise error

    with pytest.raises(type(error)) as raised:
        ptk.dry_run(wrap(step), X, mesh=mesh)
    assert raised.value is error
    assert times == ["entered"]


@PLACES
def test_an_error_that_jax_raises_in_the_step_is_raised_as_it_is(mesh: Any) -> None:
    with pytest.raises(TypeError, match="reshape"):
        ptk.dry_run(lambda x: jnp.reshape(x, (7,)), X, mesh=mesh)
    with pytest.raises(ValueError, match="model"):
        ptk.dry_run(lambda x: jax.lax.with_sharding_constraint(x, P("model")), X, mesh=mesh)


# -- what is split within a step -------------------------------------------------------------------


def two_axes(sizes: dict[str, int], kind: AxisType) -> AbstractMesh:
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=(kind,) * len(sizes))


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (4, constrained),
        (4, mapped),
        (4, jax.jit(jnp.sin, in_shardings=P("data"))),
        (4, jax.jit(jnp.sin, out_shardings=P("data"))),
        (4, lambda x: jax.lax.scan(lambda c, y: (c, constrained(y)), 0, jnp.stack([x, x]))[1]),
        (8, constrained),
        (8, jax.jit(jnp.sin, in_shardings=P("data"))),
        (8, jax.jit(jnp.sin, out_shardings=P("data"))),
    ],
)
def test_an_axis_that_a_step_splits_its_own_arrays_over_is_used(
    data: int, step: Callable[..., Any]
) -> None:
    run = ptk.dry_run(step, X, mesh={"data": data, "model": 2})
    assert [(fault.code, fault.place) for fault in run.findings] == [("PTK753", "mesh['model']")]


def test_an_explicit_axis_that_arrays_are_resharded_over_is_used() -> None:
    mesh = two_axes({"data": 4, "model": 2}, AxisType.Explicit)
    run = ptk.dry_run(lambda x: jax.reshard(x, P("data")) + 1, X, mesh=mesh)
    assert [fault.place for fault in run.findings] == ["mesh['model']"]
