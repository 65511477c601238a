"""Calls that have each code of fault, several to a code: its golden file shows its kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int, PyTree

import pytreekit as ptk

Example = Callable[[], Any]

EXAMPLES: dict[str, list[Example]] = {}


class Pair(NamedTuple):
    """Two fields."""

    image: Any
    label: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A weight and how it is used."""

    w: Any
    activation: str = dataclasses.field(default="tanh", metadata={"static": True})


@dataclasses.dataclass
class Record:
    """A dataclass that JAX knows nothing of."""

    w: Any


def example(code: str) -> Callable[[Example], Example]:
    """Enter a call that has the fault `code`."""

    def enter(call: Example) -> Example:
        EXAMPLES.setdefault(code, []).append(call)
        return call

    return enter


def predict(params: Any, x: Any) -> Any:
    """A model of one example."""
    return params["w"] @ x + params["b"]


def suspected(plan: Any) -> None:
    """Raise what a plan suspects, which is nothing that a call would raise."""
    ptk.raise_faults(plan.suspicions, doing=f"vmap({plan.function})")


PARAMS = {"w": jnp.ones((4, 3)), "b": jnp.ones(4)}
XS = jnp.ones((8, 3))
MESH = {"data": 4, "model": 2}


def devices(count: int, kind: AxisType = AxisType.Auto) -> Mesh:
    """A mesh of so many devices."""
    its = jax.devices()[:count]
    return jax.make_mesh((count,), ("data",), axis_types=(kind,), devices=its)


@example("PTK001")
def _() -> Any:
    return ptk.vmap("predict")


@example("PTK001")
def _() -> Any:
    return ptk.vmap(predict, axis_name=["batch"])


@example("PTK001")
def _() -> Any:
    return jax.jit(lambda x: ptk.testing.assert_trees_match({"x": x}, {"x": x + 1}))(XS)


@example("PTK101")
def _() -> Any:
    return ptk.vmap(predict, in_axes=({"w": None, "b": 1}, 0))(PARAMS, XS)


@example("PTK101")
def _() -> Any:
    return ptk.vmap(lambda x, y: x + y, in_axes=(2, -2))(XS, XS.T)


@example("PTK101")
def _() -> Any:
    return ptk.vmap(lambda scale, x: scale * x)(2.0, XS)


@example("PTK101")
def _() -> Any:
    return ptk.vmap(lambda scales, x: scales * x)([0.5] * 8, XS)


@example("PTK101")
def _() -> Any:
    return ptk.vmap(lambda x, key: x + jax.random.normal(key, x.shape))(XS, jax.random.key(0))


@example("PTK101")
def _() -> Any:
    return ptk.vmap(lambda x, train: x if train else -x)(XS, train=True)


@example("PTK102")
def _() -> Any:
    batch = {"image": jnp.ones((8, 28, 28)), "label": jnp.ones(7, jnp.int32), "mask": jnp.ones(8)}
    return ptk.vmap(lambda params, batch: batch, in_axes=(None, 0))(PARAMS, batch)


@example("PTK102")
def _() -> Any:
    return ptk.vmap(lambda x, y: x + y)(XS, jnp.ones((3, 8)))


@example("PTK102")
def _() -> Any:
    return ptk.vmap(lambda x, key: x)(XS, jax.random.PRNGKey(0))


@example("PTK102")
def _() -> Any:
    return ptk.vmap(lambda x: x, axis_size=4)(XS)


@example("PTK102")
def _() -> Any:
    tree = {f"leaf{i:03}": jnp.ones(8 if i % 3 else 7) for i in range(100)}
    return ptk.vmap(lambda tree: tree)(tree)


@example("PTK103")
def _() -> Any:
    return ptk.vmap(predict, in_axes=None)(PARAMS, XS[0])


@example("PTK103")
def _() -> Any:
    return ptk.vmap(lambda mask: 1.0)(None)


@example("PTK103")
def _() -> Any:
    return ptk.vmap(lambda: 1.0, axis_size=3.0)()


