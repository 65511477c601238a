"""Dry runs: what known programs send is worked out by hand, what they hold is what JAX says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk
from pytreekit.dryrun import around

MESH = {"data": 4, "model": 2}
IN, HIDDEN, OUT, BATCH, LAYERS = 64, 128, 32, 2048, 5
HERE = Path(__file__).name


def shape(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def laid_out(spec: P, *sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return ptk.ShardingPlan(shape(*sizes, dtype=dtype), spec, MESH).abstract()


PARAMS = {"w1": shape(IN, HIDDEN), "w2": shape(HIDDEN, OUT)}
GRADIENT = 4 * (IN * HIDDEN + HIDDEN * OUT)


def loss(params: Any, x: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ params["w1"]) @ params["w2"]) ** 2)


def train(params: Any, x: Any) -> Any:
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(loss)(params, x))


def told(run: Any) -> list[tuple[Any, ...]]:
    return [(one.kind, one.axes, one.bytes, one.times) for one in run.collectives]


@pytest.fixture(scope="module")
def whole() -> Any:
    """Data parallel: parameters whole on each device."""
    plan = ptk.ShardingPlan(PARAMS, P(), MESH)
    return ptk.dry_run(train, PARAMS, laid_out(P("data"), BATCH, IN), plan=plan, bandwidth=1e9)


@pytest.fixture(scope="module")
def split() -> Any:
    """Fully sharded: each parameter split over the devices of the batch."""
    plan = ptk.ShardingPlan(PARAMS, P("data"), MESH)
    step = jax.jit(train, donate_argnums=0, out_shardings=plan_on_devices(plan).shardings)
    return ptk.dry_run(step, PARAMS, laid_out(P("data"), BATCH, IN), plan=plan)


def plan_on_devices(plan: Any) -> Any:
    devices = np.array(jax.devices()[:8]).reshape(4, 2)
    return ptk.ShardingPlan(PARAMS, plan, Mesh(devices, ("data", "model")))


def test_data_parallel_training_reduces_the_gradient_once(whole: Any) -> None:
    assert told(whole) == [("all-reduce", ("data",), GRADIENT, 1)]
    (one,) = whole.collectives
    assert one.sent == one.accelerator_sent == 2 * 3 / 4 * GRADIENT
    assert one.seconds == whole.seconds == one.sent / 1e9
    assert one.devices == 4
    assert one.operation == "dot_general, backward"
    assert one.source.startswith(f"{HERE}:")
    assert Path(one.file) == Path(__file__)


def test_the_line_is_that_of_the_product_whose_gradient_it_is(whole: Any) -> None:
    lines = Path(__file__).read_text().splitlines()
    assert 'params["w1"]) @ params["w2"]' in lines[whole.collectives[0].line - 1]


def test_products_of_matrices_are_counted(whole: Any) -> None:
    products = 2 * (BATCH // 4) * (IN * HIDDEN + HIDDEN * OUT)
    # forward, by each parameter, and by the hidden layer; nobody wants the gradient by x
    assert whole.flops == 2 * products + 2 * (BATCH // 4) * HIDDEN * OUT
    assert whole.bytes_read > 0 < whole.bytes_written


def test_fully_sharded_training_gathers_each_parameter_and_reduces_the_gradient(split: Any) -> None:
    assert sorted(told(split)) == [
        ("all-gather", ("data",), 4 * HIDDEN * OUT, 1),
        ("all-gather", ("data",), 4 * IN * HIDDEN, 1),
        ("all-reduce", ("data",), GRADIENT, 1),
    ]
    gathered = {one.leaf for one in split.collectives if one.kind == "all-gather"}
    assert gathered == {"params['w1']", "params['w2']"}


def test_an_all_reduce_of_which_a_slice_is_kept_is_a_reduce_scatter_there(
    whole: Any, split: Any
) -> None:
    (reduced,) = [one for one in split.collectives if one.kind == "all-reduce"]
    assert reduced.accelerator == "reduce-scatter"
    assert reduced.accelerator_sent == reduced.sent / 2 == 3 / 4 * GRADIENT
    assert whole.collectives[0].accelerator == "all-reduce"  # here the whole of it is used
    assert any("reduce-scatter" in note for note in split.notes)
    assert not any("reduce-scatter" in note for note in whole.notes)


def forward(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


@pytest.mark.parametrize(("dtype", "there"), [(jnp.float32, 4), (jnp.bfloat16, 2)])
def test_tensor_parallel_layers_reduce_the_activation_in_f32(dtype: Any, there: int) -> None:
    params = {name: shape(*its.shape, dtype=dtype) for name, its in PARAMS.items()}
    plan = ptk.ShardingPlan(params, [("w1", "_ model"), ("w2", "model _")], MESH)
    run = ptk.dry_run(forward, params, laid_out(P("data"), BATCH, IN, dtype=dtype), plan=plan)
    elements = BATCH // 4 * OUT
    assert told(run) == [("all-reduce", ("model",), 4 * elements, 1)]
    assert run.collectives[0].accelerator_bytes == there * elements
    assert any("16 bit" in note for note in run.notes) == (there == 2)


def test_16_bit_parameters_are_gathered_in_f32_and_counted_as_what_they_are() -> None:
    params = {name: shape(*its.shape, dtype=jnp.bfloat16) for name, its in PARAMS.items()}
    plan = ptk.ShardingPlan(params, P("data"), MESH)
    x = laid_out(P("data"), BATCH, IN, dtype=jnp.bfloat16)
    run = ptk.dry_run(forward, params, x, plan=plan)
    assert {one.kind for one in run.collectives} == {"all-gather"}
    assert {one.accelerator_bytes for one in run.collectives} == {
        2 * IN * HIDDEN,
        2 * HIDDEN * OUT,
    }


def test_a_sum_that_the_user_wants_in_f32_stays_in_f32() -> None:
    mesh = plan_on_devices(ptk.ShardingPlan(PARAMS, P(), MESH)).mesh
    x = laid_out(P("data"), BATCH, IN, dtype=jnp.bfloat16)

    def total(x: Any) -> Any:
        return jax.lax.psum(x.astype(jnp.float32), "data").astype(jnp.bfloat16)

    summed = jax.shard_map(total, mesh=mesh, in_specs=P("data"), out_specs=P())
    (one,) = ptk.dry_run(summed, x, mesh=mesh).collectives
    assert one.accelerator_bytes == one.bytes == 4 * BATCH // 4 * IN
    assert (one.operation.partition("_")[0], one.axes) == ("psum", ("data",))


STACKED = {"up": shape(LAYERS, IN, HIDDEN), "down": shape(LAYERS, HIDDEN, IN)}


def layers(params: Any, x: Any) -> Any:
    def layer(h: Any, its: Any) -> Any:
        return h + jnp.tanh(h @ its["up"]) @ its["down"], None

    return jax.lax.scan(layer, x, params)[0]


def test_what_a_loop_sends_is_counted_as_often_as_it_runs() -> None:
    plan = ptk.ShardingPlan(STACKED, [("up", "_ _ model"), ("down", "_ model _")], MESH)
    run = ptk.dry_run(layers, STACKED, laid_out(P("data"), BATCH, IN), plan=plan)
    activation = 4 * (BATCH // 4) * IN
    assert told(run) == [("all-reduce", ("model",), activation, LAYERS)]
    assert run.collectives[0].total == LAYERS * activation
    assert run.flops == LAYERS * 2 * 2 * (BATCH // 4) * IN * HIDDEN // 2


def test_a_loop_whose_end_depends_on_data_counts_once_and_says_so() -> None:
    def until(w: Any, x: Any) -> Any:
        step = lambda x: jnp.tanh(x @ w)  # noqa: E731
        return jax.lax.while_loop(lambda x: jnp.sum(x) < 5.0, step, x)

    run = ptk.dry_run(until, laid_out(P("model"), IN, IN), laid_out(P("data", "model"), BATCH, IN))
    looped = [one for one in run.collectives if not one.exact]
    assert looped
    assert {one.times for one in looped} == {1}
    assert any("depends on data" in note for note in run.notes)
    assert "1+" in str(run)


def test_memory_is_what_the_compiled_program_says_that_runs(split: Any, whole: Any) -> None:
    plan = plan_on_devices(ptk.ShardingPlan(PARAMS, P("data"), MESH))
    params = plan.place({name: np.ones(its.shape, "f") for name, its in PARAMS.items()})
    x = jax.device_put(np.ones((BATCH, IN), "f"), NamedSharding(plan.mesh, P("data")))
    step = jax.jit(train, donate_argnums=0, out_shardings=plan.shardings)
    compiled = step.lower(params, x).compile()
    stats = compiled.memory_analysis()
    assert split.memory[:4] == (
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.temp_size_in_bytes,
        stats.alias_size_in_bytes,
    )
    assert split.memory.arguments == plan.memory().per_device + 4 * BATCH // 4 * IN
    assert plan.verify(compiled(params, x)) == ()
    assert whole.memory.outputs > 3 * split.memory.outputs


def test_another_process_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, spare = shape(BATCH, IN), shape(8)
    plans = {}
    for kind in AxisType.Auto, AxisType.Explicit:
        mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)
        spec = P("data") if kind is AxisType.Auto else P()
        pairs = (PARAMS, spec), (x, P("data")), (spare, P("data"))
        plans[kind.name] = [ptk.ShardingPlan(its, how, mesh) for its, how in pairs]
    step = jax.jit(lambda params, x, unused: train(params, x), donate_argnums=0)
    here = ptk.compare(step, (PARAMS, x, spare), plans)
    monkeypatch.setattr(around, "devices_of", lambda mesh: None)
    there = ptk.compare(step, (PARAMS, x, spare), plans)
    for name, run in there.runs.items():
        seconds = here.runs[name].compile_seconds
        assert dataclasses.replace(run, compile_seconds=seconds) == here.runs[name]
        assert run.collectives


def test_the_state_of_an_optimizer_follows_the_plan() -> None:
    optax = pytest.importorskip("optax")
    tx = optax.adam(1e-3)
    plan = ptk.ShardingPlan(PARAMS, P("data"), MESH)
    state = jax.eval_shape(tx.init, PARAMS)

    def step(params: Any, state: Any) -> Any:
        updates, state = tx.update(params, state)
        return optax.apply_updates(params, updates), state

    run = ptk.dry_run(step, PARAMS, state, plan=plan)
    assert run.collectives == ()
    assert run.memory.arguments == 3 * GRADIENT // 4 + 4


def test_the_whole_is_json_text_and_html(split: Any) -> None:
    its = json.loads(split.to_json())
    assert its["mesh"] == MESH
    assert its["memory"]["peak"] == split.memory.peak
    assert its["communication"] == split.communication
    assert [one["total"] for one in its["collectives"]] == [one.total for one in split.collectives]
    text = str(split)
    assert max(map(len, text.splitlines())) <= 88
    assert "reduce-scatter" in text
    assert "params['w1']" in text
    html = split._repr_html_()
    assert "&#x27;w1&#x27;" in html or "&#39;w1&#39;" in html
    assert "http" not in html
    assert repr(split).startswith("<DryRun of train over data=4, model=2")


def test_what_costs_most_comes_first(split: Any) -> None:
    costs = [one.accelerator_sent for one in split.collectives]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("PTK001", lambda: ptk.dry_run(train, PARAMS, shape(8, IN))),
        ("PTK001", lambda: ptk.dry_run(train, PARAMS, shape(8, IN), plan="fsdp")),
        ("PTK001", lambda: ptk.dry_run(train, PARAMS, shape(8, IN), mesh=MESH, bandwidth=0)),
        (
            "PTK001",
            lambda: ptk.dry_run(train, PARAMS, shape(8, IN), mesh=MESH, bandwidth={"data": 1e9}),
        ),
        ("PTK001", lambda: ptk.dry_run(train, PARAMS, shape(8, IN), mesh=MESH, latency=-1)),
        ("PTK104", lambda: ptk.dry_run(lambda x, how: x, shape(8, IN), ["relu"], mesh=MESH)),
    ],
)
def test_wrong_arguments_are_faults(code: str, call: Any) -> None:
    with pytest.raises(ptk.SpecError) as raised:
        call()
    assert [fault.code for fault in raised.value.faults] == [code]


def test_an_argument_that_does_not_divide_is_told_by_its_name() -> None:
    uneven = jax.eval_shape(lambda: jnp.zeros((6, IN)))
    mesh = ptk.ShardingPlan(PARAMS, P(), MESH).mesh
    odd = jax.ShapeDtypeStruct(uneven.shape, "float32", sharding=NamedSharding(mesh, P("data")))
    with pytest.raises(ptk.SpecError) as raised:
        ptk.dry_run(train, PARAMS, odd)
    (fault,) = raised.value.faults
    assert (fault.code, fault.place, fault.spec_path) == ("PTK303", "x", "x.sharding")


def test_an_error_of_the_step_is_its_own() -> None:
    with pytest.raises(TypeError, match="dot_general"):
        ptk.dry_run(train, PARAMS, shape(8, IN + 1), mesh=MESH)


def test_what_cannot_leave_this_process_is_a_fault_that_says_what_to_do() -> None:
    def printing(x: Any) -> Any:
        jax.debug.print("{}", x[0, 0])
        return x

    x = jax.ShapeDtypeStruct((32, 4), jnp.float32)
    with pytest.raises(ptk.SpecError) as raised:
        ptk.dry_run(printing, x, mesh={"data": 16})
    (fault,) = raised.value.faults
    assert (fault.code, fault.place) == ("PTK701", "printing")
    assert "xla_force_host_platform_device_count=16" in fault.note
    assert "callbacks" in raised.value.__notes__[0]


def test_what_is_not_compiled_is_a_fault_with_the_words_of_jax() -> None:
    def foreign(x: Any) -> Any:
        return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    with pytest.raises(ptk.SpecError) as raised:
        ptk.dry_run(foreign, shape(8, 8), mesh=MESH)
    assert [fault.code for fault in raised.value.faults] == ["PTK702"]
    assert "no_such_target" in raised.value.__notes__[0]


@pytest.mark.parametrize("step", [lambda x: 2 * x, jax.jit(lambda x: 2 * x)])
def test_arguments_without_shardings_are_whole_on_each_device(step: Any) -> None:
    run = ptk.dry_run(step, shape(8, IN), mesh=MESH)
    assert (run.mesh, run.memory.arguments) == (MESH, 4 * 8 * IN)


def test_a_plan_of_something_else_a_mesh_of_another_plan_and_no_array() -> None:
    plan = ptk.ShardingPlan(shape(8, IN), P("data"), MESH)
    wrong = [(shape(4, 4), {"plan": plan}), (shape(8, IN), {"plan": plan, "mesh": {"data": 3}})]
    for arguments, more in [*wrong, ({}, {"mesh": MESH})]:
        with pytest.raises(ptk.SpecError) as raised:
            ptk.dry_run(lambda x: x, arguments, **more)
        assert [fault.code for fault in raised.value.faults] == ["PTK001"]
