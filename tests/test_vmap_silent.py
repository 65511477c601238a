"""What JAX accepts though it is hardly meant: warnings, suspicions, and the same by name."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreekit as ptk

from .test_vmap_corpus import APART, CASES, call
from .vmap_cases import Point

XS = jnp.arange(6.0).reshape(3, 2)
SQUARE = jnp.arange(9.0).reshape(3, 3)


def warned(fun, *args, **kwargs):
    """The SpecWarnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fun(*args, **kwargs)
    assert all(issubclass(its.category, ptk.SpecWarning) for its in caught)
    return [its.message for its in caught]


def codes(fun, *args, **kwargs):
    return [fault.code for warning in warned(fun, *args, **kwargs) for fault in warning.faults]


# ---- warnings -----------------------------------------------------------------------------------


def raw_keys(count):
    return jax.random.split(jax.random.PRNGKey(0), count)


def psum(x):
    return jax.lax.psum(x, "i")


DOUBTFUL = {
    "PTK901": [
        (lambda: ptk.vmap(lambda x, y: x - y, 1), (SQUARE,), {"y": SQUARE}),
        (lambda: ptk.vmap(lambda x, y: x, None), (XS,), {"y": XS}),
        (lambda: ptk.vmap(lambda x, y: x, ptk.if_array(1)), (SQUARE,), {"y": SQUARE}),
        (lambda: ptk.vmap(lambda x, y: x, -1), (SQUARE,), {"y": {"a": SQUARE}}),
        (lambda: ptk.vmap(lambda k, y: y, ptk.SPLIT), (jax.random.key(0),), {"y": SQUARE}),
    ],
    "PTK902": [
        (lambda: ptk.vmap(lambda key: key), (jax.random.PRNGKey(0),), {}),
        (lambda: ptk.vmap(lambda t: t, ({"key": -1, ...: None},)), ({"key": raw_keys(5)},), {}),
        (lambda: ptk.vmap(lambda key: key, {"key": 1}), (), {"key": raw_keys(5)}),
    ],
    "PTK903": [
        (lambda: ptk.vmap(lambda t: t, -1), ({"a": SQUARE, "b": jnp.ones(3)},), {}),
        (lambda: ptk.vmap(lambda t: t, {"t": -2}), ([SQUARE, jnp.ones((3, 3, 3))],), {}),
    ],
    "PTK904": [
        (lambda: ptk.vmap(ptk.vmap(psum, axis_name="i"), axis_name="i"), (XS,), {}),
        (lambda: jax.vmap(ptk.vmap(psum, axis_name="i"), axis_name="i"), (XS,), {}),
    ],
    "PTK905": [
        (lambda: ptk.vmap(jax.lax.neg, axis_size=3.0), (XS,), {}),
        (lambda: ptk.vmap(jax.lax.neg, {"x": 0}, axis_size=True), (XS[:1],), {}),
    ],
}  # fmt: skip
CALLS = [(code, index) for code, its in DOUBTFUL.items() for index in range(len(its))]


@pytest.mark.parametrize(("code", "index"), CALLS)
def test_a_doubt_is_told_once_for_a_function_and_a_code(code, index):
    make, args, kwargs = DOUBTFUL[code][index]
    mapped = make()
    told = warned(mapped, *args, **kwargs)
    assert [{fault.code for fault in warning.faults} for warning in told] == [{code}]
    text = str(told[0])
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88
    assert "1 doubt" in text
    assert code in text
    assert not codes(mapped, *args, **kwargs)
    another = jax.tree.map(lambda leaf: leaf, (args, kwargs))
    assert not codes(mapped, *another[0], **another[1])
    assert codes(make(), *args, **kwargs) == [code]
    assert str(pickle.loads(pickle.dumps(told[0]))) == text


@pytest.mark.parametrize(("code", "index"), CALLS)
def test_the_result_is_that_of_jax_and_there_are_no_faults(code, index):
    make, args, kwargs = DOUBTFUL[code][index]
    mapped = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ptk.SpecWarning)
        first, again = mapped(*args, **kwargs), mapped(*args, **kwargs)
        if isinstance(getattr(mapped, "check", None), type(mapped.__call__)):
            assert mapped.check(*args, **kwargs) == ()
    jax.tree.map(np.testing.assert_array_equal, first, again)


def test_a_warning_may_be_made_an_error_and_comes_before_the_function_is_entered():
    entered = []
    mapped = ptk.vmap(lambda x, y: entered.append(1) or x, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ptk.SpecWarning)
        for _ in range(2):
            with pytest.raises(ptk.SpecWarning, match="PTK901") as caught:
                mapped(SQUARE, y=SQUARE)
    assert [fault.argument for fault in caught.value.faults] == ["y"]
    assert not entered