@example("PTK104")
def _() -> Any:
    return ptk.vmap(lambda activation, x: x)("relu", XS)


@example("PTK104")
def _() -> Any:
    return ptk.vmap(lambda x, mode: x)(XS, mode="clip")


@example("PTK104")
def _() -> Any:
    return ptk.vmap(lambda record, names, x: x)(Record(XS), np.array(["a", "b"]), XS)


@example("PTK104")
def _() -> Any:
    return ptk.vmap(lambda batch: batch)({1: XS, "1": XS})


@example("PTK104")
def _() -> Any:
    (size,) = export.symbolic_shape("b")
    return ptk.vmap(jnp.sin, chunk_size=4).plan(jax.ShapeDtypeStruct((size, 3), jnp.float32))


@example("PTK105")
def _() -> Any:
    return ptk.vmap(predict, in_axes={"parms": None, "x": 0})


@example("PTK105")
def _() -> Any:
    return ptk.vmap(lambda batch: batch, in_axes={"image": 0, "label": None})


@example("PTK105")
def _() -> Any:
    return ptk.vmap(predict, in_axes={"params": None, "temperature": None, ...: 0})


@example("PTK105")
def _() -> Any:
    return ptk.vmap(lambda: 1.0, in_axes={"x": 0}, axis_size=3)


@example("PTK106")
def _() -> Any:
    return ptk.vmap(predict, in_axes={"x": 0})(PARAMS, XS)


@example("PTK106")
def _() -> Any:
    return ptk.vmap(lambda x, **options: x, in_axes={"x": 0})(XS, mode="clip", scale=XS)


@example("PTK107")
def _() -> Any:
    return ptk.vmap(predict, in_axes=(False, np.int64(0)))


@example("PTK107")
def _() -> Any:
    return ptk.vmap(lambda batch: batch, in_axes=Pair(0, 0))


@example("PTK107")
def _() -> Any:
    return ptk.vmap(predict, in_axes=("batch", 0), out_axes=0.5)


@example("PTK108")
def _() -> Any:
    out_axes = {"loss": None, "logits": 0}
    return ptk.vmap(lambda x: {"loss": x.sum(), "logits": x}, out_axes=out_axes)(XS)


@example("PTK108")
def _() -> Any:
    return ptk.vmap(lambda x: (x, x.sum()), out_axes=(1, 2))(XS)


@example("PTK108")
def _() -> Any:
    return ptk.vmap(lambda x: (x, "tag"))(XS)


@example("PTK109")
def _() -> Any:
    kind = jax.sharding.AxisType.Explicit
    mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(kind, kind))
    put = jax.sharding.PartitionSpec
    over_data = jax.device_put(XS, jax.sharding.NamedSharding(mesh, put("data")))
    over_model = jax.device_put(XS, jax.sharding.NamedSharding(mesh, put("model")))
    return ptk.vmap(lambda x, y: x + y)(over_data, over_model)


@example("PTK110")
def _() -> Any:
    return ptk.vmap(predict, axis_name="batch", chunk_size=4)


@example("PTK111")
def _() -> Any:
    outer = ptk.vmap(lambda x: jnp.sin(jnp.outer(x, x)) @ x)
    return ptk.suggest_chunk_size(outer, jnp.ones((8, 1024)), memory=2**20)


@example("PTK201")
def _() -> Any:
    return ptk.vmap(predict, in_axes=({"w": None, "bias": None}, 0))(PARAMS, XS)


@example("PTK201")
def _() -> Any:
    layers = {f"layer{i}": PARAMS for i in range(6)}
    in_axes = ({name: {"w": None} for name in layers}, 0)
    return ptk.vmap(lambda layers, x: x, in_axes=in_axes)(layers, XS)


@example("PTK202")
def _() -> Any:
    return ptk.vmap(lambda batch, y: y, in_axes=([0, 0], (0, 1)))((XS, XS), XS)


@example("PTK202")
def _() -> Any:
    return ptk.vmap(lambda pair: pair.image, in_axes=((0, None),))(Pair(XS, XS))


