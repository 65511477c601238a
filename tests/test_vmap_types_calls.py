"""Declared types under wrappers, in calls of every kind, and what is told of a fault."""

from __future__ import annotations

import functools
import importlib
import pickle
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beartype import beartype
from beartype.claw import beartype_package
from jaxtyping import Array, Float, Int, Key, PyTree, TypeCheckError, install_import_hook, jaxtyped

import pytreekit as ptk

from .telling import refused

ENTERED: list[Any] = []


def pick(x: Float[Array, " d"], at: Int[Array, " d"]) -> Float[Array, " d"]:
    ENTERED.append(jax.typeof(x))
    return x * at


XS, ATS = jnp.ones((5, 3)), jnp.ones((5, 3), int)
OTHER_ATS = jnp.ones((5, 4), int)
FAULT = [("PTK603", "at")]


class Model(eqx.Module):
    w: Float[Array, " d"]

    def __call__(self, x: Float[Array, " d"], at: Int[Array, " d"]) -> Float[Array, " d"]:
        return self.w * pick(x, at)

    def method(self, x: Float[Array, " d"], at: Int[Array, " d"]) -> Float[Array, " d"]:
        return self(x, at)

    @staticmethod
    def static(x: Float[Array, " d"], at: Int[Array, " d"]) -> Float[Array, " d"]:
        return pick(x, at)

    @classmethod
    def of_class(cls, x: Float[Array, " d"], at: Int[Array, " d"]) -> Float[Array, " d"]:
        return pick(x, at)

    @ptk.vmap(in_axes={"x": 0, "at": 0})
    def mapped(self, x: Float[Array, " d"], at: Int[Array, " d"]) -> Float[Array, " d"]:
        return self.w * pick(x, at)


SOURCE = """
from jax import Array, typeof
from jaxtyping import Float, Int
ENTERED = []
def pick(x: Float[Array, "d"], at: Int[Array, "d"]) -> Float[Array, "d"]:
    ENTERED.append(typeof(x))
    return x * at
"""


