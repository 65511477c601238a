"""Plans side by side, plans that are searched for, and what in a step is hardly meant."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

MESH = {"data": 4, "model": 2}
PARAMS = {
    "up": jax.ShapeDtypeStruct((512, 256), jnp.float32),
    "down": jax.ShapeDtypeStruct((256, 512), jnp.float32),
}
BYTES = 2 * 4 * 256 * 512
RULES = [("up", "_ model"), ("down", "model _")]


def laid_out(spec: P, *sizes: int) -> jax.ShapeDtypeStruct:
    return ptk.ShardingPlan(jax.ShapeDtypeStruct(sizes, jnp.float32), spec, MESH).abstract()


def loss(params: Any, x: Any) -> Any:
    return jnp.mean((jnp.tanh(x @ params["up"]) @ params["down"]) ** 2)


def train(params: Any, x: Any) -> Any:
    return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(loss)(params, x))


step = jax.jit(train, donate_argnums=0)
X = laid_out(P("data"), 1024, 512)
LOOSE = 10**9


@pytest.fixture(scope="module")
def found() -> Any:
    return ptk.suggest(PARAMS, step, MESH, args=(X,), rules=RULES, memory=LOOSE, bandwidth=1e9)


def test_simple_families_are_searched(found: Any) -> None:
    assert list(found.runs) == [
        "whole",
        "split over data",
        "split over model",
        "split over data+model",
        "rules",
        "rules, split over data",
    ]  # what is split over model by rules is not split over it again
    held = {name: run.memory.arguments - 4 * 256 * 512 for name, run in found.runs.items()}
    parts = {name: BYTES // size for name, size in held.items()}
    assert list(parts.values()) == [1, 4, 2, 8, 2, 8]


def test_the_plan_that_fits_and_sends_least_is_named(found: Any) -> None:
    cost = {
        name: (run.seconds, run.communication, run.memory.peak) for name, run in found.runs.items()
    }
    assert found.best == min(cost, key=lambda name: cost[name])
    assert found.plan == ptk.ShardingPlan(PARAMS, found.plan, MESH)
    assert f"{found.best} takes least time of what fits" in str(found)


def test_best_is_said_to_be_what_it_is_chosen_by() -> None:
    plans = {"whole": ptk.ShardingPlan(PARAMS, P(), MESH)}
    calls = {"sends least": {}, "takes least time": {"bandwidth": 1e9}}
    for told, links in calls.items():
        assert f"\nwhole {told}\n" in "\n" + str(ptk.compare(step, (PARAMS, X), plans, **links))


def test_the_seconds_of_a_run_are_those_of_its_collectives_in_turn(found: Any) -> None:
    run = max(found.runs.values(), key=lambda run: len(run.collectives))
    assert len(run.collectives) > 1
    assert run.seconds == pytest.approx(sum(one.seconds for one in run.collectives))
    assert "one after the other" in str(run)


def test_with_less_memory_another_plan_is_best(found: Any) -> None:
    peaks = sorted(run.memory.peak for run in found.runs.values())
    tight = type(found)(found.runs, peaks[0], {}, found.plans)
    assert found.runs[tight.best].memory.peak == peaks[0]
    none = type(found)(found.runs, peaks[0] - 1, {}, found.plans)
    assert (none.best, none.plan) == (None, None)
    assert "no plan fits" in str(none)


def test_what_cannot_fit_is_not_compiled() -> None:
    less = ptk.suggest(PARAMS, step, MESH, args=(X,), memory=BYTES // 4)
    assert list(less.left_out) == ["whole", "split over model"]
    assert less.left_out["whole"] == "the parameters alone take 1.0 MiB of each device"
    assert "Not compiled" in str(less)


def test_plans_are_compared_side_by_side(found: Any) -> None:
    plans = {name: found.plans[name] for name in ("whole", "split over data")}
    both = ptk.compare(step, (PARAMS, X), plans, bandwidth=1e9)
    for name in plans:
        assert both.runs[name].collectives == found.runs[name].collectives
    assert both.memory is None
    text = str(both)
    assert max(map(len, text.splitlines())) <= 88
    assert "fits" not in text
    assert json.loads(both.to_json())["best"] == both.best


def test_a_comparison_has_a_picture(found: Any) -> None:
    root = ET.fromstring(found.picture())
    told = [its.text for its in root.iter("{http://www.w3.org/2000/svg}text")]
    assert told.count("whole") == 2
    assert "(a device)" in told
    assert "<table>" in found._repr_html_()
    assert found.picture() in found._repr_html_()


def test_several_plans_may_lay_out_one_run() -> None:
    batch = ptk.ShardingPlan(jax.ShapeDtypeStruct((1024, 512), jnp.float32), P("data"), MESH)
    params = ptk.ShardingPlan(PARAMS, P(), MESH)
    run = ptk.dry_run(step, PARAMS, batch.abstract(), plan=[params, batch])
    assert run.collectives
    assert ptk.compare(step, (PARAMS, X), {"a": [params, batch]}).best == "a"


@pytest.mark.parametrize(
    "call",
    [
        lambda: ptk.compare(step, (PARAMS, X), {}),
        lambda: ptk.compare(step, (PARAMS, X), {"a": "b"}),
        lambda: ptk.compare(step, (PARAMS, X), {"a": found}, memory=0),
        lambda: ptk.suggest(PARAMS, step, MESH, memory=-1),
    ],
)
def test_wrong_arguments_are_faults(call: Callable[[], Any]) -> None:
    with pytest.raises(ptk.SpecError) as raised:
        call()
    assert {fault.code for fault in raised.value.faults} == {"PTK001"}


# -- what is hardly meant --------------------------------------------------------------------------


def codes(run: Any) -> list[tuple[str, str]]:
    return [(fault.code, fault.place) for fault in run.findings]


def test_correct_training_has_no_findings(found: Any) -> None:
    assert {name: codes(run) for name, run in found.runs.items() if run.findings} == {
        name: [("PTK753", "mesh['model']")] for name in ("whole", "split over data")
    }


@pytest.mark.parametrize(
    ("fun", "spec"),
    [(lambda x: jnp.cumsum(x, 0), P("data")), (lambda x: jnp.linalg.qr(x)[0], P("data", "model"))],
)
def test_what_xla_cannot_split_is_gathered_whole(fun: Callable[[Any], Any], spec: P) -> None:
    run = ptk.dry_run(fun, laid_out(spec, 64, 32))
    assert {code for code, _ in codes(run)} <= {"PTK751", "PTK753"}
    (fault, *_) = run.findings
    assert fault.code == "PTK751"
    assert "is gathered whole on each device, 8.0 KiB" in fault.title
    assert "shard_map" in fault.note
    assert __file__.rpartition("/")[2] in fault.place + fault.note


def test_what_is_asked_for_as_a_whole_is_no_finding() -> None:
    mesh = ptk.ShardingPlan(PARAMS, P(), MESH).mesh

    def asked(x: Any) -> Any:
        whole = jax.lax.with_sharding_constraint(x, jax.sharding.NamedSharding(mesh, P()))
        return jnp.sin(whole)

    run = ptk.dry_run(asked, laid_out(P("data", "model"), 64, 32))
    assert codes(run) == []


def test_what_goes_in_split_and_comes_out_whole_is_told() -> None:
    mesh = ptk.ShardingPlan(PARAMS, P(), MESH).mesh

    def leaks(params: Any, x: Any) -> Any:
        whole = jax.sharding.NamedSharding(mesh, P())
        new = train(params, x)
        return {**new, "up": jax.lax.with_sharding_constraint(new["up"], whole)}, jnp.sum(x)

    run = ptk.dry_run(leaks, PARAMS, X, plan=ptk.ShardingPlan(PARAMS, RULES, MESH))
    assert codes(run) == [("PTK752", "outputs[0]['up']")]
    assert "params['up'] goes in as P(None, 'model')" in run.findings[0].title


def micro(params: Any, batches: Any) -> Any:
    def one(total: Any, x: Any) -> Any:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(params, x)), None

    return jax.lax.scan(one, jax.tree.map(jnp.zeros_like, params), batches)[0]


@pytest.mark.parametrize("spec", [P("model"), P("data")])
def test_gradients_that_a_loop_reduces_and_adds_up_are_told(spec: P) -> None:
    plan = ptk.ShardingPlan(PARAMS, spec, MESH)
    run = ptk.dry_run(micro, PARAMS, laid_out(P(None, "data"), 5, 1024, 512), plan=plan)
    sums = [one for one in run.findings if one.code == "PTK754"]
    assert sums
    assert all("5 times, added up by the loop" in one.title for one in sums)


def test_gradients_of_layers_that_a_loop_only_keeps_are_no_finding() -> None:
    def layer(h: Any, its: Any) -> Any:
        return h + jnp.tanh(h @ its["up"]) @ its["down"], None

    def many(params: Any, x: Any) -> Any:
        return jax.grad(lambda p: jnp.mean(jax.lax.scan(layer, x, p)[0] ** 2))(params)

    stacked = jax.tree.map(lambda its: jax.ShapeDtypeStruct((3, *its.shape), its.dtype), PARAMS)
    plan = ptk.ShardingPlan(stacked, P(None, "data", "model"), MESH)
    run = ptk.dry_run(many, stacked, X, plan=plan)
    assert [code for code, _ in codes(run) if code == "PTK754"] == []
    assert {one.times for one in run.collectives} == {3}


def test_what_is_alike_has_one_row() -> None:
    names = [f"layer{number}" for number in range(6)]

    def many(params: Any, x: Any) -> Any:
        for name in names:
            x = jnp.tanh(x @ params[name])
        return x

    shapes = {name: jax.ShapeDtypeStruct((64, 64), jnp.float32) for name in names}
    run = ptk.dry_run(
        many, shapes, laid_out(P("data"), 512, 64), plan=ptk.ShardingPlan(shapes, P("data"), MESH)
    )
    assert len(run.collectives) == 6
    (row,) = [line for line in str(run).splitlines() if line.startswith("| all-gather")]
    assert "|  6 | " in row or "| 6 | " in row
    assert "and 5 more" in str(run)
