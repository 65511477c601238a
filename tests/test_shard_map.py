"""ptk.shard_map beyond JAX's own forms: by name, by rule, plans, all faults at once, chained."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

MESH = {"data": 4, "model": 2}
PARAMS = {"mlp": {"w": jnp.ones((4, 6)), "b": jnp.arange(6.0)}, "step": jnp.zeros((), int)}
XS = jnp.arange(32.0).reshape(8, 4)
RULES = ptk.Rules([("w", "_ model"), ("b", "model")])


def devices(kind: AxisType = AxisType.Auto) -> Mesh:
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


def forward(params: Any, x: Any, *, scale: Any = 1.0) -> Any:
    return x @ params["mlp"]["w"] * scale + params["mlp"]["b"]


def test_specs_by_name_and_by_rule_give_what_specs_by_position_give() -> None:
    specs = {"mlp": {"w": P(None, "model"), "b": P("model")}, "step": P()}
    out = P("data", "model")
    wanted = forward(PARAMS, XS)
    ways: list[Any] = [
        (specs, P("data")),
        {"params": specs, "x": P("data")},
        {"params": RULES, ...: P("data")},
        ptk.Rules([("params/mlp/w", "_ model"), ("b", P("model")), ("x", ("data",))]),
    ]
    for in_specs in ways:
        mapped = ptk.shard_map(forward, mesh=devices(), in_specs=in_specs, out_specs=out)
        assert str(jax.make_jaxpr(mapped)(PARAMS, XS)) == str(
            jax.make_jaxpr(jax.shard_map(forward, mesh=devices(), in_specs=ways[0], out_specs=out))(
                PARAMS, XS
            )
        )
    by_name = {**ways[1], "scale": P()}
    mapped = jax.jit(ptk.shard_map(forward, mesh=devices(), in_specs=by_name, out_specs=out))
    np.testing.assert_allclose(
        mapped(x=XS, params=PARAMS, scale=2.0), 2 * wanted - PARAMS["mlp"]["b"]
    )


def test_eager_calls_are_those_of_jax() -> None:
    def moments(params: Any, x: Any, how: Any) -> Any:
        return {"sum": jax.lax.psum(x.sum(0), "data"), "rows": x + params["mlp"]["b"][:4]}, None

    out = ({"sum": P(), "rows": P("data")}, P())
    options = {"mesh": devices(), "in_specs": (P(), P("data"), None), "out_specs": out}
    theirs, ours = (of.shard_map(moments, **options)(PARAMS, XS, "how") for of in (jax, ptk))
    assert jax.tree.structure(theirs) == jax.tree.structure(ours)
    jax.tree.map(np.testing.assert_array_equal, theirs, ours)
    twice = {**options, "in_specs": (P(), P("data", "data"), None)}
    for of in (jax, ptk):  # under jit, JAX takes it: the one call that it does and we do not
        with pytest.raises(Exception, match="data"):
            of.shard_map(moments, **twice)(PARAMS, XS, "how")


def test_rules_for_outputs() -> None:
    def step(params: Any, x: Any) -> Any:
        loss = jax.lax.pmean((x**2).sum(), "data")
        return jax.tree.map(lambda p: p + 1, params), {"loss": loss}

    mapped = ptk.shard_map(
        step, mesh=devices(), in_specs=(RULES, P("data")), out_specs=(RULES, P())
    )
    params, metrics = jax.jit(mapped)(PARAMS, XS)
    assert params["mlp"]["w"].sharding.spec == P(None, "model")
    assert params["mlp"]["b"].tolist() == (PARAMS["mlp"]["b"] + 1).tolist()
    assert float(metrics["loss"]) == float((XS**2).sum() / 4)
    rows = {its.path: its.found for its in mapped.plan(PARAMS, XS, outputs=True).outputs or ()}
    assert rows["[0]['mlp']['w']"] == "f32[4,6]"
    lacking = ptk.shard_map(
        step,
        mesh=devices(),
        in_specs=(RULES, P("data")),
        out_specs=(ptk.Rules([("w", "_ model")]), P()),
    )
    with pytest.raises(ptk.SpecError, match=r"PTK305.*out\[0\]\['mlp'\]\['b'\]"):
        jax.eval_shape(lacking, PARAMS, XS)


def test_a_plan_needs_no_devices() -> None:
    for mesh in (MESH, AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)):
        mapped = ptk.shard_map(
            forward, mesh=mesh, in_specs=(RULES, P("data")), out_specs=P("data", "model")
        )
        abstract = jax.eval_shape(lambda: (PARAMS, XS))
        plan = mapped.plan(*abstract, outputs=True)
        shards = {its.argument + its.path: its.shard for its in plan.leaves}
        assert shards["params['mlp']['w']"] == "f32[4,3]"
        assert shards["x"] == "f32[2,4]"
        assert plan.outputs is not None
        assert plan.outputs[0].found == "f32[8,6]"
        assert "data=4, model=2" in str(plan)
    assert (
        ptk.shard_map(forward, mesh={"data": 64}, in_specs=(P(), P("data")), out_specs=P("data"))
        .plan(PARAMS, jnp.ones((128, 4)))
        .leaves[-1]
        .shard
        == "f32[2,4]"
    )
    with pytest.raises(ptk.SpecError, match="a mesh of sizes is for plans"):
        ptk.shard_map(forward, mesh=MESH, in_specs=P(), out_specs=P())(PARAMS, XS)


def test_every_fault_at_once_before_tracing() -> None:
    def never(params: Any, x: Any, name: Any) -> Any:
        raise AssertionError

    mapped = ptk.shard_map(
        never,
        mesh=devices(),
        in_specs=(
            {"mlp": {"w": P("data"), "b": P(None, "model")}, "step": P("modle")},
            P("data"),
            P(),
        ),
        out_specs=P("dta"),
    )
    with pytest.raises(ptk.SpecError) as caught:
        mapped(PARAMS, XS[:6], "relu")
    told = [(fault.code, fault.place) for fault in caught.value.faults]
    assert told == [
        ("PTK301", "params['step']"),
        ("PTK302", "params['mlp']['b']"),
        ("PTK303", "x"),
        ("PTK104", "name"),
        ("PTK301", ""),
    ]
    faults = mapped.check(PARAMS, XS[:6], "relu")
    assert told == [(its.code, its.place) for its in faults]


def test_what_an_output_may_not_be() -> None:
    def stats(x: Any) -> Any:
        return {"sum": x.sum(), "rows": x, "mean": jax.lax.pmean(x, "data")}

    specs = {"sum": P("data"), "rows": P(), "mean": P()}
    mapped = ptk.shard_map(stats, mesh=devices(), in_specs=P("data"), out_specs=specs)
    with pytest.raises(ptk.SpecError) as caught:
        jax.eval_shape(mapped, XS)
    rank, varies = sorted(caught.value.faults, key=lambda its: its.code)
    assert (rank.code, rank.place, rank.found) == ("PTK302", "out['sum']", "f32[]")
    assert (varies.code, varies.place, varies.found) == ("PTK505", "out['rows']", "f32[2,4]")
    assert "'data'" in varies.fact
    assert varies.hint.startswith("out_specs['rows'] = P('data',)")


def test_the_mesh_that_is_set() -> None:
    double = ptk.shard_map(lambda x: x * 2, in_specs=P("data"), out_specs=P("data"))
    with pytest.raises(ptk.SpecError, match="set_mesh has set none"):
        double(XS)
    for kind in (AxisType.Auto, AxisType.Explicit):  # the same function over one mesh and another
        with jax.set_mesh(devices(kind)):
            x = XS if kind is AxisType.Auto else jax.reshard(XS, P("data"))
            assert jax.jit(double)(x).tolist() == (XS * 2).tolist()
            if kind is AxisType.Explicit:
                inferred = ptk.shard_map(lambda x: x * 2, out_specs=P("data"))
                assert jax.jit(inferred)(x).tolist() == (XS * 2).tolist()
                assert inferred.plan(x).leaves[0].shard == "f32[2,4]"
                assert [its.code for its in double.check(XS)] == ["PTK503"]
                assert double.check(XS)[0].hint == "pass jax.reshard(x, P('data',)) for x"
            assert [its.code for its in double.over(jax.make_mesh((8,), ("data",))).check(XS)] == [
                "PTK501"
            ]


def clipped(w: Any, x: Any) -> Any:
    grad = jax.grad(lambda w: (w * x).sum())(w)
    return grad * jnp.minimum(1.0, 1.0 / jnp.linalg.norm(grad))


def test_chained() -> None:
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    over = functools.partial(ptk.shard_map, mesh=mesh)

    @over(in_specs={"w": P(), "x": P("data")}, out_specs=P())
    def total(w: Any, x: Any) -> Any:
        w = jax.lax.pcast(w, "data", to="varying")
        return jax.lax.psum(ptk.vmap(clipped, in_axes=(None, 0))(w, x).sum(0), "data")

    w, x = jnp.ones(3), jax.random.normal(jax.random.key(0), (16, 3))
    wanted = jax.vmap(clipped, in_axes=(None, 0))(w, x).sum(0)
    np.testing.assert_allclose(jax.jit(total)(w, x), wanted, rtol=1e-6)

    @over(in_specs=(P(), P("data")), out_specs=P())
    def loss(w: Any, x: Any) -> Any:
        return jax.lax.pmean(((x @ w) ** 2).mean(), "data")

    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.grad(loss)(w, x), loss(w, x)

    batches = x.reshape(2, 8, 3)
    got = jax.jit(lambda w: jax.lax.scan(step, w, batches))(w)

    def plain(w: Any, x: Any) -> Any:
        return ((x @ w) ** 2).mean()

    def plain_step(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.grad(plain)(w, x), plain(w, x)

    wanted = jax.lax.scan(plain_step, w, batches)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), got, wanted)


def test_rules_for_outputs_go_by_what_each_call_returns() -> None:
    rules = ptk.Rules([("a", "data")])
    options = {"in_specs": (P("data"), None), "out_specs": rules}
    named = ptk.shard_map(lambda x, name: {name: x}, mesh=devices(), **options)
    with pytest.raises(ptk.SpecError, match="PTK305"):
        named(XS, "b")
    assert named(XS, "a")["a"].tolist() == XS.tolist()
    with pytest.raises(ptk.SpecError, match="PTK305"):
        named(XS, "b")


def test_a_keyword_is_moved_to_its_own_place_or_not_at_all() -> None:
    def fixes(fun: Any, count: int, *args: Any, **kwargs: Any) -> Any:
        specs = (P("data"), *[P()] * count)
        mapped = ptk.shard_map(fun, mesh=MESH, in_specs=specs, out_specs=P("data"))
        return {fault.hint for fault in mapped.check(*args, **kwargs) if fault.code == "PTK504"}

    assert fixes(lambda x, w, v: x + w * v, 2, XS, v=1.0, w=2.0) == {"pass w, v by position"}
    assert fixes(lambda x, w=1.0, v=2.0: x + w * v, 1, XS, v=1.0) == {""}
    assert fixes(lambda x, *, v: x + v, 1, XS, v=1.0) == {""}


def test_what_is_not_checked_is_not_told_to_be_the_same() -> None:
    options = {"mesh": MESH, "in_specs": P("data"), "out_specs": P()}
    (output,) = ptk.shard_map(jnp.sum, **options, check_vma=False).plan(XS, outputs=True).outputs
    assert output.varies is None


UNSORTABLE = {1: XS, "a": XS}


@pytest.mark.parametrize(
    "check",
    [
        lambda: ptk.shard_map(len, mesh=MESH, in_specs=P(), out_specs=P()).check(UNSORTABLE),
        lambda: ptk.shard_map(len, mesh=MESH, in_specs={0: P()}, out_specs=P()).check(XS),
        lambda: ptk.data_parallel(max, mesh=MESH).check(XS, UNSORTABLE),
        lambda: ptk.data_parallel_grad(max, mesh=MESH).check(XS, UNSORTABLE),
        lambda: ptk.data_parallel_grad(max, mesh=MESH, batch={0: P("data")}).check(XS, XS),
        lambda: ptk.data_parallel_grad(max, mesh=MESH).check(),
        lambda: ptk.shard_map(len, mesh=MESH, in_specs=P(), out_specs=P(), axis_names={1}).check(
            XS
        ),
    ],
)
def test_odd_calls_are_told_as_faults(check: Any) -> None:
    assert {fault.code for fault in check()} <= {"PTK001", "PTK104", "PTK105", "PTK106", "PTK203"}
    assert check()


def test_what_comes_back_unsortable_is_a_fault() -> None:
    options = {"mesh": devices(), "in_specs": P("data"), "out_specs": P("data")}
    with pytest.raises(ptk.SpecError, match="do not sort"):
        ptk.shard_map(lambda x: {1: x, "a": x}, **options)(XS)
    with pytest.raises(ptk.SpecError, match="do not sort"):
        ptk.data_parallel(lambda state, x: (state, {1: x, "a": x}), mesh=devices())(XS, XS)


class Layer:
    w = 3.0

    @ptk.shard_map(mesh=MESH, in_specs={"self": None, "x": P("data")}, out_specs=P("data"))
    def apply(self, x: Any) -> Any:
        return self.w * x


def test_methods_and_pickles() -> None:
    layer = Layer()
    assert jax.jit(layer.apply.over(devices()))(XS).tolist() == (XS * 3).tolist()
    assert layer.apply.plan(XS).leaves[-1].shard == "f32[2,4]"
    assert layer.apply.__name__ == "apply"
    assert pickle.loads(pickle.dumps(Layer.apply)) is Layer.apply
    local = ptk.shard_map(forward, mesh=MESH, in_specs=P(), out_specs=P())
    assert pickle.loads(pickle.dumps(local)).plan(PARAMS, XS) == local.plan(PARAMS, XS)