@example("PTK202")
def _() -> Any:
    return ptk.vmap(lambda x, mask: x, in_axes=(0, (0, 0)))(XS, None)


@example("PTK203")
def _() -> Any:
    return ptk.vmap(lambda batch: batch[0], in_axes=(0, 0))((XS, XS))


@example("PTK203")
def _() -> Any:
    return ptk.vmap(predict, in_axes=(None, 0))(PARAMS, x=XS)


@example("PTK203")
def _() -> Any:
    return ptk.vmap(lambda batch: batch[0], in_axes=([0, 0, None],))([XS, XS])


@example("PTK203")
def _() -> Any:
    return ptk.vmap(lambda x, *rest: x, in_axes={"x": 0, "rest": (0, None)})(XS, XS)


@example("PTK204")
def _() -> Any:
    in_axes = (Layer(None, "relu"), 0)
    return ptk.vmap(lambda layer, x: layer.w @ x, in_axes=in_axes)(Layer(PARAMS["w"]), XS)


@example("PTK205")
def _() -> Any:
    odd = {"w": PARAMS["w"], "bias": PARAMS["b"], "act": "relu"}
    return ptk.stack([PARAMS, PARAMS, odd])


@example("PTK205")
def _() -> Any:
    layers = [{"w": jnp.ones((4, size)), "b": jnp.ones(4)} for size in (3, 3, 3, 5, 5)]
    return ptk.stack(layers)


@example("PTK205")
def _() -> Any:
    return ptk.stack([Layer(XS), Layer(XS, "relu"), {"w": XS}, [XS], (XS, XS)])


@example("PTK205")
def _() -> Any:
    return ptk.combine({"w": XS, "b": None}, {"w": XS, "b": [None]}, {"w": None, "b": (XS,)})


@example("PTK301")
def _() -> Any:
    rules = [("w", "modle _"), ("b", jax.sharding.PartitionSpec("pod"))]
    return ptk.partition_specs(PARAMS, rules, mesh=MESH)


@example("PTK301")
def _() -> Any:
    return ptk.fsdp_specs(PARAMS, mesh=MESH, axis="fsdp")


@example("PTK302")
def _() -> Any:
    layers = {f"layer{number}": PARAMS for number in range(5)}
    return ptk.partition_specs(layers, [("{w,b}", "_ model")], mesh=MESH)


@example("PTK302")
def _() -> Any:
    stack = {"layers/**": 0}
    return ptk.partition_specs({"layers": PARAMS}, [("**", "model _")], mesh=MESH, stack=stack)


@example("PTK303")
def _() -> Any:
    table = jax.ShapeDtypeStruct((50257, 768), jnp.float32)
    its = {"embed": table, "head": jax.ShapeDtypeStruct((768, 50257), jnp.float32)}
    put = jax.sharding.PartitionSpec
    return ptk.partition_specs(
        its, [("embed", "data+model _"), ("head", put(None, "model"))], mesh=MESH
    )


@example("PTK303")
def _() -> Any:
    put = jax.sharding.PartitionSpec
    faults = ptk.check_shardings(PARAMS, {"w": put(None, "model"), "b": put("data")}, mesh=MESH)
    return ptk.raise_faults(faults, doing="check_shardings")


@example("PTK304")
def _() -> Any:
    rules = [("w", "model model"), ("b", jax.sharding.PartitionSpec(("data", "data")))]
    return ptk.partition_specs(PARAMS, rules, mesh=MESH)


@example("PTK305")
def _() -> Any:
    rules = ptk.Rules([("layers/dense", "frozen"), ("haed/kernel", "trained"), ("*bed", "frozen")])
    dense = {"kernel": jnp.ones((4, 4)), "bias": jnp.ones(4)}
    return rules({"layers": {"dense": dense}, "head": dense, "scale": [jnp.ones(4)] * 30})


@example("PTK305")
def _() -> Any:
    return ptk.vmap(predict, in_axes=ptk.Rules([("xs/**", 0), ("w", None)]))(PARAMS, XS)


