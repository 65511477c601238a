"""Specs for optimizer states: whatever holds them, however they were saved, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.core import FrozenDict
from flax.serialization import to_state_dict
from flax.training.train_state import TrainState
from jax.sharding import PartitionSpec as P

import pytreekit as ptk
from pytreekit.sharding.states.optimizer_specs import specs_of_state
from pytreekit.sharding.states.shape_reading import MOST_READINGS, readings

MESH = {"data": 2, "model": 4}
RULES = [("{kernel,weight}", "data model"), ("*", "model")]
KERNEL, COLUMNS, ROWS = P("data", "model"), P("model"), P("data")
FACTORED = optax.adafactor(1e-3)


def array(*shape: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


PARAMS = {"up": {"kernel": array(256, 256), "bias": array(256)}, "scale": array()}
SPECS = {"up": {"kernel": KERNEL, "bias": P("model")}, "scale": P()}


def told(state: Any, params: Any = PARAMS, specs: Any = SPECS, **options: Any) -> dict[str, P]:
    """The specs by path."""
    found = ptk.optimizer_specs(state, params, specs, **{"mesh": MESH, **options})
    assert jax.tree.structure(found) == jax.tree.structure(state)
    rows = jax.tree_util.tree_flatten_with_path(found)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): spec for path, spec in rows}


def faults(*args: Any, **options: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ptk.SpecError) as caught:
        told(*args, **options)
    return [(fault.code, fault.place, fault.hint) for fault in caught.value.faults]


def made(tx: Any, params: Any = PARAMS) -> Any:
    return jax.eval_shape(tx.init, params)


def kernels(found: dict[str, P]) -> set[tuple[str, P]]:
    """The last field before the parameter's path, and the spec, of all two-dimensional ones."""
    fields = ("mu", "nu", "v_row", "v_col", "trace")
    return {
        (field, spec)
        for path, spec in found.items()
        for field in fields
        if f"{field}/" in path and ("kernel" in path or "weight" in path)
    }


ADAFACTOR = {("v_row", ROWS), ("v_col", COLUMNS)}
ADAM = {("mu", KERNEL), ("nu", KERNEL)}


# --- states of frameworks


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        boxed = nn.with_partitioning(nn.initializers.ones, ("data", "model"))
        return nn.Dense(256, kernel_init=boxed)(x)


@pytest.fixture(scope="module")
def linen() -> Any:
    return jax.eval_shape(Dense().init, jax.random.key(0), array(1, 256))["params"]


@pytest.mark.parametrize("init", [FACTORED, FACTORED.init, None])
def test_a_training_state_of_linen(linen: Any, init: Any) -> None:
    params = nn.unbox(linen)
    state = jax.eval_shape(
        lambda params: TrainState.create(apply_fn=print, params=params, tx=FACTORED), params
    )
    specs = ptk.partition_specs(params, RULES, mesh=MESH)
    found = told(state, params, specs, init=init)
    assert kernels(found) == ADAFACTOR
    assert found["params/Dense_0/kernel"] == KERNEL
    assert found["step"] == P()
    # As flax writes it to a file, and gives it back where nothing says what it was.
    restored = told(to_state_dict(state), params, specs, init=init)
    assert sorted(restored) == sorted(found)
    assert restored == found


def test_boxes_over_arrays_and_arrays_over_boxes(linen: Any) -> None:
    specs = ptk.partition_specs(linen, mesh=MESH)
    bare = nn.unbox(linen)
    assert kernels(told(made(FACTORED, linen), linen, specs, init=FACTORED)) == ADAFACTOR
    assert kernels(told(made(optax.adam(1.0), bare), linen, specs)) == ADAM
    assert kernels(told(made(optax.adam(1.0), linen), bare, nn.unbox(specs))) == ADAM


