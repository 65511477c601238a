"""ptk.suggest_chunk_size: what it suggests fits, and the next larger one would not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import pytreekit as ptk
from pytreekit.batching.memory import temporaries

XS = jax.ShapeDtypeStruct((1000, 32), jnp.float32)


@ptk.vmap(in_axes={"x": 0, ...: None})
def outer(x, scale=1.0, name="f"):
    return jnp.sin(jnp.outer(x, x) * scale) @ x if name == "f" else x


def taken(chunk, *args, **kwargs):
    return temporaries(outer, chunk, args, kwargs)


@pytest.mark.parametrize("memory", [2**18, 2**20])
def test_the_largest_power_of_two_that_fits(memory):
    size = ptk.suggest_chunk_size(outer, XS, memory=memory)
    assert size & (size - 1) == 0
    assert taken(size, XS) <= memory < taken(2 * size, XS)


def test_the_whole_batch_where_that_fits():
    assert ptk.suggest_chunk_size(outer, XS, memory=2**30) == 1000
    empty = jax.ShapeDtypeStruct((0, 32), jnp.float32)
    assert ptk.suggest_chunk_size(outer, empty, memory=2**30) == 1


def test_arrays_and_static_arguments():
    xs = jnp.ones((64, 32))
    assert ptk.suggest_chunk_size(outer, xs, 2.0, memory=2**30) == 64
    assert ptk.suggest_chunk_size(outer, xs, name="g", memory=1) == 64  # it has no temporaries


def test_the_mapped_function_is_left_as_it_is():
    calls = []

    @ptk.vmap(chunk_size=3)
    def counted(x):
        calls.append(x)
        return jnp.sin(jnp.outer(x, x)) @ x

    ptk.suggest_chunk_size(counted, XS, memory=2**20)
    assert counted.in_chunks(None)(jnp.ones((6, 2))).shape == (6, 2)
    del calls[:]
    counted(jnp.ones((6, 2)))
    assert calls[0].shape == (2,)


@pytest.mark.parametrize(
    ("fun", "memory", "code"),
    [(len, 2**20, "PTK001"), (outer, 0, "PTK001"), (outer, 1.5, "PTK001"), (outer, 16, "PTK111")],
)
def test_what_cannot_be_suggested(fun, memory, code):
    suggest = getattr(ptk.suggest_chunk_size, "__wrapped__", ptk.suggest_chunk_size)
    with pytest.raises(ptk.SpecError) as caught:
        suggest(fun, XS, memory=memory)
    assert [fault.code for fault in caught.value.faults] == [code]


def test_a_faulty_call_is_told_as_it_would_be():
    with pytest.raises(ptk.SpecError, match="PTK101"):
        ptk.suggest_chunk_size(outer, jnp.ones(()), memory=2**20)


class Layer:
    """A class with a mapped method."""

    @ptk.vmap(in_axes={"x": 0})
    def outer(self, x):
        return jnp.sin(jnp.outer(x, x)) @ x


def test_a_mapped_method():
    size = ptk.suggest_chunk_size(Layer().outer, XS, memory=2**20)
    assert 1 <= size < 1000
    assert Layer().outer.in_chunks(size)(jnp.ones((7, 3))).shape == (7, 3)


def test_a_backend_that_does_not_tell_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax.stages.Compiled, "memory_analysis", lambda compiled: None)
    with pytest.raises(ptk.SpecError, match="cpu does not tell what a call takes") as error:
        ptk.suggest_chunk_size(outer, XS, memory=2**20)
    assert [fault.code for fault in error.value.faults] == ["PTK001"]