@example("PTK305")
def _() -> Any:
    return ptk.Rules([("w", True)], default=False).audit(PARAMS).raise_if(defaulted=True)


@example("PTK306")
def _() -> Any:
    patterns = ["a{b", "mlp/", "", "mlp**", "re:(", "mlp\\"]
    return ptk.Rules([*((pattern, 0) for pattern in patterns), ("a", 0, 0), "ab"])


@example("PTK306")
def _() -> Any:
    return ptk.Rules([("w", ptk.by_rank({1: "a", 3: "c"})), ("b", "b")])(PARAMS)


@example("PTK306")
def _() -> Any:
    return ptk.Rules([("a/b", 1)])({"a/b": XS, "a": {"b": XS}})


@example("PTK306")
def _() -> Any:
    rules = ptk.Rules([("*", 1), ("w", 2), ("weight", 3)])
    return rules.audit(PARAMS).raise_if(unused=True, shadowed=True)


@example("PTK306")
def _() -> Any:
    text = """[["w", {"P": [1]}], ["b"], {"pattern": "b", "valeu": 1}, {"pattern": "b"}, 5]"""
    return ptk.Rules.loads(text, "json")


@example("PTK306")
def _() -> Any:
    return ptk.Rules([("w", lambda path, leaf: 0), ("b", {1: 2})], default=float("nan")).dumps()


@example("PTK306")
def _() -> Any:
    rules = [("w", "P(None, 'model')"), ("b", "model model? ... ..."), ("x", 3)]
    return ptk.partition_specs(PARAMS, rules, mesh=MESH)


@example("PTK307")
def _() -> Any:
    axes = [("embed", "data"), ("mlp", "model"), ("norm", None)]
    return ptk.partition_specs(PARAMS, [("w", "mpl embed"), ("b", "mlp")], mesh=MESH, axes=axes)


@example("PTK307")
def _() -> Any:
    axes = [("embed", "model"), ("batch", ("data", "model"))]
    return ptk.partition_specs(jnp.ones((8, 8)), [("**", "batch embed")], mesh=MESH, axes=axes)


def kernels(**shapes: tuple[int, ...]) -> Any:
    return {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}


@example("PTK308")
def _() -> Any:
    specs = {"w": P("fsdp", "model"), "up": P(None, "model")}
    params = kernels(w=(256, 256), up=(8, 8))
    return ptk.optimizer_specs({"rows": kernels(w=(256,), up=(8,))}, params, specs)


@example("PTK308")
def _() -> Any:
    def init(params: Any) -> Any:
        raise TypeError("no")

    state, params = {"rows": kernels(w=(256,))}, kernels(w=(256, 256))
    return ptk.optimizer_specs(state, params, {"w": P("fsdp")}, init=init)


@example("PTK309")
def _() -> Any:
    state = {"mu": kernels(w=(128, 512), b=(512,)), "gram": kernels(x=(4096, 4096), b=(512,))}
    return ptk.optimizer_specs(state, kernels(w=(256, 512), b=(512,)), P("model"))


@example("PTK309")
def _() -> Any:
    lora = kernels(a=(512, 8), b=(8, 512))
    params = {"base": kernels(w=(512, 512)), "lora": lora}
    return ptk.optimizer_specs({"count": 0, "mu": lora, "nu": lora}, params, P("model"))


@example("PTK310")
def _() -> Any:
    tree = {"w": jnp.ones((8, 8)), "b": np.ones(8, np.float32)}
    plan = ptk.ShardingPlan(tree, [("w", "data model"), ("b", "model")], {"data": 2, "model": 4})
    ptk.raise_faults(plan.verify(tree), doing="plan.verify")


@example("PTK311")
def _() -> Any:
    tree = {"w": jnp.ones((8, 6)), "b": jnp.ones(7), "x": jnp.ones((512, 8))}
    plan = ptk.ShardingPlan(tree, [("x", "data"), ("**", "_")], {"data": 2, "model": 4})
    ptk.raise_faults(plan.check(max_replicated=0.0), doing="plan.check")