class Model(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([nnx.Linear(256, 256, rngs=rngs)])
        self.norm = nnx.BatchNorm(256, rngs=rngs)


@pytest.fixture(scope="module")
def of_nnx() -> tuple[Any, Any]:
    def create() -> tuple[Any, Any]:
        model = Model(nnx.Rngs(0))
        return nnx.state(model), nnx.state(nnx.Optimizer(model, FACTORED, wrt=nnx.Param))

    return jax.eval_shape(create)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_an_optimizer_of_nnx(of_nnx: tuple[Any, Any], pure: bool, some: bool) -> None:
    """Over its parameters, or over all of the model, of which it has a part; boxed or not."""
    params, state = of_nnx
    params = nnx.filter_state(params, nnx.Param) if some else params
    params = nnx.to_pure_dict(params) if pure else params
    specs = ptk.partition_specs(params, RULES, mesh=MESH)
    found = told(state, params, specs)
    assert kernels(found) == ADAFACTOR
    assert {spec for path, spec in found.items() if "/v/norm" in path} == {P("model")}


@pytest.mark.parametrize("filtered", [False, True])
def test_a_module_of_equinox(filtered: bool) -> None:
    model = eqx.filter_eval_shape(eqx.nn.MLP, 256, 256, 256, 1, key=jax.random.key(0))
    arrays = eqx.filter(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    params = arrays if filtered else model
    specs = ptk.partition_specs(params, [*RULES[:1], ("bias", "model"), ("*", P())], mesh=MESH)

    def init(model: Any) -> Any:
        return FACTORED.init(eqx.filter(model, eqx.is_array))

    assert kernels(told(made(FACTORED, arrays), params, specs, init=init)) == ADAFACTOR


# --- how structures are found


def test_parameters_that_are_called_as_the_fields_of_a_state() -> None:
    params = {"mu": array(256, 512), "nu": array(512), "count": array()}
    specs = {"mu": KERNEL, "nu": P("model"), "count": P()}
    found = told(made(optax.adam(1.0), params), params, specs)
    assert found["0/mu/mu"] == found["0/nu/mu"] == KERNEL
    assert found["0/mu/nu"] == P("model")
    assert found["0/count"] == found["0/mu/count"] == P()


@pytest.mark.parametrize("container", [tuple, list])
def test_parameters_in_a_sequence_are_not_taken_for_a_chain(container: Any) -> None:
    params, specs = container([array(256, 512), array(512)]), container([KERNEL, P("model")])
    for tx in (optax.adam(1.0), optax.chain(optax.trace(0.9), optax.ema(0.9)), optax.sm3(1.0)):
        found = told(made(tx, params), params, specs)
        assert {len(spec) for spec in found.values()} <= {0, 1, 2}
        assert KERNEL in found.values()


@pytest.mark.parametrize("tx", [optax.adam(1.0), FACTORED, optax.sm3(1.0), optax.lbfgs()])
def test_parameters_that_are_one_array(tx: Any) -> None:
    params, specs = {"w": array(256, 256)}, {"w": KERNEL}
    within = told(made(tx, params), params, specs, init=tx)
    alone = told(made(tx, array(256, 256)), array(256, 256), KERNEL, init=tx)
    assert {
        path.removesuffix("/w").replace("/w/", "/"): spec for path, spec in within.items()
    } == alone


def test_dicts_over_frozen_dicts() -> None:
    state = made(optax.adam(1.0), FrozenDict(PARAMS))
    assert kernels(told(state)) == ADAM
    assert kernels(told(made(optax.adam(1.0)), FrozenDict(PARAMS), FrozenDict(SPECS))) == ADAM


def test_parameters_that_are_not_there_have_nothing_over_them() -> None:
    params, specs = {"a": None, "w": array(256, 512), "z": ()}, {"a": None, "w": KERNEL, "z": ()}
    assert told({"mu": params}, params, specs) == {"mu/w": KERNEL}
    assert len(faults({"mu": {**params, "a": array(256, 512)}}, params, specs)) == 2


def test_a_state_of_some_of_the_parameters() -> None:
    state = {"m": {"up": {"kernel": array(256, 256)}}, "n": {"up": None}, "k": {"scale": array()}}
    assert told(state) == {"m/up/kernel": KERNEL, "k/scale": P()}


class Pair(NamedTuple):
    real: Any
    imaginary: Any


def test_several_arrays_for_one_parameter() -> None:
    params = {"w": array(256, 512, dtype=jnp.complex64), "b": array(512)}
    specs = {"w": KERNEL, "b": P("model")}
    tx = optax.contrib.split_real_and_imaginary(optax.adam(1.0))
    found = told(made(tx, params), params, specs)
    assert {spec for path, spec in found.items() if "/w/" in path} == {KERNEL}
    odd = {"w": Pair(array(256, 512), array(256, 4)), "b": array(512)}
    assert "state['q']['w'].imaginary" in {its[1] for its in faults({"q": odd}, params, specs)}


@jax.tree_util.register_pytree_node_class
class Odd:
    """A node whose static data cannot be hashed, and have no truth when they are compared."""

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.leaf,), np.arange(3)

    @classmethod
    def tree_unflatten(cls, data: Any, leaves: Any) -> Any:
        return cls(*leaves)


def test_static_data_that_cannot_be_compared() -> None:
    params = {"a": Odd(array(256, 512)), "b": [Odd(array(8)) for _ in range(3)]}
    specs = {"a": KERNEL, "b": P()}
    found = ptk.optimizer_specs({"mu": params, "n": 0}, params, specs, mesh=MESH)
    assert jax.tree.leaves(found) == [KERNEL, P(), P(), P(), P()]


def test_what_is_of_no_parameter_is_whole_if_it_is_small() -> None:
    state = {
        "count": 3,
        "name": "adam",
        "raw": array(2, dtype=jnp.uint32),
        "key": jax.random.split(jax.random.key(0), 128),
        "few": array(64),
        "none": None,
    }
    assert set(told(state).values()) == {P()}
    assert faults({"many": array(65)}) == [("PTK309", "state['many']", "")]
    assert told({"many": array(1, 1)}, {}, {}) == {"many": P()}
    assert faults({"many": array(65)}, {}, {})


# --- how shapes are read


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        ((4, 256, 512), P("a", "b", "c")),
        ((), P()),
        ((1,), P()),
        ((1, 1, 1), P()),
        ((0, 3), P()),
        ((4, 1, 512), P("a", None, "c")),
        ((4, 512), P("a", "c")),
        ((256,), P("b")),
        ((10, 4, 256, 512), P(None, "a", "b", "c")),
        ((4, 256, 512, 2), P("a", "b", "c")),
    ],
)
def test_the_spec_follows_from_the_shape(shape: tuple[int, ...], spec: P) -> None:
    params = {"w": array(4, 256, 512)}
    assert told({"x": {"w": array(*shape)}}, params, P("a", "b", "c"), mesh=None) == {"x/w": spec}


