"""All kinds of steps: what a dry run says of each is what JAX says of the same step as it runs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

AXES = {"data": 4, "model": 2}
X = jax.ShapeDtypeStruct((32, 64), jnp.float32)
W = jax.ShapeDtypeStruct((64, 64), jnp.float32)
SPECS = {"x": P("data"), "w": P("model")}


def on(mesh: Any, name: str) -> jax.ShapeDtypeStruct:
    its = X if name == "x" else W
    return jax.ShapeDtypeStruct(its.shape, its.dtype, sharding=NamedSharding(mesh, SPECS[name]))


def devices() -> Mesh:
    its = np.array(jax.devices()[:8]).reshape(4, 2)
    return Mesh(its, tuple(AXES), axis_types=(AxisType.Auto,) * 2)


@dataclasses.dataclass(frozen=True)
class Options:
    scale: int = 3


class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def forward(self, x: Any, w: Any) -> Any:
        return x @ w

    @functools.partial(jax.jit, static_argnums=0, donate_argnames="w")
    def update(self, x: Any, w: Any, rate: float = 0.1) -> Any:
        return x @ w, w * rate

    def __call__(self, x: Any, w: Any) -> Any:
        return self.forward(x, w)


def remat(x: Any, w: Any) -> Any:
    layer = jax.checkpoint(lambda h, _: (jnp.tanh(h @ w), None))
    return jax.grad(lambda x: jnp.sum(jax.lax.scan(layer, x, length=5)[0]))(x)


def update(x: Any, w: Any, rate: float = 0.1) -> Any:
    return x @ w, w * rate


def total(x: Any) -> Any:
    return jax.lax.psum(x, "data")


def nested(x: Any, w: Any) -> Any:
    by_both = jax.jit(lambda x, w: x @ w, out_shardings=P("data", "model"))
    return by_both(x, w)


donating = jax.jit(update, donate_argnames="w")
model = Model()


class Case(NamedTuple):
    """A step, and how its user compiles it, if not by `jax.jit`."""

    step: Callable[..., Any]
    args: tuple[Any, ...] = ("x", "w")
    compiled: Callable[..., Any] | None = None


def own(step: Any, *args: Any) -> Case:
    return Case(step, args or ("x", "w"), step.lower)


STEPS = {
    "static_int": own(jax.jit(lambda n, x, w: x @ w * n, static_argnums=0), 3, "x", "w"),
    "static_str": own(jax.jit(lambda x, f: getattr(jnp, f)(x), static_argnums=1), "x", "sin"),
    "static_options": own(jax.jit(lambda o, x: x * o.scale, static_argnums=0), Options(), "x"),
    "static_tuple": own(jax.jit(lambda x, s: x.reshape(s) * 2, static_argnums=1), "x", (64, 32)),
    "donated": own(donating),
    "unused": own(jax.jit(lambda x, u, w: x @ w, donate_argnums=(1, 2)), "x", "w", "w"),
    "method": Case(model.__call__),
    "jitted_method": Case(model.forward, compiled=functools.partial(Model.forward.lower, model)),
    "donating_method": Case(model.update, compiled=functools.partial(Model.update.lower, model)),
    "callable": Case(model),
    "partial": Case(functools.partial(lambda x, w, *, rate: x @ w * rate, rate=0.1)),
    "partial_of_jitted": Case(
        functools.partial(donating, rate=0.1), compiled=functools.partial(donating.lower, rate=0.1)
    ),
    "partial_of_method": Case(
        functools.partial(model.update, rate=0.1),
        compiled=functools.partial(Model.update.lower, model, rate=0.1),
    ),
    "remat": Case(remat),
    "nested": Case(nested),
    "shard_map": Case(jax.shard_map(total, in_specs=P("data"), out_specs=P()), ("x",)),
    "nothing": Case(lambda x, w: None),
    "empty": Case(lambda e, x, n, w: {"e": e, "y": x @ w}, ({}, "x", None, "w")),
}


@pytest.mark.parametrize("case", STEPS.values(), ids=STEPS)
def test_memory_is_that_of_the_step_as_it_runs(case: Case) -> None:
    def over(mesh: Any) -> list[Any]:
        return [on(mesh, arg) if arg in ("x", "w") else arg for arg in case.args]

    run = ptk.dry_run(case.step, *over(ptk.ShardingPlan(X, P(), AXES).mesh), mesh=AXES)
    with jax.set_mesh(devices()):
        lower = case.compiled or jax.jit(case.step).lower
        stats = lower(*over(devices())).compile().memory_analysis()
    assert run.memory[:4] == (
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.temp_size_in_bytes,
        stats.alias_size_in_bytes,
    )


def test_the_donated_are_written_into() -> None:
    donated = ("donated", AXES), ("donating_method", AXES), ("partial_of_jitted", AXES)
    for name, axes in (*donated, ("partial_of_method", {"data": 4, "model": 4})):
        mesh = ptk.ShardingPlan(X, P(), axes).mesh
        run = ptk.dry_run(STEPS[name].step, on(mesh, "x"), on(mesh, "w"))
        assert run.memory.aliased == 4 * 64 * 64 // axes["model"]


@pytest.mark.parametrize("axes", [AXES, {"data": 16}], ids=["here", "elsewhere"])
def test_keys_in_any_letters_and_beside_static_arguments_are_told(axes: dict[str, int]) -> None:
    mesh = ptk.ShardingPlan(X, P(), axes).mesh
    split = NamedSharding(mesh, P("data"))
    keys = ["é", "日本", 'a"b\\c', "w"]
    params = {key: jax.ShapeDtypeStruct(W.shape, W.dtype, sharding=split) for key in keys}

    def step(_scale: int, params: Any, x: Any) -> Any:
        whole = jax.lax.with_sharding_constraint(params, P())
        return [jnp.tanh(x @ w) for w in whole.values()]

    run = ptk.dry_run(jax.jit(step, static_argnums=0), 3, params, X, mesh=axes)
    assert {one.leaf for one in run.collectives} == {f"params[{key!r}]" for key in keys}


def test_files_in_any_letters_are_told() -> None:
    names: dict[str, Any] = {"jnp": jnp}
    exec(compile("def étape(x):\n    return jnp.sum(x, 0)", "/日本/étape.py", "exec"), names)
    (one,) = ptk.dry_run(names["étape"], on(ptk.ShardingPlan(X, P(), AXES).mesh, "x")).collectives
    assert (one.file, one.line, one.source) == ("/日本/étape.py", 2, "étape.py:2")


KEY = jax.random.key(0)
ODD: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "int8": (lambda x: x + x, jax.ShapeDtypeStruct((32, 64), jnp.int8), 32 * 64),
    "bool": (lambda x: x & x, jax.ShapeDtypeStruct((32, 64), jnp.bool_), 32 * 64),
    "bfloat16": (jnp.sin, jax.ShapeDtypeStruct((32, 64), jnp.bfloat16), 2 * 32 * 64),
    "complex": (jnp.conj, jax.ShapeDtypeStruct((32, 64), jnp.complex64), 8 * 32 * 64),
    "keys": (jax.vmap(jax.random.uniform), jax.ShapeDtypeStruct((32,), KEY.dtype), 8 * 32),
    "no_elements": (lambda x: x * 2, jax.ShapeDtypeStruct((0, 64), jnp.float32), 0),
}


@pytest.mark.parametrize("size", [4, 16], ids=["here", "elsewhere"])
def test_odd_arrays_are_split_and_held_as_they_are(size: int) -> None:
    arrays = {name: its for name, (_, its, _) in ODD.items()}
    plan = ptk.ShardingPlan(arrays, P("data"), {"data": size})

    def every(its: Any) -> Any:
        return {name: step(its[name]) for name, (step, _, _) in ODD.items()}

    run = ptk.dry_run(every, arrays, plan=plan)
    assert run.memory.arguments == sum(held for _, _, held in ODD.values()) // size
    assert run.collectives == ()


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("axes", [{"one": 1}, {"many": 512}])
def test_one_device_and_very_many(axes: dict[str, int], kind: AxisType) -> None:
    ((name, size),) = axes.items()
    mesh = jax.sharding.AbstractMesh((size,), (name,), axis_types=(kind,))
    x = jax.ShapeDtypeStruct((1024, 64), jnp.float32, sharding=NamedSharding(mesh, P(name)))
    run = ptk.dry_run(jnp.tanh, x)
    assert run.memory.arguments == run.memory.outputs == 4 * 1024 * 64 // size
    assert (run.mesh, run.collectives) == (axes, ())


def test_modules_of_equinox() -> None:
    eqx = pytest.importorskip("equinox")
    linear = eqx.filter_eval_shape(eqx.nn.Linear, 64, 64, key=KEY)
    x = on(ptk.ShardingPlan(X, P(), AXES).mesh, "x")
    plan = ptk.ShardingPlan(linear, [("weight", "model _"), ("bias", "model")], AXES)

    def forward(model: Any, x: Any) -> Any:
        return jax.vmap(model)(x)

    for step in (forward, eqx.filter_jit(forward)):
        run = ptk.dry_run(step, linear, x, plan=plan)
        assert run.memory.arguments == 4 * (64 * 64 + 64) // 2 + 4 * 32 * 64 // 4
    grads = eqx.filter_grad(lambda model, x: jnp.sum(forward(model, x)))
    assert ptk.dry_run(grads, linear, x, plan=plan).memory.outputs >= 4 * (64 * 64 + 64) // 2
    made = eqx.nn.Linear(64, 64, key=KEY)  # no hash: it holds arrays
    assert ptk.dry_run(made, jnp.ones(64), mesh=AXES).memory.arguments == 4 * 64
    mlp = eqx.filter_eval_shape(eqx.nn.MLP, 64, 64, 64, 1, key=KEY)
    with pytest.raises(ptk.SpecError, match="take it apart with") as raised:
        ptk.dry_run(forward, mlp, x)
    assert {fault.code for fault in raised.value.faults} == {"PTK104"}
    arrays, rest = ptk.partition(mlp, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    assert ptk.dry_run(lambda mlp, x: forward(ptk.combine(mlp, rest), x), arrays, x).flops > 0


class Holder:
    def __init__(self, w: Any) -> None:
        self.w = w

    def step(self, x: Any) -> Any:
        return x @ self.w

    @jax.jit
    def jitted(self, x: Any) -> Any:
        return x @ self.w


def taken_apart(its: Holder) -> tuple[tuple[Any], None]:
    return (its.w,), None


jax.tree_util.register_pytree_node(Holder, taken_apart, lambda _, its: Holder(*its))


def product(w: Any, x: Any) -> Any:
    return x @ w


@pytest.mark.parametrize(
    "step",
    [
        functools.partial(product, W),
        functools.partial(product, x=W),
        jax.tree_util.Partial(product, W),
        Holder(W).step,
    ],
    ids=["partial", "keyword", "Partial", "method"],
)
def test_a_step_computes_with_no_shapes_of_its_own(step: Callable[..., Any]) -> None:
    with pytest.raises(ptk.SpecError) as raised:
        ptk.dry_run(step, X, mesh=AXES)
    (fault,) = raised.value.faults
    assert (fault.code, fault.place, fault.found) == ("PTK001", "step", "f32[64,64]")


def test_what_is_bound_to_a_jitted_step_is_an_argument() -> None:
    plan = ptk.ShardingPlan(W, P("model"), AXES)
    x = on(plan.mesh, "x")
    run = ptk.dry_run(functools.partial(jax.jit(product), W), x, plan=plan)
    assert run.memory.arguments == 4 * (64 * 64 // 2 + 32 * 64 // 4)
    of_method = ptk.dry_run(Holder(plan.abstract()).jitted, x)
    assert of_method.memory == run.memory


def test_axes_in_any_letters_end_no_process() -> None:
    x = jax.ShapeDtypeStruct((32, 64), jnp.float32)
    step = jax.shard_map(lambda x: jax.lax.psum(x, "é"), in_specs=P("é"), out_specs=P())
    if jax.__version_info__ < (0, 11):  # that XLA cannot compile it
        with pytest.raises(ptk.SpecError, match="PTK702") as raised:
            ptk.dry_run(step, x, mesh={"é": 4})
        assert "escape" in raised.value.__notes__[0]
        return
    (one,) = ptk.dry_run(step, x, mesh={"é": 4}).collectives
    assert one.axes == ("é",)