@example("PTK312")
def _() -> Any:
    kinds = jax.sharding.AxisType.Explicit, jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=kinds)
    tree = {"w": jnp.ones((8, 8))}
    return jax.jit(ptk.ShardingPlan(tree, [("w", "model+data")], mesh).constrain)(tree)


Params = dict[str, Float[Array, "..."]]


def dense(w: Float[Array, "d k"], b: Float[Array, " k"], x: Float[Array, " d"]) -> Any:
    """A layer that says what one example is."""
    return x @ w + b


@example("PTK501")
def _() -> Any:
    double = ptk.shard_map(
        lambda x: x * 2, mesh=devices(8), in_specs=P("data"), out_specs=P("data")
    )
    with jax.set_mesh(devices(4)):
        return double(XS)


@example("PTK501")
def _() -> Any:
    return ptk.pmap(ptk.pmap(lambda x: x * 2))(jnp.ones((2, 4)))


@example("PTK502")
def _() -> Any:
    return ptk.shard_map(lambda x: x * 2, mesh=devices(8), out_specs=P("data"))(XS)


@example("PTK503")
def _() -> Any:
    explicit = devices(8, AxisType.Explicit)
    double = ptk.shard_map(lambda x: x * 2, mesh=explicit, in_specs=P("data"), out_specs=P("data"))
    with jax.set_mesh(explicit):
        return double(XS)


@example("PTK504")
def _() -> Any:
    add = ptk.shard_map(lambda x, w: x + w, mesh=devices(8), in_specs=(P("data"), P()),
                        out_specs=P("data"))  # fmt: skip
    return add(XS, w=1.0)


@example("PTK505")
def _() -> Any:
    def moments(x: Any) -> Any:
        return {"sum": x.sum(), "squares": jax.lax.psum((x**2).sum(), "data"), "rows": x}

    return ptk.shard_map(moments, mesh=devices(8), in_specs=P("data"), out_specs=P())(XS)


@example("PTK505")
def _() -> Any:
    def forward(params: Any, x: Any) -> Any:
        return x @ params["w"].T + params["b"], x.sum(0), x.sum(), "tag"

    return ptk.shard_map(
        forward, mesh=MESH, in_specs={"params": P(), "x": P("data")},
        out_specs=(P("data"), P(), P("data"), P()),
    ).plan(PARAMS, XS, outputs=True)  # fmt: skip


@example("PTK506")
def _() -> Any:
    return ptk.pmap(lambda batch: batch)({"x": jnp.ones((16, 2)), "y": jnp.ones(16)})


@example("PTK506")
def _() -> Any:
    return ptk.pmap(lambda x: x)(jnp.ones((9, 2)))


@example("PTK507")
def _() -> Any:
    power = ptk.pmap(lambda x, n: x**n, static_broadcasted_argnums=1)
    return power(XS, [2])


@example("PTK507")
def _() -> Any:
    return ptk.pmap(lambda x, n: x**n, static_broadcasted_argnums=2)(XS, 2)


@example("PTK508")
def _() -> Any:
    def step(state: Any, batch: Any) -> Any:
        return {"w": state["w"] - batch.mean(0), "step": state["step"] + 1}

    state = {"w": jnp.ones(3), "step": jnp.zeros(())}
    return ptk.data_parallel(step, mesh=devices(8))(state, jnp.ones((8, 3)))


@example("PTK509")
def _() -> Any:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ w - y) ** 2)

    mesh = {"data": 4, "model": 2}
    mean = ptk.data_parallel_grad(loss, mesh=mesh, batch=(P("data"), P("data", "model")))
    return mean.plan(jnp.ones(3), jnp.ones((8, 3)), jnp.ones((8, 2)))


@example("PTK301")
def _() -> Any:
    specs = {"params": {"w": P("model"), "b": P("modle")}, "x": P("data"), ...: None}
    double = ptk.shard_map(lambda params, x, how: x, mesh=MESH,
                           in_specs=specs, out_specs=P("data"))  # fmt: skip
    return double.plan(PARAMS, jnp.ones((6, 2)), "relu")