@pytest.mark.parametrize(
    "shape", [(512, 256), (2, 256, 512), (128,), (4, 256, 512, 2, 2), (3, 512)]
)
def test_other_shapes_do_not_follow(shape: tuple[int, ...]) -> None:
    state = {"x": {"w": array(*shape)}}
    found = faults(state, {"w": array(4, 256, 512)}, P("a", "b", "c"), mesh=None)
    assert found == [("PTK309", "state['x']['w']", "")]


def test_readings_that_give_one_spec_are_no_question() -> None:
    params = {"w": array(8, 8, 16)}
    assert told({"x": {"w": array(8, 16)}}, params, P(None, None, "model")) == {
        "x/w": P(None, "model")
    }
    assert faults({"x": {"w": array(8, 16)}}, params, P("data"))[0][0] == "PTK308"


def test_shapes_with_many_readings_take_no_time() -> None:
    assert len(readings((2,) * 15, (2,) * 30)) == MOST_READINGS + 1
    assert readings((*[2] * 15, 3), (2,) * 30) == ()
    state, params = {"x": {"w": array(*[2] * 15)}}, {"w": array(*[2] * 30)}
    assert faults(state, params, P("data"))[0][0] == "PTK308"
    assert told(state, params, P()) == {"x/w": P()}


def test_init_settles_what_a_shape_leaves_open() -> None:
    def init(params: Any) -> Any:
        leaf = params["up"]["kernel"]
        mean = lambda dim: jax.ShapeDtypeStruct  # noqa: E731
        rows, columns = jnp.mean(leaf, 0), jnp.mean(leaf, 1)
        up = {"kernel": rows, "bias": None}
        del mean
        return [{"up": up, "scale": None}, {"up": {**up, "kernel": columns}, "scale": None}]

    state = {"optimizer": jax.eval_shape(init, PARAMS), "params": PARAMS}
    found = told(state, init=init)
    assert found["optimizer/0/up/kernel"] == P("model")
    assert found["optimizer/1/up/kernel"] == P("data")


def test_an_init_that_fails_is_told() -> None:
    def init(params: Any) -> Any:
        raise TypeError("there is\nno such thing")

    state = {"x": {"up": {"kernel": array(256), "bias": array(256)}, "scale": array()}}
    with pytest.raises(ptk.SpecError, match="init raises TypeError: there is;"):
        told(state, init=init)
    # One that makes something else is of no help either.
    assert faults(state, init=lambda params: {"y": jnp.ones(3)})[0][0] == "PTK308"


# --- specs, rules, mesh


def test_specs_may_be_a_prefix_or_a_plan_and_have_none() -> None:
    state = made(optax.sgd(0.1, 0.9))
    assert set(told(state, specs=P()).values()) == {P()}
    assert set(told(state, specs={"up": P("model"), "scale": None}).values()) == {P("model"), P()}
    plan = ptk.partition_plan(PARAMS, RULES, mesh=MESH)
    assert told(state, specs=plan, mesh=None) == told(state)


