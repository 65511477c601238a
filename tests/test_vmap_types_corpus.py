"""The corpus once more, its functions annotated: which silent faults an annotation settles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float, Int, Key, PyTree, Shaped

import pytreekit as ptk

from .telling import refused
from .test_vmap_corpus import CASES, call
from .vmap_cases import Setup, nodes

NUMBER, ROW, TABLE = Float[Array, ""], Float[Array, "d"], Float[Array, "k d"]
WIDTHS = Float[Array, "k"]


class Sensors(TypedDict):
    x: Float[Array, " features"]
    mean: Float[Array, " sensors"]


class Example(TypedDict):
    x: Float[Array, " d"]
    y: Float[Array, ""]


class Affine(TypedDict):
    w: Float[Array, "k d"]
    b: Float[Array, " k"]


# Of each silent fault that an annotation settles: what is declared of its parameters, the fault.
SETTLED: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "axis-negative-mixed-rank": ({"batch": Sensors}, [("PTK602", "batch['mean']")]),
    "axis-parenthesised-int": ({"x": ROW, "w": TABLE}, [("PTK602", "w")]),
    "kwargs-shared-weight-mapped": ({"x": ROW, "w": TABLE}, [("PTK602", "w")]),
    "numpy-string-array-under-none": (
        {"names": Shaped[np.ndarray, ""], "x": ROW},
        [("PTK602", "names")],
    ),
    "plain-dataclass-under-none": ({"rec": nodes.PlainRecord, "x": ROW}, [("PTK602", "rec.w")]),
    "none-instead-of-zero-labels": ({"x": ROW, "y": NUMBER}, [("PTK602", "y")]),
    "none-prefix-over-batch-dict": ({"batch": Example}, [("PTK602", "batch['y']")]),
    "per-example-grad-params-mapped": (
        {"params": dict[str, TABLE], "x": ROW},
        [("PTK602", "params['w']")],
    ),
    "all-none-with-axis-size": ({"x": ROW, "y": ROW}, [("PTK602", "x"), ("PTK602", "y")]),
    "tree-map-over-axes-drops-none": ({"x": ROW, "y": ROW}, [("PTK602", "y")]),
    "unflatten-insertion-order": ({"params": Affine, "x": ROW}, [("PTK602", "params['b']")]),
    "namedtuple-fields-swapped": (
        {"pt": tuple[ROW, WIDTHS]},
        [("PTK602", "pt.p"), ("PTK602", "pt.q")],
    ),
}
ELSEWHERE = {
    "nested-inner-kwargs": "where the inner function is mapped",
    "default-array-not-mapped": "by what is returned",
    "opt-state-shared": "at the second step",
}
NOT_SETTLED = {
    "kwargs-ignore-in-axes-one": "both axes have one size",
    "nested-cube-axis-shift": "all axes have one size",
    "nested-order-transposed": "each example is right, the order of the maps is not",
    "axis-name-shadowed": "annotations do not speak of axis names",
    "spmd-name-no-mesh": "annotations do not speak of meshes",
    "aux-array-not-mapped": "no annotated field: the node hides what it keeps",
    "opt-count-broadcast-out": "each example is right, it is out_axes that copies",
    "out-axes-one-transposes": "each example is right, it is out_axes that transposes",
    "out-axes-negative-mixed": "each example is right, it is out_axes that differs",
    "raw-key-under-none-same-noise": "a shared key is what one example takes",
    "key-inside-state-under-none": "a shared key is what one example takes",
    "ensemble-init-same-key": "a shared key is what one example takes",
    "batch-of-zero": "annotations do not speak of the batch",
    "axis-size-float-agrees": "annotations do not speak of the batch",
}
NOT_OURS = {"sum-match-sums-quietly", "in-axes-mutated-after-wrap"}  # ptk.vmap does neither

STATE = PyTree[Float[Array, "?d"] | Int[Array, ""]]
CONTROLS: dict[str, dict[str, Any]] = {
    "axis-negative-ok": {"x": ROW, "y": ROW, "return": ROW},
    "kwargs-axis0-ok": {"x": ROW, "y": ROW, "return": ROW},
    "vmap-of-jit-static": {"x": ROW, "n": int, "return": Float[Array, "2*d"]},
    "string-under-none-ok": {"activation": str, "x": ROW, "return": ROW},
    "shape-dtype-struct-ok": {"x": ROW, "return": ROW},
    "strict-constructor-ok": {"node": PyTree[ROW], "return": ROW},
    "opt-state-vmapped-init-ok": {
        "grads": PyTree[Float[Array, "..."], " T"],
        "opt_state": PyTree[ROW | Int[Array, ""]],
        "return": tuple[PyTree[Float[Array, "..."], " T"], PyTree[ROW | Int[Array, ""]]],
    },
    "legit-static-equals-batch": {"layer": PyTree[ROW], "return": ROW},
    "out-axes-constant-ok": {"x": ROW, "return": NUMBER},
    "legit-time-major-output": {"x": ROW, "return": ROW},
    "per-example-grad-ok": {"params": dict[str, ROW], "x": ROW, "return": dict[str, ROW]},
    "optional-none-under-zero-ok": {"x": ROW, "mask": ROW | None, "return": ROW},
    "tree-map-drops-none-axes": {"params": dict[str, ROW | None], "return": ROW},
    "unmapped-size-mismatch-hidden": {"x": ROW, "mask": WIDTHS, "return": WIDTHS},
    "legit-shared-square-weight": {"w": TABLE, "x": ROW, "return": WIDTHS},
    "legit-all-pairs": {"a": ROW, "b": TABLE, "return": WIDTHS},
    "legit-common-random-numbers": {"theta": NUMBER, "key": Key[Array, ""], "return": NUMBER},
    "axis-size-no-args-ok": {"return": Float[Array, "2"]},
    "legit-batch-of-one": {"x": ROW, "return": NUMBER},
    "top-list-ok": {"x": ROW, "y": ROW, "return": ROW},
    "dict-key-order-ok": {"d": dict[str, ROW], "return": ROW},
}


def annotated(setup: Setup, hints: dict[str, Any], entered: list[Any]) -> Callable[..., Any]:
    """The function of a case with annotations, which notes when it is entered."""
    names = ", ".join(name for name in hints if name != "return")
    scope = {"body": setup.f, "note": entered.append}
    exec(f"def fun({names}):\n    note(1)\n    return body({names})", scope)
    scope["fun"].__annotations__ = hints
    return scope["fun"]


def test_each_silent_fault_and_control_is_accounted_for():
    silent = {name for name, its in CASES.items() if its.accepts and its.silent}
    controls = {name for name, its in CASES.items() if its.accepts and not its.silent}
    assert silent == {*SETTLED, *ELSEWHERE, *NOT_SETTLED} | NOT_OURS
    assert controls == set(CONTROLS)
    assert (len(silent), len(SETTLED) + len(ELSEWHERE), len(controls)) == (31, 15, 21)


@pytest.fixture
def plain_record_annotated(monkeypatch):
    monkeypatch.setattr(nodes.PlainRecord, "__annotations__", {"w": ROW})


@pytest.mark.parametrize("name", SETTLED)
@pytest.mark.usefixtures("plain_record_annotated")
def test_a_silent_fault_becomes_one_that_is_told(name):
    hints, faults = SETTLED[name]
    setup, entered = CASES[name].build(), []
    fun = annotated(setup, hints, entered)
    assert refused(call, setup, ptk.vmap, fun) == faults
    assert not entered


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_annotated_truthfully_stays_silent(name):
    setup = CASES[name].build()
    fun = annotated(setup, CONTROLS[name], [])
    mapped = ptk.vmap(fun, setup.in_axes, setup.out_axes, axis_size=setup.axis_size)
    assert mapped.check(*setup.args, **setup.kwargs) == ()
    assert mapped.plan(*setup.args, **setup.kwargs, outputs=True).outputs  # by a whole trace


@pytest.mark.parametrize("name", ["raw-key-under-none-same-noise", "out-axes-one-transposes"])
def test_what_is_right_of_one_example_is_left_alone(name):
    setup = CASES[name].build()
    hints = {"x": ROW, "key": Shaped[Array, "2"]} if "key" in name else {"x": ROW}
    assert setup.verify(call(setup, ptk.vmap, annotated(setup, hints, [])))


def test_a_weight_that_an_inner_map_cuts_is_told_where_that_is_called():
    entered = []

    def product(x: Float[Array, " d"], w: Float[Array, "k d"]) -> Any:
        entered.append(1)
        return w @ x

    inner = ptk.vmap(product)
    setup = CASES["nested-inner-kwargs"].build()
    assert refused(call, setup, ptk.vmap, lambda x, w: inner(x, w=w)) == [("PTK602", "w")]
    assert not entered
    shared = ptk.vmap(product, (0, None))
    assert ptk.vmap(shared, setup.in_axes)(*setup.args).shape == (3, 2, 2)


def test_a_default_that_should_have_been_mapped_is_told_by_what_is_returned():
    setup = CASES["default-array-not-mapped"].build()
    fun = annotated(setup, {"x": ROW, "return": NUMBER}, [])
    assert refused(ptk.vmap(fun).plan, *setup.args, outputs=True) == [("PTK602", "out")]


def test_a_shared_state_that_has_grown_is_told_at_the_second_step():
    setup = CASES["opt-state-shared"].build()
    hints = {"grads": dict[str, ROW], "opt_state": PyTree[ROW | Int[Array, ""]]}
    entered = []
    mapped = ptk.vmap(annotated(setup, hints, entered), setup.in_axes)
    grads, state = setup.args
    _, state = mapped(grads, state)
    entered.clear()
    faults = refused(mapped, grads, state)
    assert [code for code, _ in faults] == ["PTK602"] * 3
    assert ("PTK602", "opt_state[0].mu['w']") in faults
    assert not entered


def test_arrays_of_text_are_passed_whole():
    def fun(names: Shaped[np.ndarray, " n"], x: Float[Array, " d"]) -> Any:
        return x * len(names)

    setup = CASES["numpy-string-array-under-none"].build()
    assert ptk.vmap(fun, setup.in_axes)(*setup.args).shape == (3, 2)
    fun.__annotations__["names"] = Float[np.ndarray, "n"]
    assert refused(ptk.vmap(fun, setup.in_axes), *setup.args) == [("PTK601", "names")]


def test_the_state_of_an_optimizer_has_leaves_like_those_of_its_parameters():
    optimizer = optax.adam(1e-2)
    params = {"w": jnp.ones((3, 2)), "b": jnp.ones(3)}
    state = jax.vmap(optimizer.init)(params)

    def step(params: PyTree[Float[Array, "?*s"], " T"], grads: PyTree[Float[Array, "?*s"], " T"]):
        return optax.apply_updates(params, optimizer.update(grads, optimizer.init(params))[0])

    assert ptk.vmap(step).plan(params, params, outputs=True).axis_size == 3
    grown = {"w": params["w"], "b": jnp.ones((3, 3))}
    assert refused(ptk.vmap(step), params, grown) == [("PTK603", "grads['b']")]
    assert refused(ptk.vmap(step), params, state[0])[0] == ("PTK601", "grads.count")