def hooked(hook: Callable[[str], Any], name: str, folder: Any) -> Any:
    (folder / f"{name}.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    try:
        with hook(name) or jax.disable_jit(False):
            return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


MODEL = Model(jnp.ones(3))
CALLABLES: dict[str, Callable[..., Any]] = {
    "function": pick,
    "jaxtyped": jaxtyped(typechecker=beartype)(pick),
    "jaxtyped alone": jaxtyped(typechecker=None)(pick),
    "beartype": beartype(pick),
    "beartype within jaxtyped": jaxtyped(typechecker=None)(beartype(pick)),
    "jit": jax.jit(pick),
    "jit of jaxtyped": jax.jit(jaxtyped(typechecker=beartype)(pick)),
    "partial": functools.partial(pick),
    "partial of partial": functools.partial(functools.partial(jax.jit(pick))),
    "bound method": MODEL.method,
    "static method": Model.static,
    "class method": Model.of_class,
    "object": MODEL,
}


@pytest.mark.parametrize("name", CALLABLES)
def test_annotations_are_seen_through(name):
    mapped = ptk.vmap(CALLABLES[name])
    assert mapped(XS, ATS).shape == (5, 3)
    ENTERED.clear()
    assert refused(mapped, XS, OTHER_ATS) == FAULT
    assert not ENTERED


@pytest.mark.parametrize("hook", ["jaxtyping", "beartype"])
def test_import_hooks(hook, tmp_path):
    with_hook = {
        "jaxtyping": lambda name: install_import_hook(name, "beartype.beartype"),
        "beartype": beartype_package,
    }
    module = hooked(with_hook[hook], f"under_{hook}", tmp_path)
    assert module.pick.__wrapped__
    assert ptk.vmap(module.pick)(XS, ATS).shape == (5, 3)
    module.ENTERED.clear()
    assert refused(ptk.vmap(module.pick), XS, OTHER_ATS) == FAULT
    assert not module.ENTERED
    with pytest.raises(Exception, match="d"):  # without us it is found inside of the trace
        jax.eval_shape(jax.vmap(module.pick), XS, OTHER_ATS.astype(float))


def test_in_a_class_body():
    assert MODEL.mapped(XS, ATS).shape == (5, 3)
    assert refused(MODEL.mapped, XS, OTHER_ATS) == FAULT
    assert refused(MODEL.mapped, x=XS, at=OTHER_ATS) == FAULT
    assert [its.code for its in Model.mapped.check(MODEL, XS, OTHER_ATS)] == ["PTK603"]


def of_batches(fun: Callable[..., Any]) -> Callable[..., Any]:
    """As many decorators do, this shows the annotations of a function, and takes something else."""

    @functools.wraps(fun)
    def inner(*args: Any) -> Any:
        return fun(*(arg[0] for arg in args))

    return inner


@pytest.mark.parametrize(
    "fun",
    [of_batches(pick), of_batches(beartype(pick)), jax.vmap(pick), ptk.vmap(pick), jax.grad(pick)],
)
def test_what_takes_other_arguments_is_not_seen_through(fun):
    assert ptk.vmap(fun).check(XS[None], ATS[None]) == ()
    assert ptk.vmap(fun).check(XS[None], OTHER_ATS[None]) == ()


# ---- calls --------------------------------------------------------------------------------------

mapped = ptk.vmap(pick)


def test_a_call_of_new_shapes_is_checked_and_an_old_one_is_not(monkeypatch):
    fun = ptk.vmap(pick)
    checks = []
    declared = fun._call
    monkeypatch.setattr(fun, "_call", lambda *a: checks.append(1) or declared(*a))
    for _ in range(3):
        fun(XS, ATS)
    assert len(checks) <= 2
    checks.clear()
    for _ in range(2):
        assert refused(fun, XS, OTHER_ATS) == FAULT  # a fault is not forgotten
        assert refused(fun, XS, XS) == [("PTK601", "at")]
    fun(XS[:2], ATS[:2])
    fun(XS[:, :2], ATS[:, :2])
    checks.clear()
    fun(XS, ATS)
    fun(np.ones((2, 3), np.float32), np.ones((2, 3), np.int32))
    assert len(checks) <= 1  # of the numpy arrays, at most


def test_under_jit_and_inside_other_maps():
    assert refused(jax.jit(mapped), XS, OTHER_ATS) == FAULT
    assert refused(jax.grad(lambda x: mapped(x, OTHER_ATS).sum()), XS) == FAULT
    twice = ptk.vmap(mapped)
    assert twice(XS[None], ATS[None]).shape == (1, 5, 3)
    assert refused(twice, XS[None], OTHER_ATS[None]) == FAULT
    assert refused(jax.vmap(mapped), XS[None], OTHER_ATS[None]) == FAULT
    assert refused(jax.vmap(mapped), XS, ATS) == [("PTK602", "x"), ("PTK602", "at")]


@pytest.mark.parametrize(
    "options",
    [
        {"in_axes": (0, 0)},
        {"in_axes": {"x": 0, "at": 0}},
        {"in_axes": {...: -2}},
        {"in_axes": ptk.if_array(0)},
        {"chunk_size": 2},
        {"chunk_size": 2, "remat": True},
        {"axis_name": "i", "axis_size": 5},
        {"out_axes": 1},
    ],
)
def test_with_every_option(options):
    fun = ptk.vmap(pick, **options)
    assert fun(XS, ATS).shape == ((3, 5) if "out_axes" in options else (5, 3))
    ENTERED.clear()
    assert refused(fun, XS, OTHER_ATS) == FAULT
    assert not ENTERED


def test_keywords_extras_and_defaults():
    def fun(
        *xs: Float[Array, " d"], scale: Float[Array, ""] = 1.0, **more: Int[Array, " d"]
    ) -> Any:
        return xs[0] * scale

    check = ptk.vmap(fun, {"xs": 0, "scale": None, ...: 0}).check
    assert check(XS, XS, k=ATS) == check(XS, scale=2.0) == ()
    found = [f"{its.code} {its.place}" for its in check(XS, XS[:, 1:], k=OTHER_ATS, scale=XS)]
    assert found == ["PTK603 xs[1]", "PTK603 k", "PTK602 scale"]
    assert ptk.vmap(fun)(XS).shape == (5, 3)  # a default is whatever it is


def test_keys():
    def noise(key: Key[Array, ""], n: Int[Array, ""]) -> Float[Array, "2"]:
        return n * jax.random.normal(key, (2,))

    split = ptk.vmap(noise, (ptk.SPLIT, 0))
    assert split(jax.random.key(0), jnp.arange(3)).shape == (3, 2)
    assert refused(split, jax.random.PRNGKey(0), jnp.arange(3)) == [("PTK601", "key")]
    keys = jax.random.split(jax.random.key(0), 3)
    assert ptk.vmap(noise)(keys, jnp.arange(3)).shape == (3, 2)
    assert refused(ptk.vmap(noise, (None, 0)), keys, jnp.arange(3)) == [("PTK602", "key")]
    alone = ptk.vmap(noise, None, axis_size=3)
    assert refused(alone, jax.random.key(0), jnp.arange(3)) == [("PTK602", "n")]


def test_types_can_be_left_unchecked():
    def first(x: Float[Array, " d"], at: Int[Array, " d"]) -> Any:
        return x[0] + at[0]

    assert refused(ptk.vmap(first), XS, OTHER_ATS) == FAULT
    for off in ({"check_types": False}, {"checks": False}):
        assert ptk.vmap(first, **off)(XS, OTHER_ATS).shape == (5,)
    assert ptk.vmap(first, check_types=False).check(XS, OTHER_ATS) == ()


def test_a_batch_of_nothing_is_checked_too():
    assert mapped(XS[:0], ATS[:0]).shape == (0, 3)
    assert refused(mapped, XS[:0], OTHER_ATS[:0]) == FAULT


def test_plan_takes_shapes_and_traces_nothing():
    ENTERED.clear()
    shapes = jax.ShapeDtypeStruct((5, 3), "float32"), jax.ShapeDtypeStruct((5, 4), "int32")
    assert refused(mapped.plan, *shapes) == refused(mapped, *shapes) == FAULT
    assert [(its.code, its.argument) for its in mapped.check(*shapes)] == FAULT
    assert mapped.plan(XS, ATS).axis_size == 5
    assert not ENTERED


def test_local_and_unknown_annotations():
    class Local:
        pass

    def fun(x: Float[Array, "3"], local: Local, at: Int[Array, "3"]) -> NoSuchName:  # noqa: F821
        raise AssertionError

    found = ptk.vmap(fun, (0, None, 0)).check(XS, 1.0, OTHER_ATS)
    assert [(its.code, its.argument) for its in found] == FAULT


def test_a_function_without_such_annotations_loads_no_type_checker(monkeypatch):
    for name in ("jaxtyping", "beartype.door"):
        monkeypatch.delitem(sys.modules, name)
    ptk.vmap(lambda x, train: x, (0, None))(XS, True)
    assert not {"jaxtyping", "beartype.door"} & set(sys.modules)


# ---- what is returned ---------------------------------------------------------------------------


def test_returned_trees_are_checked_by_plan():
    def step(w: PyTree[Float[Array, "..."], " T"], x: Float[Array, " d"]) -> Any:
        return {"w": w, "loss": x.sum(), "n": (x.size, x[1:])}

    step.__annotations__["return"] = dict[str, Any]
    assert ptk.vmap(step, (None, 0)).plan([XS], XS, outputs=True).axis_size == 5
    for returns, found in {
        tuple[Float[Array, "..."], ...]: [("PTK604", "out")],
        dict[str, PyTree[Float[Array, "..."]]]: [("PTK601", "out['n'][0]")],
        dict[str, PyTree[Float[Array, " d-1"] | int]]: [
            ("PTK602", "out['loss']"), ("PTK602", "out['w'][0]"),
        ],
    }.items():  # fmt: skip
        step.__annotations__["return"] = returns
        fun = ptk.vmap(step, (None, 0), out_axes={"w": None, "loss": 0, "n": (None, 0)})
        assert sorted(refused(fun.plan, [XS], XS, outputs=True)) == found
        assert fun([XS], XS)["loss"].shape == (5,)  # a call does not look at it


def test_a_returned_tree_has_the_names_of_the_arguments():
    def fun(x: Float[Array, " d"], w: PyTree[Float[Array, "..."], " T"]) -> Any:
        return returned(x, w)

    def plan(hint: Any) -> Any:
        fun.__annotations__["return"] = hint
        return ptk.vmap(fun, (0, None), out_axes=None).plan(XS, {"a": XS}, outputs=True)

    def returned(x: Any, w: Any) -> Any:
        return w

    plan(PyTree[Float[Array, "..."], " T"])
    plan(dict[str, Float[Array, "5 d"]])
    assert refused(plan, dict[str, Float[Array, "4 d"]]) == [("PTK603", "out['a']")]
    assert refused(plan, list[Float[Array, " d"]]) == [("PTK604", "out")]


# ---- what is told -------------------------------------------------------------------------------


def raised(fun: Callable[..., Any], *args: Any) -> ptk.SpecError:
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args)
    return caught.value


