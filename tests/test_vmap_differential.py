"""ptk.vmap against jax.vmap on random calls: the same verdict, the same jaxpr, the same values.

PYTREEKIT_EXAMPLES sets how many calls are drawn by all tests together (500 unless set).
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pytreekit as ptk

from .strategies import NUMERIC, Call, Style, calls
from .vmap_nodes import is_array
from .vmap_outcome import Log, Outcome, function, split, trace, trace_in_turn

# Whether a warning comes is tested elsewhere; here only that it changes nothing.
pytestmark = pytest.mark.filterwarnings("ignore::pytreekit.SpecWarning")

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "500"))


def search(style: Style, share: float, check: Callable[[Call, bool], str]) -> dict[str, float]:
    """Runs `check` on its share of the examples; returns how often it gave each answer."""
    tally: collections.Counter[str] = collections.Counter()

    @settings(max_examples=max(10, int(EXAMPLES * share)), suppress_health_check=list(HealthCheck))
    @given(calls(style), st.booleans())
    def run(call: Call, as_inputs: bool) -> None:
        tally[check(call, as_inputs)] += 1

    run()
    return {answer: count / tally.total() for answer, count in tally.items()}


# ---- verdicts -----------------------------------------------------------------------------------


def is_odd(size: Any) -> bool:
    """Whether JAX would first trip over this axis_size somewhere inside or behind the function."""
    return size is not None and (type(size) is not int or size < 0)


def wrap(call: Call, log: Log) -> Any:
    return ptk.vmap(function(call, [log]), **call.options)


def is_size_refused(error: BaseException | None) -> bool:
    """Whether an axis_size was refused for what it is.

    Where nothing is mapped, JAX's verdict on such a size hangs on its caches and on the outputs;
    ptk.vmap always refuses it.
    """
    faults = getattr(error, "faults", ())
    return bool(faults) and all(fault.spec_path == "axis_size" for fault in faults)


def check_accepted(call: Call, ours: Outcome, theirs: Outcome) -> None:
    if is_odd(call.axis_size) and is_size_refused(ours.error):
        return
    assert ours.error is None, f"jax accepts, but: {ours.error}"
    assert ours.jaxpr == theirs.jaxpr
    assert jax.tree.structure(ours.shapes) == jax.tree.structure(theirs.shapes)
    assert jax.tree.leaves(ours.shapes) == jax.tree.leaves(theirs.shapes)
    assert ours.log == theirs.log  # fun was run once, on the same leaves in the same tree

    log = Log()
    wrapped = wrap(call, log)
    assert wrapped.check(*call.args, **call.kwargs) == ()
    plan = wrapped.plan(*call.args, **call.kwargs)
    if theirs.log.axis_size is not None and not is_odd(call.axis_size):
        assert plan.axis_size == theirs.log.axis_size
    assert not log.entered


def check_readable(error: ptk.SpecError) -> None:
    assert error.faults
    assert all(isinstance(fault, ptk.Fault) for fault in error.faults)
    text = str(error)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88, text


def check_repaired(call: Call, stage: str, error: ptk.SpecError) -> None:
    """A repaired spec is one that JAX takes; on wrapping it can only be known to wrap."""
    if error.repaired is None:
        return
    is_output = error.faults[0].spec_path.startswith("out_axes")
    if type(error.repaired) is dict and not is_output:
        return  # by name, which JAX does not know
    if stage == "wrap":
        jax.vmap(len, **{"out_axes" if is_output else "in_axes": error.repaired})
    elif is_output:
        repaired = trace(
            jax.vmap, dataclasses.replace(call, out_axes=error.repaired), as_inputs=False
        )
        assert repaired.accepted, (error, error.repaired, repaired.error)
    else:
        mended = dataclasses.replace(call, in_axes=error.repaired, out_axes=0)
        outcome = trace(jax.vmap, mended, as_inputs=False)
        assert outcome.stage not in ("wrap", "before"), (error, error.repaired, outcome.error)


def check_rejected(call: Call, ours: Outcome, theirs: Outcome) -> None:
    if theirs.stage in ("inside", "after") and is_odd(call.axis_size):
        return  # JAX finds out where the size is used, if no cached trace hides it
    assert ours.error is not None, f"accepted, but jax: {theirs.error!r}"
    assert type(ours.error) is ptk.SpecError, repr(ours.error)
    assert ours.stage == theirs.stage != "inside"
    check_readable(ours.error)
    check_repaired(call, ours.stage, ours.error)
    if theirs.stage == "wrap":
        return
    wrapped = wrap(call, Log())
    faults = wrapped.check(*call.args, **call.kwargs)
    assert bool(faults) == (theirs.stage == "before")
    if faults:
        with pytest.raises(ptk.SpecError) as caught:
            wrapped.plan(*call.args, **call.kwargs)
        assert caught.value.faults == faults == ours.error.faults
    else:
        wrapped.plan(*call.args, **call.kwargs)


def compare(call: Call, as_inputs: bool) -> str:
    if type(call.in_axes) is dict:
        return "by name"  # which JAX refuses
    theirs = trace(jax.vmap, call, as_inputs=as_inputs)
    ours = trace(ptk.vmap, call, as_inputs=as_inputs)
    if theirs.accepted:
        check_accepted(call, ours, theirs)
        return "accepted"
    check_rejected(call, ours, theirs)
    return "rejected"


VERDICTS = {
    "anything": (Style(), 0.3),
    "in_axes": (Style(damage=("in_axes",), faults=(0, 1, 1, 2)), 0.25),
    "out_axes": (Style(damage=("out_axes",), faults=(0, 1, 1, 2)), 0.15),
    "arguments": (Style(damage=("argument", "axis_size"), faults=(0, 1, 1, 2)), 0.15),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_accepts_what_jax_accepts_and_nothing_else(name):
    tally = search(*VERDICTS[name], compare)
    # a test of verdicts proves little where nearly all of them are the same
    assert min(tally["accepted"], tally["rejected"]) > 0.1, tally


def compare_in_turn(call: Call, as_inputs: bool) -> str:
    """Good and bad calls of one mapped function, in turn: none may leave anything behind."""
    good = dataclasses.replace(call, args=call.sound_args)
    turns = [good, call, good, call]
    theirs = trace_in_turn(jax.vmap, turns, as_inputs=as_inputs)
    ours = trace_in_turn(ptk.vmap, turns, as_inputs=as_inputs)
    for our, their in zip(ours, theirs, strict=True):
        assert our.accepted == their.accepted, (our.error, their.error)
        assert our.jaxpr == their.jaxpr
        assert our.log == their.log
        assert our.accepted or type(our.error) is ptk.SpecError
    assert str(ours[1].error) == str(ours[3].error)
    return "rejected" if theirs[0].accepted and not theirs[1].accepted else "accepted"


def test_calls_of_one_mapped_function_in_turn():
    tally = search(Style(damage=("argument",), faults=(1,)), 0.05, compare_in_turn)
    assert min(tally["accepted"], tally["rejected"]) > 0.1, tally


# ---- values -------------------------------------------------------------------------------------

EAGER = Style(kinds=(*NUMERIC, "key"), faults=(0,))
FLOATS = Style(
    kinds=("jnp float32", "np float32", "jnp float32", "jnp int32"), weird=False, faults=(0,)
)


def assert_same(ours: Any, theirs: Any) -> None:
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        if jnp.issubdtype(jnp.result_type(one), jax.dtypes.prng_key):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(*map(jax.random.key_data, (one, other)), strict=True)
        else:
            np.testing.assert_array_equal(one, other, strict=True)


def compare_eagerly(call: Call, as_inputs: bool) -> str:
    del as_inputs
    try:
        theirs = jax.vmap(function(call, [Log()]), **call.options)(*call.args, **call.kwargs)
    except TypeError:  # the function returned text
        return "rejected"
    assert_same(wrap(call, Log())(*call.args, **call.kwargs), theirs)
    return "accepted"


def test_eager_values():
    assert search(EAGER, 0.08, compare_eagerly)["accepted"] > 0.6


def is_float(leaf: Any) -> bool:
    return is_array(leaf) and leaf.dtype == np.float32


def compare_transformed(call: Call, as_inputs: bool) -> str:
    floats, join = split(call, is_float if as_inputs else is_array)

    def loss(vmap: Callable[..., Any]) -> Callable[[list[Any]], Any]:
        wrapped = vmap(function(call, [Log()]), **call.options)

        def total(arrays: list[Any]) -> tuple[Any, Any]:
            args, kwargs = join(arrays)
            out = wrapped(*args, **kwargs)
            parts = [jnp.sum(leaf) for leaf in jax.tree.leaves(out) if is_float(leaf)]
            return sum(parts, start=jnp.float32(0)), out

        return jax.jit(jax.value_and_grad(total, has_aux=True) if as_inputs else total)

    try:
        theirs = loss(jax.vmap)(floats)
    except TypeError:  # the function returned text
        return "rejected"
    assert_same(loss(ptk.vmap)(floats), theirs)
    return "gradients" if as_inputs and floats else "values"


def test_values_and_gradients_under_jit():
    tally = search(FLOATS, 0.02, compare_transformed)
    assert tally["gradients"] > 0.05, tally
