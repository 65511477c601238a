"""ptk.data_parallel and ptk.data_parallel_grad: the numbers of one device, on many."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

XS = jnp.arange(8.0)
KINDS = pytest.mark.parametrize(
    "kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"]
)


def mesh_of(count: int, kind: AxisType = AxisType.Auto) -> Any:
    return jax.make_mesh((count,), ("data",), (kind,), devices=jax.devices()[:count])


def square(kind: AxisType = AxisType.Auto) -> Any:
    return jax.make_mesh((4, 2), ("data", "model"), (kind,) * 2)


def near(found: Any, wanted: Any) -> None:
    both = jax.tree.map(np.asarray, (found, wanted))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), *both)


def scaled(w: Any, x: Any) -> Any:
    return w * x


def codes(caught: Any) -> list[str]:
    return [fault.code for fault in caught.value.faults]


@pytest.mark.parametrize("count", [2, 4, 8])
@KINDS
def test_the_gradient_of_a_mean_is_not_too_large_by_the_devices(count: int, kind: AxisType) -> None:
    mean = ptk.data_parallel_grad(scaled, mesh=mesh_of(count, kind))
    near(mean(2.0, XS), (7.0, 3.5))


def loss(params: Any, x: Any, y: Any) -> Any:
    return jnp.square(jnp.tanh(x @ params["w"] + params["b"]) - y).sum()


@functools.cache
def problem() -> tuple[Any, Any, Any]:
    keys = jax.random.split(jax.random.key(0), 3)
    params = {"w": jax.random.normal(keys[0], (6, 4)), "b": jnp.ones(4)}
    return params, jax.random.normal(keys[1], (16, 6)), jax.random.normal(keys[2], (16, 4))


def mean_loss(params: Any, xs: Any, ys: Any) -> Any:
    return jax.vmap(loss, (None, 0, 0))(params, xs, ys).mean()


@pytest.mark.parametrize("size", [16, 13, 3, 1])
def test_a_ragged_batch_is_padded_and_weighted_right(size: int) -> None:
    params, xs, ys = problem()
    mean = ptk.data_parallel_grad(loss, mesh=mesh_of(8), on_indivisible="pad")
    wanted = jax.value_and_grad(mean_loss)(params, xs[:size], ys[:size])
    near(mean(params, xs[:size], ys[:size]), wanted)


@KINDS
def test_aux_is_that_of_every_example_in_order_without_the_padded(kind: AxisType) -> None:
    def with_aux(w: Any, x: Any) -> Any:
        return w * x, {"x": x, "twice": jnp.stack([x, x])}

    mean = ptk.data_parallel_grad(
        with_aux, mesh=mesh_of(4, kind), has_aux=True, on_indivisible="pad"
    )
    (value, aux), gradient = mean(2.0, XS[:5])
    near((value, gradient), (4.0, 2.0))
    near(aux, {"x": np.arange(5.0), "twice": np.stack([np.arange(5.0)] * 2, 1)})


def test_padding_touches_no_other_example_even_where_a_gradient_is_not_finite() -> None:
    def root(w: Any, x: Any) -> Any:
        return jnp.sqrt(w * x)

    mean = ptk.data_parallel_grad(root, mesh=mesh_of(4), on_indivisible="pad")
    near(mean(1.0, jnp.array([1.0, 4.0, 9.0])), (2.0, 1.0))


def test_examples_along_another_dimension_and_what_is_shared_by_all() -> None:
    def weighed(w: Any, x: Any, scale: Any) -> Any:
        return (w * x).sum() * scale

    batch = {"scale": P(), ...: P(None, "data")}
    mean = ptk.data_parallel_grad(weighed, mesh=square(), axis="data", batch=batch)
    xs = jnp.arange(24.0).reshape(3, 8)
    near(mean(jnp.ones(3), xs, 2.0), (69.0, 2 * xs.mean(1)))
    near(mean(jnp.ones(3), scale=2.0, x=xs), (69.0, 2 * xs.mean(1)))
    both = ptk.data_parallel_grad(weighed, mesh=square(), batch=(P(None, ("data", "model")), P()))
    near(both(jnp.ones(3), xs, 2.0), (69.0, 2 * xs.mean(1)))


@pytest.mark.parametrize(
    ("options", "args", "found"),
    [
        ({}, (2.0, XS[:5]), ["PTK303"]),
        ({"on_indivisible": "pad"}, (2.0, XS[:0]), ["PTK406"]),
        ({"batch": P()}, (2.0, XS), ["PTK103"]),
        ({"axis": "date"}, (2.0, XS), ["PTK301"]),
        ({"batch": (P("data"), P())}, (2.0, XS), ["PTK203"]),
        ({"batch": {"y": P()}}, (2.0, XS), ["PTK105", "PTK106"]),
        ({"batch": 0}, (2.0, XS), ["PTK001"]),
        ({}, (2, XS), ["PTK402"]),
        ({}, (2.0, XS, jnp.ones(4)), ["PTK102"]),
    ],
)
def test_faults_of_mean_gradients_are_told_before_the_loss_runs(
    options: Any, args: Any, found: list[str]
) -> None:
    def never(*args: Any) -> Any:
        raise AssertionError

    def of_two(w: Any, x: Any) -> Any:
        return never()

    fun = of_two if len(args) == 2 else never
    mean = ptk.data_parallel_grad(fun, mesh=mesh_of(4), **options)
    with pytest.raises(ptk.SpecError) as caught:
        mean(*args)
    assert codes(caught) == found
    assert [fault.code for fault in mean.check(*args)] == found


def test_a_loss_that_is_no_scalar_is_told_when_it_returns() -> None:
    with pytest.raises(ptk.SpecError) as caught:
        ptk.data_parallel_grad(lambda w, x: w * x[None], mesh=mesh_of(4))(2.0, XS)
    assert codes(caught) == ["PTK403"]


def step(state: Any, batch: Any) -> Any:
    """A step of one device, which knows nothing of others."""
    value, gradient = jax.value_and_grad(mean_loss)(state["params"], batch["x"], batch["y"])
    params = jax.tree.map(lambda w, g: w - 0.1 * g, state["params"], gradient)
    return {"params": params, "step": state["step"] + 1}, {"loss": value}


def start(size: int = 16) -> tuple[Any, Any]:
    params, xs, ys = problem()
    return {"params": params, "step": jnp.int32(0)}, {"x": xs[:size], "y": ys[:size]}


def run(step: Any, state: Any, batch: Any) -> Any:
    losses = []
    for _ in range(3):
        state, metrics = step(state, batch)
        losses.append(metrics["loss"])
    return state, losses


@pytest.mark.parametrize("count", [2, 8])
@KINDS
def test_a_step_has_the_numbers_of_one_device(count: int, kind: AxisType) -> None:
    on_all = ptk.data_parallel(step, mesh=mesh_of(count, kind))
    state, losses = run(on_all, *start())
    near((state, losses), run(step, *start()))
    assert all(leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves((state, losses)))


@KINDS
def test_a_ragged_batch_is_whole_on_every_device(kind: AxisType) -> None:
    on_all = ptk.data_parallel(step, mesh=mesh_of(8, kind), on_indivisible="replicate")
    near(on_all(*start(13)), step(*start(13)))
    near(on_all(*start(16)), step(*start(16)))


def test_the_state_lies_as_its_plan_says_before_and_after() -> None:
    mesh = square()
    state, batch = start()
    rules = [("w", "model data|_"), ("b", "model"), ("step", "_")]
    plan = ptk.ShardingPlan(state, rules, mesh)
    on_all = ptk.data_parallel(step, mesh=mesh, state=plan, batch=P("data"))
    placed = plan.place(jax.tree.map(np.asarray, state))
    new, losses = run(on_all, placed, batch)
    assert plan.verify(new) == ()
    assert not new["params"]["w"].sharding.is_fully_replicated
    near((new, losses), run(step, state, batch))
    rows = {leaf.argument + leaf.path: leaf.shard for leaf in on_all.plan(state, batch).leaves}
    assert rows["state['params']['w']"] == "f32[3,1]"
    assert rows["batch['x']"] == "f32[4,6]"


def test_state_may_be_rules_or_shardings_or_specs() -> None:
    mesh = mesh_of(4)
    state, batch = start()
    specs = {"params": {"w": P(None, "data"), "b": P()}, "step": P()}
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    rules = ptk.Rules([("w", "_ data")], default="replicate")
    wanted = step(state, batch)
    for its in (specs, shardings, rules):
        new, metrics = ptk.data_parallel(step, mesh=mesh, state=its)(state, batch)
        assert new["params"]["w"].sharding.spec == P(None, "data")
        near((new, metrics), wanted)


def test_a_step_that_is_compiled_once_stays_so_and_lowers() -> None:
    traced = []

    def counted(w: Any, batch: Any, rate: Any = 0.1) -> Any:
        traced.append(1)
        return w - rate * batch.mean(0), None

    on_all = ptk.data_parallel(counted, mesh=mesh_of(4), donate_state=True)
    w, batch = jnp.ones(3), jnp.ones((8, 3))
    new, metrics = on_all(w, batch)
    newer, _ = on_all(new, batch=batch)
    assert (len(traced), metrics) == (1, None)
    near((w, newer), (np.ones(3), np.full(3, 0.8)))  # what is not where it should be is copied
    assert new.is_deleted()
    near(on_all(newer, batch, rate=1.0)[0], np.full(3, -0.2))
    assert "all_reduce" in on_all.lower(w, batch).as_text() or traced


@pytest.mark.parametrize(
    ("options", "size", "found"),
    [
        ({}, 13, ["PTK303", "PTK303"]),
        ({"batch": P("model")}, 16, ["PTK301"]),
        ({"batch": {"x": P("data")}}, 16, ["PTK201"]),
        ({"batch": P(None, None, "data")}, 16, ["PTK302", "PTK302"]),
        ({"state": {"params": P("data"), "step": P()}}, 16, ["PTK303"]),
        ({"state": P("data", "data")}, 16, ["PTK304"]),
    ],
)
def test_faults_of_a_step_are_told_before_it_runs(
    options: Any, size: int, found: list[str]
) -> None:
    def never(state: Any, batch: Any) -> Any:
        raise AssertionError

    on_all = ptk.data_parallel(never, mesh=mesh_of(4), **options)
    with pytest.raises(ptk.SpecError) as caught:
        on_all(*start(size))
    assert sorted(codes(caught)) == found


@pytest.mark.parametrize(
    ("out", "found"),
    [
        (lambda w: w, ["PTK508"]),
        (lambda w: [w, None], ["PTK508"]),
        (lambda w: ({"w": w}, None), ["PTK205"]),
        (lambda w: (w, "text"), ["PTK104"]),
        (lambda w: (w[:3], None), ["PTK303"]),
    ],
)
def test_what_a_step_returned_is_told(out: Any, found: list[str]) -> None:
    on_all = ptk.data_parallel(lambda w, batch: out(w), mesh=mesh_of(4), state=P("data"))
    with pytest.raises(ptk.SpecError) as caught:
        on_all(jnp.ones(4), jnp.ones(8))
    assert codes(caught) == found


@KINDS
def test_both_work_under_jit_and_where_a_mesh_is_set(kind: AxisType) -> None:
    mesh = mesh_of(4, kind)
    with jax.set_mesh(mesh):
        near(ptk.data_parallel_grad(scaled)(2.0, XS), (7.0, 3.5))
        near(jax.jit(ptk.data_parallel_grad(scaled))(2.0, XS), (7.0, 3.5))
        near(jax.jit(ptk.data_parallel(step))(*start()), step(*start()))


@pytest.mark.parametrize("wrap", [ptk.data_parallel, ptk.data_parallel_grad])
def test_wrapping_tells_what_is_no_option(wrap: Any) -> None:
    with pytest.raises(ptk.SpecError) as caught:
        wrap(step, mesh=mesh_of(2), on_indivisible="drop")
    assert codes(caught) == ["PTK001"]


@KINDS
def test_what_depends_on_no_argument_is_on_every_device(kind: AxisType) -> None:
    mesh = mesh_of(8, kind)
    state, _ = ptk.data_parallel(lambda w, x: (jnp.zeros(4), None), mesh=mesh)(jnp.ones(4), XS)
    assert len(state.sharding.device_set) == 8
    near(ptk.data_parallel_grad(lambda w, x: 1.0, mesh=mesh)(jnp.ones(4), XS), (1.0, np.zeros(4)))


class Trainer:
    def __init__(self, rate: float) -> None:
        self.rate, self.traced = rate, 0

    @ptk.data_parallel(mesh={"data": 2})
    def planned(self, w: Any, x: Any) -> Any:
        return w - self.rate * x.mean(), {}

    @ptk.data_parallel
    def step(self, w: Any, x: Any) -> Any:
        self.traced += 1
        return w - self.rate * x.mean(), {}


def test_a_step_may_be_a_method() -> None:
    slow, fast = Trainer(0.5), Trainer(1.0)
    with jax.set_mesh(mesh_of(2)):
        for _ in range(2):
            assert float(slow.step(1.0, XS)[0]) == 1 - 3.5 / 2
            assert float(fast.step(1.0, XS)[0]) == 1 - 3.5
    assert (slow.traced, fast.traced) == (1, 1)
    assert [its.spec_path for its in slow.planned.check(1.0, XS[:3])] == ["batch"]
    assert pickle.loads(pickle.dumps(Trainer.step)) is Trainer.step
    again = pickle.loads(pickle.dumps(slow.step))
    assert again.__wrapped__.__self__.rate == slow.rate
    assert again is again.__wrapped__.__self__.step


def test_they_are_named_like_what_they_wrap_and_pickle() -> None:
    mesh = {"data": 4}
    for its in (
        ptk.data_parallel(mesh=mesh)(step),
        ptk.data_parallel_grad(scaled, mesh=mesh),
    ):
        again = pickle.loads(pickle.dumps(its))
        assert (again.__name__, again.__doc__) == (its.__name__, its.__wrapped__.__doc__)
    for call in (
        lambda: ptk.data_parallel(step, mesh=mesh)(*start()),
        lambda: ptk.data_parallel_grad(scaled, mesh=mesh)(2.0, XS),
    ):
        with pytest.raises(ptk.SpecError, match="for plans"):
            call()