@example("PTK601")
def _() -> Any:
    def one_hot(params: Params, label: Int[Array, ""]) -> Any:
        return label

    return ptk.vmap(one_hot, in_axes=(None, 0))(PARAMS, XS[:, 0])


@example("PTK601")
def _() -> Any:
    def halved(params: Params) -> Any:
        return params

    tree = {"w": jnp.ones((8, 3)), "steps": jnp.ones(8, int), "seen": jnp.ones(8, int)}
    return ptk.vmap(halved)(tree)


@example("PTK602")
def _() -> Any:
    return ptk.vmap(dense)(jnp.ones((3, 3)), jnp.ones(3), jnp.ones((3, 3)))


@example("PTK602")
def _() -> Any:
    def blur(image: Float[Array, "*channels h w"]) -> Any:
        return image

    return ptk.vmap(blur)(jnp.ones((8, 28)))


@example("PTK602")
def _() -> Any:
    def outer(x: Float[Array, " d"]) -> Float[Array, "d d"]:
        return x

    return ptk.vmap(outer).plan(XS, outputs=True)


@example("PTK603")
def _() -> Any:
    return ptk.vmap(dense, in_axes=(None, None, 0))(jnp.ones((3, 4)), jnp.ones(5), jnp.ones((8, 2)))


@example("PTK603")
def _() -> Any:
    def scale(image: Float[Array, "h w 3"], by: Float[Array, "h+1 w"]) -> Any:
        return image

    return ptk.vmap(scale)(jnp.ones((2, 4, 5, 3)), jnp.ones((2, 4, 5)))


@example("PTK603")
def _() -> Any:
    def blur(image: Float[Array, "h w 3"]) -> Any:
        return image

    return ptk.vmap(blur)(jnp.ones((2, 4, 5, 1)))


@example("PTK604")
def _() -> Any:
    def halved(params: Params, mask: Float[Array, "..."] | None) -> Any:
        return params

    return ptk.vmap(halved, in_axes=(None, 0))([XS], XS > 0)


@example("PTK604")
def _() -> Any:
    def twice(
        one: PyTree[Float[Array, "..."], " T"], two: PyTree[Float[Array, "..."], " T"]
    ) -> Any:
        return one

    return ptk.vmap(twice, in_axes=(None, 0))(PARAMS, {"w": XS})


@example("PTK605")
def _() -> Any:
    return ptk.vmap(dense, in_axes="infer")(jnp.ones((3, 2)), jnp.ones(2), jnp.ones((3, 3)))


@example("PTK605")
def _() -> Any:
    return ptk.vmap(predict, in_axes="infer")(PARAMS, XS)


@example("PTK901")
def _() -> Any:
    square = jnp.ones((3, 3))
    return ptk.vmap(lambda x, w: w @ x, in_axes=1)(square, w=square)


@example("PTK902")
def _() -> Any:
    return ptk.vmap(lambda x, key: x)(jnp.ones(2), jax.random.PRNGKey(0))


@example("PTK903")
def _() -> Any:
    batch = {"image": jnp.ones((5, 4)), "mean": jnp.ones(4), "mask": jnp.ones((2, 3, 4))}
    return ptk.vmap(lambda batch: batch, in_axes=-1)(batch)


@example("PTK904")
def _() -> Any:
    inner = ptk.vmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
    return ptk.vmap(inner, axis_name="i")(XS)


@example("PTK905")
def _() -> Any:
    return ptk.vmap(lambda x: x, axis_size=8.0)(XS)


@example("PTK951")
def _() -> Any:
    batch = {"image": XS, "label": jnp.ones(8)}
    return suspected(ptk.vmap(lambda batch: batch, {"batch": {"image": 0, ...: None}}).plan(batch))


@example("PTK952")
def _() -> Any:
    return suspected(ptk.vmap(lambda x, key: x, (0, None)).plan(XS, jax.random.key(0)))


@example("PTK953")
def _() -> Any:
    return suspected(ptk.vmap(lambda x: x).plan(XS[:0]))
