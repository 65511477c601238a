"""Losses that take in other examples, or act in an order, are refused by operation and line."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

W, XS = jnp.ones(3), jnp.arange(6.0).reshape(2, 3)
SCALAR = jax.ShapeDtypeStruct((), jnp.float32)


def centred(w, x):
    return w @ (x - lax.pmean(x, "batch"))


def centred_within(w, x):
    return jax.jit(centred)(w, x)


def indexed(w, x):
    return w @ x * lax.axis_index(axis_name="batch")


def told(call, *given):
    with pytest.raises(ptk.SpecError) as raised:
        call(*given)
    [fault] = raised.value.faults
    return fault.code, fault.title, fault.note


@pytest.mark.parametrize("loss", [centred, centred_within, indexed])
@pytest.mark.parametrize("method", ["ghost", "chunked"])
def test_a_collective_over_the_examples(loss, method):
    over = ptk.clipped_grad(loss, 1.0, method=method)
    code, title, note = told(over, W, XS)
    name = "axis_index" if loss is indexed else "pmean"
    line = (loss if loss is indexed else centred).__code__.co_firstlineno + 1
    assert (code, title) == ("PTK408", f"{name} over 'batch' takes in other examples")
    assert note.startswith(f"at test_gradients_apart.py:{line} (")
    assert [fault.code for fault in over.check(W, XS)] == ["PTK408"]
    assert told(over.plan, W, XS)[0] == told(ptk.per_example_norms(loss), W, XS)[0] == "PTK408"


def test_a_name_that_is_none_of_an_axis_is_an_error_of_python():
    with pytest.raises(NameError, match="nowhere"):
        ptk.clipped_grad(lambda w, x: nowhere, 1.0)(W, XS)  # noqa: F821


MESH = jax.make_mesh((2,), ("data",), (AxisType.Auto,), devices=jax.devices()[:2])


def of_each(call, w, given, out=None):
    out = P("data") if out is None else out
    on_each = jax.shard_map(call, mesh=MESH, in_specs=(w, given), out_specs=out)
    return functools.partial(jax.eval_shape, on_each)


@pytest.mark.parametrize("method", ["materialize", "chunked", "ghost"])
def test_a_collective_over_devices_that_have_examples_of_their_own(method):
    """Of statistics as of parameters, whose gradients would be added up before they are clipped."""

    def normed(w, x):
        return jnp.sum(lax.scan(lambda h, _: (h - lax.pmean(h, "data"), None), w * x, length=2)[0])

    def gathered(w, x):
        return lax.all_gather(w, "data").sum() * x.sum()

    def clipped(loss):
        return lambda w, xs: ptk.clipped_grad(loss, 1.0, method=method)(w, xs)[0]

    code, title, note = told(of_each(clipped(normed), P(), P("data")), W, XS)
    assert (code, title) == ("PTK408", "psum over 'data' takes in other examples")
    assert "<lambda>" in note
    title = told(of_each(clipped(gathered), P("data"), P("data")), jnp.ones(2), XS)[1]
    assert title == "all_gather over 'data' takes in other examples"


def test_a_collective_within_an_example_that_is_split_over_devices():
    def split(w, x):
        return lax.psum(w * x.sum(), "data") * lax.axis_size("data")

    def kept_apart(w, x):
        return w * x.sum() * lax.axis_index("data") * lax.axis_size("data")

    by_row = of_each(ptk.per_example_grad(split), P(), P(None, "data"), P())
    assert by_row(1.0, jnp.ones((3, 4))).shape == (3,)
    assert of_each(ptk.per_example_grad(kept_apart), P(), P("data"))(1.0, XS).shape == (2,)


def printed(w, x):
    jax.debug.print("{}", x, ordered=True)
    return w @ x


def called_back(w, x):
    def turn(h, _):
        return h * io_callback(lambda its: its, SCALAR, lax.stop_gradient(h), ordered=True), None

    return lax.scan(turn, w @ x, length=2)[0]


@pytest.mark.parametrize("loss", [printed, called_back])
def test_effects_in_an_order(loss):
    effect = "debug_print" if loss is printed else "io_callback"
    wanted = "PTK409", f"the effects of {effect} cannot be kept in order"
    for method in ("ghost", "two_pass", "chunked"):
        over = ptk.clipped_grad(loss, 1.0, method=method)
        assert told(over, W, XS)[:2] == wanted
        assert told(over.plan, W, XS)[:2] == wanted
        assert [fault.code for fault in over.check(W, XS)] == ["PTK409"]
    assert told(ptk.per_example_norms(loss), W, XS)[:2] == wanted
    if loss is called_back:  # which JAX does not map at all
        assert told(ptk.per_example_grad(loss), W, XS)[:2] == wanted


def test_an_error_of_the_loss_stays_what_it_is():
    def failing(w, x):
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        ptk.per_example_grad(failing)(W, XS)