def test_a_fault_tells_the_annotation_the_example_and_who_gave_a_name_its_size():
    def fun(params: dict[str, Float[Array, "d k"]], x: Float[Array, " d"]) -> Any: ...

    params = {"a": jnp.ones((3, 2)), "b": jnp.ones((3, 2))}
    error = raised(ptk.vmap(fun, (None, 1)), params, jnp.ones((4, 5)))
    assert error.repaired is None
    (fault,) = error.faults
    assert (fault.code, fault.argument, fault.path) == ("PTK603", "x", "")
    assert (fault.found, fault.wanted, fault.spec_path) == ("f32[4,5]", "1", "in_axes[1]")
    assert fault.fact == "d is 4 here, and 3 elsewhere"
    assert fault.note == 'one example is f32[4], declared Float[Array, "d"]'
    (place,) = fault.beside
    assert place[:4] == ("params['a']", "f32[3,2]", "d = 3", 'Float[Array, "d k"]')
    assert pickle.loads(pickle.dumps(error)).faults == error.faults
    text = str(error)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88
    for word in ("x   f32[4,5]", "in_axes[1] = 1", "f32[4]", "params['a']", "d = 3"):
        assert word in text


@pytest.mark.parametrize(
    ("in_axes", "args", "repaired"),
    [
        (0, (XS.T, ATS[0]), None),  # two ways to go
        ((0, None), (XS, ATS), (0, 0)),
        ((0, 0), (XS, jnp.ones(5, int)), None),  # no axis of it is right
        ({"x": 0, "at": None}, (XS, ATS), {"x": 0, "at": 0}),
        ((1, 0), (XS, ATS), (1, 1)),
        ((0, 0), (jnp.ones((3, 3)), jnp.ones(3, int)), (0, None)),
    ],
)
def test_a_repair_is_one_that_fits(in_axes, args, repaired):
    error = raised(ptk.vmap(pick, in_axes), *args)
    assert error.repaired == repaired
    assert ("fix:" in str(error)) == any(fault.hint for fault in error.faults)
    if repaired is not None:
        assert ptk.vmap(pick, repaired).check(*args) == ()


def test_it_is_what_a_type_checker_finds_inside_of_the_trace():
    checked = jaxtyped(typechecker=beartype)(pick)
    with pytest.raises(TypeCheckError):
        jax.eval_shape(jax.vmap(checked), XS, OTHER_ATS)
    jax.eval_shape(jax.vmap(checked), XS, ATS)