WHERE = """
import warnings
import jax.numpy as jnp
import pytreekit as ptk

class Model:
    @ptk.vmap(in_axes={"t": -1})
    def method(self, t):
        return t

ones = jnp.ones((3, 3))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    ptk.vmap(lambda x, y: x, 1)(ones, y=ones)
    Model().method([ones, jnp.ones(3)])
    ptk.vmap(lambda x, y: x, 1).plan(ones, y=ones, outputs=True)
print([(warning.filename, warning.lineno) for warning in caught])
"""


def test_a_warning_points_to_the_call():
    """In a process of its own: here, the hook that checks annotations adds calls between."""
    run = subprocess.run([sys.executable, "-c", WHERE], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str([("<string>", line) for line in (14, 15, 16)])


def test_each_code_of_one_function_is_told_once():
    mapped = ptk.vmap(lambda x, y: x, -1)
    told = warned(mapped, {"a": SQUARE, "b": jnp.ones(3)}, y=SQUARE)
    assert [{fault.code for fault in its.faults} for its in told] == [{"PTK901"}, {"PTK903"}]
    assert not codes(mapped, {"a": jnp.ones(3), "c": SQUARE}, y=[SQUARE])


def test_nothing_is_warned_of_a_faulty_call_nor_without_checks_nor_by_a_plan():
    mapped = ptk.vmap(lambda x, y: x, 1)
    with pytest.raises(ptk.SpecError):
        mapped(SQUARE, y=jnp.ones(4))
    assert not codes(mapped.plan, SQUARE, y=SQUARE)
    assert not codes(mapped.check, SQUARE, y=SQUARE)
    assert codes(mapped, SQUARE, y=SQUARE) == ["PTK901"]
    assert not codes(ptk.vmap(lambda x, y: x, 1, checks=False), SQUARE, y=SQUARE)
    by_name = ptk.vmap(jax.lax.neg, {"x": 0}, axis_size=3.0, checks=False)
    assert not codes(by_name, XS)


SOUND = {
    "by name": (lambda: ptk.vmap(lambda x, y: x, {"x": 1, "y": 0}), (SQUARE,), {"y": SQUARE}),
    "in a tuple": (lambda: ptk.vmap(lambda x, y: x, (1,)), (SQUARE,), {"y": SQUARE}),
    "axis 0": (lambda: ptk.vmap(lambda x, y: x), (SQUARE,), {"y": SQUARE}),
    "if_array": (lambda: ptk.vmap(lambda x, y: x, ptk.if_array(0)), (SQUARE,), {"y": SQUARE}),
    "the first from the end": (lambda: ptk.vmap(lambda x, y: x, -1), (YS := SQUARE[0],), {"y": YS}),
    "keywords of none": (lambda: ptk.vmap(lambda x, y: x, 1), (SQUARE,), {"y": None}),
    "split keys": (lambda: ptk.vmap(lambda key: key), (raw_keys(5),), {}),
    "two split keys": (lambda: ptk.vmap(lambda key: key), (raw_keys(2),), {}),
    "keys to split": (lambda: ptk.vmap(lambda k: k, ptk.SPLIT, axis_size=2), (raw_keys(1)[0],), {}),
    "a shared key": (lambda: ptk.vmap(lambda x, key: x, (0, None)), (XS, raw_keys(1)[0]), {}),
    "signed pairs": (lambda: ptk.vmap(lambda x: x, 1), (jnp.ones((5, 2), jnp.int32),), {}),
    "unsigned triples": (lambda: ptk.vmap(lambda x: x, 1), (jnp.ones((5, 3), jnp.uint32),), {}),
    "negative, of one rank": (lambda: ptk.vmap(lambda t: t, -1), ([SQUARE, SQUARE],), {}),
    "negative, each its own": (
        lambda: ptk.vmap(lambda t: t, ([-1, -1],)), ([SQUARE, jnp.ones(3)],), {},
    ),
    "negative, two arguments": (
        lambda: ptk.vmap(lambda x, y: x, -1), (SQUARE, jnp.ones(3)), {},
    ),
    "other names": (lambda: ptk.vmap(ptk.vmap(psum, axis_name="i"), axis_name="j"), (XS,), {}),
    "one after the other": (
        lambda: lambda x: ptk.vmap(psum, axis_name="i")(ptk.vmap(psum, axis_name="i")(x)),
        (XS,), {},
    ),
    "a size of numpy": (lambda: ptk.vmap(jax.lax.neg, axis_size=np.int64(3)), (XS,), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound_calls_are_not_warned_of(name):
    make, args, kwargs = SOUND[name]
    assert not codes(make(), *args, **kwargs)


CONTROLS = sorted(name for name, case in CASES.items() if case.accepts and not case.silent)


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_are_not_warned_of(name):
    setup = CASES[name].build()
    assert not codes(call, setup, ptk.vmap, setup.f)


def test_silent_cases_of_the_corpus_that_are_warned_of():
    found = {}
    for name in sorted(set(CASES) - set(CONTROLS) - APART):
        case = CASES[name]
        if case.accepts:
            setup = case.build()
            found[name] = codes(call, setup, ptk.vmap, setup.f)
    assert {name: its for name, its in found.items() if its} == {
        "axis-name-shadowed": ["PTK904"],
        "axis-negative-mixed-rank": ["PTK903"],
        "axis-size-float-agrees": ["PTK905"],
        "kwargs-ignore-in-axes-one": ["PTK901"],
    }


# ---- suspicions ---------------------------------------------------------------------------------


KEY = jax.random.key(0)
SUSPICIOUS = {
    "shared labels": (ptk.vmap(lambda x, y: x, (0, None)), (XS, XS[:, 0]), [("PTK951", "y")]),
    "in a tree": (
        ptk.vmap(lambda t: t, ({"x": 0, ...: None},)), ({"x": XS, "y": XS, "z": XS.T, "n": 3.0},),
        [("PTK951", "t['y']")],
    ),
    "one key": (ptk.vmap(lambda x, key: x, (0, None)), (XS, KEY), [("PTK952", "key")]),
    "one raw key": (ptk.vmap(lambda x, k: x, (1, None)), (XS, raw_keys(1)[0]), [("PTK952", "k")]),
    "a batch of one": (ptk.vmap(lambda x: x), (XS[:1],), [("PTK953", "")]),
    "an empty batch": (ptk.vmap(lambda x: x), (XS[:0],), [("PTK953", "")]),
    "by function": (ptk.vmap(lambda x, y: x, (0, lambda leaf: None)), (XS, XS), [("PTK951", "y")]),
    "by chance": (ptk.vmap(jnp.dot, (None, 0)), (SQUARE, SQUARE), [("PTK951", "a")]),
    "none": (ptk.vmap(lambda x, y: x, (0, None)), (XS, jnp.ones((2, 3))), []),
    "a scalar": (ptk.vmap(lambda x, y: x, (0, None)), (XS, 3), []),
    "a split key": (ptk.vmap(lambda x, key: x, (0, ptk.SPLIT)), (XS, KEY), []),
}  # fmt: skip


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_suspicions_are_told_by_the_plan_alone(name):
    mapped, args, expected = SUSPICIOUS[name]
    plan = mapped.plan(*args)
    assert [(fault.code, fault.place) for fault in plan.suspicions] == expected
    assert mapped.plan(*args, outputs=True).suspicions == plan.suspicions
    assert mapped.check(*args) == ()
    assert not codes(mapped, *args)
    abstract = jax.tree.map(lambda leaf: jax.eval_shape(lambda: leaf), args)
    assert [fault.code for fault in mapped.plan(*abstract).suspicions] == [c for c, _ in expected]


# ---- the outputs of a plan ----------------------------------------------------------------------


def test_a_plan_with_outputs():
    def fun(x, w):
        return {"a": x @ w, "b": (w.sum(), 3), "c": x, "d": None}

    out_axes = {"a": 0, "b": (None, 0), "c": -1, "d": 0}
    for options in ({}, {"chunk_size": 2}, {"checks": True}):
        mapped = ptk.vmap(fun, {"x": 1, ...: None}, out_axes, **options)
        given = jax.ShapeDtypeStruct((4, 3), jnp.float32), jnp.ones(4)
        plan = mapped.plan(*given, outputs=True)
        assert [(o.path, o.example, o.varies, o.axis, o.found) for o in plan.outputs] == [
            ("['a']", "f32[]", True, 0, "f32[3]"),
            ("['b'][0]", "f32[]", False, None, "f32[]"),
            ("['b'][1]", plan.outputs[2].example, False, 0, plan.outputs[2].found),
            ("['c']", "f32[4]", True, 1, "f32[4,3]"),
        ]
        real = mapped(jnp.ones((4, 3)), given[1])
        assert real["c"].shape == (4, 3)
        assert plan.outputs[3].spec_path == "out_axes['c'] = -1"
        assert mapped.plan(*given).outputs is None
        assert "out['c']" in str(plan)


def test_a_plan_refuses_outputs_that_do_not_fit_before_anything_runs():
    mapped = ptk.vmap(lambda x: {"a": x, "b": "text"}, out_axes={"a": None, "b": 0})
    with pytest.raises(ptk.SpecError) as caught:
        mapped.plan(jax.ShapeDtypeStruct((3, 2), jnp.float32), outputs=True)
    assert [(f.code, f.place) for f in caught.value.faults] == [
        ("PTK108", "out['a']"), ("PTK108", "out['b']"),
    ]  # fmt: skip
    with pytest.raises(ZeroDivisionError):
        ptk.vmap(lambda x: 1 // 0).plan(XS, outputs=True)


# ---- the same, by name --------------------------------------------------------------------------


def same_sign(result):
    return bool((result == 0).all())


# The axes that were meant, and what shows that the result is what was meant.
MEANT = {
    "axis-parenthesised-int": ({"x": 0, "w": None}, lambda r: r.shape == (3, 3)),
    "kwargs-ignore-in-axes-one": ({...: 1}, same_sign),
    "kwargs-shared-weight-mapped": ({"x": 0, "w": None}, lambda r: r.shape == (3, 3)),
    "axis-negative-mixed-rank": (
        {"batch": {"x": -1, ...: None}}, lambda r: r.shape == (4, 4),
    ),
    "none-instead-of-zero-labels": ({"x": 0, "y": 0}, lambda r: r.shape == (3,)),
    "none-prefix-over-batch-dict": ({"batch": {...: 0}}, lambda r: r.shape == (3,)),
    "tree-map-over-axes-drops-none": ({...: 0}, lambda r: r.shape == (3, 3)),
    "raw-key-under-none-same-noise": (
        {"x": 0, "key": ptk.SPLIT}, lambda r: not bool((r == r[0]).all()),
    ),
    "key-inside-state-under-none": (
        {"x": 0, "state": {"rng": ptk.SPLIT, ...: None}}, lambda r: not bool((r == r[0]).all()),
    ),
    "ensemble-init-same-key": (
        {"key": ptk.SPLIT}, lambda r: r.shape == (4, 2) and len(np.unique(r, axis=0)) == 4,
    ),
    "unflatten-insertion-order": (
        {"params": {"w": 0, "b": None}, "x": 0},
        lambda r: r.shape == (3, 3) and bool((r[:, 1] == 4).all()),
    ),
    "namedtuple-fields-swapped": ({"pt": Point(p=0, q=None)}, lambda r: r.shape == (3, 3)),
    "per-example-grad-params-mapped": (
        {"params": None, "x": 0}, lambda r: r["w"].shape == (3, 3, 2),
    ),
}  # fmt: skip
# Silent faults of in_axes that no other in_axes can mend: what is no array cannot be mapped, and
# a count stays shared by out_axes. The state of an optimizer has a test of its own below.
NOT_BY_AXES = {
    "numpy-string-array-under-none", "plain-dataclass-under-none", "opt-state-shared",
    "opt-count-broadcast-out",
}  # fmt: skip
# The fault lies elsewhere: in out_axes, in the nesting, in axis_size, in the data or the function.
ELSEWHERE = {
    "all-none-with-axis-size", "aux-array-not-mapped", "axis-name-shadowed",
    "axis-size-float-agrees", "batch-of-zero", "default-array-not-mapped",
    "nested-cube-axis-shift", "nested-inner-kwargs", "nested-order-transposed",
    "out-axes-negative-mixed", "out-axes-one-transposes", "spmd-name-no-mesh",
}  # fmt: skip


def test_every_silent_case_is_placed():
    silent = {name for name, case in CASES.items() if case.silent} - APART
    assert silent == set(MEANT) | NOT_BY_AXES | ELSEWHERE


@pytest.mark.parametrize("name", MEANT)
def test_by_name_the_intended_axes_give_the_intended_result(name):
    setup = CASES[name].build()
    in_axes, is_meant = MEANT[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ptk.SpecWarning)
        wrong = call(setup, ptk.vmap, setup.f)
    assert setup.verify(wrong)
    assert not is_meant(wrong)
    setup.in_axes = in_axes
    assert is_meant(call(setup, ptk.vmap, setup.f))


def test_by_name_an_optimizer_state_is_mapped_whole():
    """The case opt-state-shared: the moments have a batch, the one count is shared."""
    opt = optax.adam(1e-2)
    grads = {"w": jnp.ones((3, 2))}
    state = jax.vmap(opt.init)(grads)

    def update(grads, opt_state):
        return opt.update(grads, opt_state)

    updates, new = ptk.vmap(update, {...: 0})(grads, state)
    assert updates["w"].shape == new[0].mu["w"].shape == (3, 2)
    again = ptk.vmap(update, {...: 0})(grads, new)[1]
    assert again[0].mu["w"].shape == (3, 2)
    assert again[0].count.tolist() == [2, 2, 2]