def test_faulty_specs_are_told_of_the_parameters() -> None:
    state = made(optax.sgd(0.1, 0.9))
    specs = {"up": {"kernel": P("data", "modle"), "bias": P("data", "model")}, "scale": P()}
    assert [its[:2] for its in faults(state, specs=specs)] == [
        ("PTK302", "params['up']['bias']"),
        ("PTK301", "params['up']['kernel']"),
    ]
    assert faults({"x": 1}, {"w": array(255)}, P("data"))[0][:2] == ("PTK303", "params['w']")


def test_rules_win_over_all() -> None:
    state = {"adam": made(optax.adam(1.0)), "gram": array(4096, 4096)}
    rules = [("gram", "model _"), ("mu/**/kernel", "replicate")]
    found = told(state, rules=rules)
    assert found["gram"] == P("model")
    assert found["adam/0/mu/up/kernel"] == P()
    assert found["adam/0/nu/up/kernel"] == KERNEL
    assert told(state, rules=rules, mesh=None) == found


def test_a_default_of_rules_is_for_what_is_not_explained() -> None:
    state = {"adam": made(optax.adam(1.0)), "gram": array(4096, 4096)}
    found = told(state, rules=ptk.Rules([], default="data ..."))
    assert found.pop("gram") == P("data")
    assert found == told({"adam": state["adam"]})


def test_faulty_rules_are_told() -> None:
    state = {"gram": array(4095, 4096), "mu": PARAMS}
    wrong = [
        ("gram", "model"),
        ("kernel", "modle"),
        ("bias", "(model)"),
        ("scale", ptk.by_rank({})),
    ]
    found = faults(state, rules=wrong)
    assert {code for code, *_ in found} == {"PTK301", "PTK303", "PTK306"}


def test_wrong_kinds_of_arguments() -> None:
    assert faults({}, init=3)[0][0] == "PTK001"
    assert faults({}, mesh="data")[0][0] == "PTK001"
    assert faults({"x": {1: 0, "1": 0}})[0][0] == "PTK104"


# --- what is found where nothing is


class Averaged(NamedTuple):
    fast: Any
    slow: Any


def test_the_part_of_the_parameters_that_explains_a_state_is_told() -> None:
    params = Averaged(PARAMS, PARAMS)
    found = faults(made(optax.adam(1.0)), params, P())
    hints = {hint for code, _, hint in found}
    assert {code for code, *_ in found} == {"PTK309"}
    assert hints == {"pass params.fast and its specs"}
    # Not if it does not explain all.
    state = {"adam": made(optax.adam(1.0)), "gram": array(4096, 4096)}
    assert {hint for *_, hint in faults(state, params, P())} == {""}


def test_reasons() -> None:
    state = {"adam": made(FACTORED), "few": array(8), "gram": array(4096, 4096)}
    options = {"rules": [("gram", "model _")], "mesh": MESH, "doing": "test"}
    found = specs_of_state(state, PARAMS, SPECS, **options)
    by_path = {found.path(index): found.reason(index) for index in range(len(found.given))}
    assert by_path["['adam'][0].v['up']['bias']"] == "params['up']['bias']"
    assert by_path["['adam'][0].v_row['up']['kernel']"] == (
        "params['up']['kernel'] without dimension 1, by its name"
    )
    assert by_path["['gram']"] == "rules[0]"
    assert by_path["['few']"] == "small, and no parameter's"
    plan = found.plan()
    assert [leaf.spec for leaf in plan.leaves] == jax.tree.leaves(found.tree)
    assert {note.kind for note in plan.notes} == {"small", "by-name"}
    assert "its parameter" in str(plan)
    told_by_init = specs_of_state(state, PARAMS, SPECS, init=FACTORED, **options)
    assert {note.kind for note in told_by_init.plan().notes} == {"small"}


def test_what_is_split_further_than_the_parameters() -> None:
    """ZeRO-1: the state is split over an axis along which parameters are whole."""
    params = {"kernel": array(256, 512), "square": array(256, 256), "bias": array(512)}
    specs = {"kernel": P(None, "model"), "square": P(), "bias": P()}
    state = made(FACTORED, params)
    base = ptk.optimizer_specs(state, params, specs, init=FACTORED, mesh=MESH)
    split = ptk.fsdp_specs(state, base, mesh=MESH, axis="data", min_size=2)
    assert split[0].v_row == {"kernel": P("data"), "square": P("data"), "bias": P()}
    assert split[0].v_col["kernel"] == P(("model", "data"))
    assert split[0].v["bias"] == P("data")
    assert split[0].count == P()
    adam = made(optax.adam(1.0), params)
    base = ptk.optimizer_specs(adam, params, specs, mesh=MESH)
    split = ptk.fsdp_specs(adam, base, mesh=MESH, axis="data", min_size=2)
    assert split[0].mu == {"kernel": P("data", "model"), "square": P("data"), "bias": P("data")}
