"""ptk.pmap: as jax.pmap, and where it goes beyond it.

PYTREEKIT_EXAMPLES sets how many calls are drawn.
"""

from __future__ import annotations

import enum
import functools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

from .quick import STUCK, ending

ROOT = Path(__file__).parents[1]
XS = jnp.arange(24.0).reshape(8, 3)


def outcome(pmap: Callable[..., Any], fun: Any, args: Any, kwargs: Any, **options: Any) -> Any:
    try:
        with ending():
            out = pmap(fun, **options)(*args, **kwargs)
            return jax.tree.map(np.asarray, out)
    except Exception as error:
        return error


@st.composite
def arguments(draw: Any, size: int) -> tuple[Any, Any]:
    """An argument and its axes."""
    rank = draw(st.integers(0, 2))
    axis = draw(st.sampled_from((None, *range(rank + 1))))
    shape = [2] * rank
    if axis is not None:
        shape.insert(axis, size if draw(st.integers(0, 15)) else size + 1)
    leaf = jnp.arange(float(np.prod(shape))).reshape(shape)
    if draw(st.booleans()):
        return leaf, axis
    return {"a": leaf, "b": (leaf, None)}, axis if draw(st.booleans()) else {"a": axis, "b": axis}


@st.composite
def calls(draw: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A function, arguments and options, of which most fit."""
    size = draw(st.sampled_from((1, 2, 4, 8)))
    rows = [draw(arguments(size)) for _ in range(draw(st.integers(1, 3)))]
    axes = (*(row[1] for row in rows), *[0] * draw(st.sampled_from((0, 0, 0, 0, 0, 1))))
    options: dict[str, Any] = {
        "in_axes": draw(st.sampled_from((*[axes] * 6, 0))),
        "out_axes": draw(st.sampled_from((0, 0, 0, 1, None, (0, None), [0]))),
        "axis_name": draw(st.sampled_from((None, "i"))),
    }
    kwargs = draw(st.sampled_from(({}, {}, {}, {"key": jnp.arange(float(size))})))
    static = draw(st.sampled_from((*[None] * 5, 0, 1, 3)))
    options |= {} if static is None else {"static_broadcasted_argnums": static}

    def fun(*its: Any, **more: Any) -> Any:
        total = sum(leaf.sum() for leaf in jax.tree.leaves((its, more)) if hasattr(leaf, "sum"))
        if options["axis_name"]:
            total = jax.lax.psum(total, "i")
        return total, (its[0]["a"] if isinstance(its[0], dict) else its[0])

    return fun, tuple(row[0] for row in rows), kwargs, options


@settings(max_examples=int(os.environ.get("PYTREEKIT_EXAMPLES", "50")))
@given(calls())
def test_takes_what_jax_takes(call: Any) -> None:
    fun, args, kwargs, options = call
    theirs = outcome(jax.pmap, fun, args, kwargs, **options)
    ours = outcome(ptk.pmap, fun, args, kwargs, **options)
    if isinstance(ours, ptk.SpecError):
        drops = [its.code for its in ours.faults] and "varies over" in ours.faults[0].title
        assert isinstance(theirs, Exception) or drops
    elif not isinstance(theirs, Exception):
        assert not isinstance(ours, Exception), ours
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_devices_that_wait_for_ever_end_the_run() -> None:
    work = "import time; from tests.quick import ending\nwith ending(0.1): time.sleep(60)"
    run = subprocess.run(
        [sys.executable, "-c", work], cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=50,
        check=False,
    )  # fmt: skip
    assert run.returncode == STUCK
    assert "stuck for 0.1 seconds" in run.stderr


def test_beyond_jax_it_takes_what_vmap_takes() -> None:
    x = jnp.arange(6.0).reshape(3, 2)

    def scale(x: Any, by: Any, how: Any) -> Any:
        return x * by if how == "times" else x / by

    for in_axes in ([-1, None, None], {"x": -1, ...: None}, (1, None, ptk.if_array(0))):
        mapped = ptk.pmap(scale, in_axes=in_axes, out_axes=-1)
        assert mapped(x, 2.0, "times").tolist() == (x * 2).tolist()
        assert mapped(x, 2.0, "over").tolist() == (x / 2).tolist()
    split = ptk.pmap(lambda key, x: jax.random.normal(key) + x, in_axes=(ptk.SPLIT, 0))
    alike = ptk.vmap(lambda key, x: jax.random.normal(key) + x, in_axes=(ptk.SPLIT, 0))
    key = jax.random.key(0)
    np.testing.assert_allclose(split(key, jnp.zeros(4)), alike(key, jnp.zeros(4)))


def test_a_value_of_one_device_is_not_kept_in_silence() -> None:
    out_axes = {"mean": None, "x": -1}

    def step(x: Any) -> Any:
        return {"mean": jax.lax.pmean(x, "i").sum(), "x": x}

    out = ptk.pmap(step, "i", out_axes=out_axes)(XS)
    assert out["x"].tolist() == XS.T.tolist()
    assert float(out["mean"]) == float(XS.mean(0).sum())
    with pytest.raises(ptk.SpecError, match=r"out\['mean'\].*varies over the mapped axis"):
        ptk.pmap(lambda x: {"mean": x.sum(), "x": x}, "i", out_axes=out_axes)(XS)


def test_faults_of_devices() -> None:
    double = ptk.pmap(lambda x: x * 2)
    faults = double.check(jnp.ones((24, 2)))
    assert [fault.code for fault in faults] == ["PTK506"]
    assert "24 examples over 8 devices" in faults[0].fact
    assert "reshape 24 to (8, 3), and map the 3 by ptk.vmap inside" in faults[0].hint
    inside = ptk.pmap(ptk.vmap(lambda x: x * 2))
    assert inside(jnp.ones((24, 2)).reshape(8, 3, 2)).shape == (8, 3, 2)
    assert "pad them to 16" in double.check(jnp.ones(9))[0].note
    assert [its.code for its in double.check(jnp.ones(0))] == ["PTK506"]
    two = ptk.pmap(lambda x: x * 2, devices=jax.devices()[:2])
    assert [its.code for its in two.check(jnp.ones(4))] == ["PTK506"]
    assert len(two(jnp.ones(2)).sharding.device_set) == 2
    with pytest.raises(ptk.SpecError, match="PTK103"):
        ptk.pmap(lambda x: x, in_axes=None, axis_size=4)(2.0)
    with pytest.raises(ptk.SpecError, match="PTK501"):
        ptk.pmap(double)(jnp.ones((2, 2)))


def test_static_and_donated_arguments() -> None:
    seen = []

    def power(x: Any, by: Any, n: int) -> Any:
        seen.append(n)
        return x**n * by

    for place in (2, -1):
        mapped = ptk.pmap(power, in_axes=(0, None), static_broadcasted_argnums=place)
        assert mapped(XS, 2.0, 2).tolist() == (XS**2 * 2).tolist()
        assert mapped(XS, 2.0, 3).tolist() == (XS**3 * 2).tolist()
        assert mapped(XS + 1, 2.0, 2).tolist() == ((XS + 1) ** 2 * 2).tolist()
    assert seen == [2, 3, 2, 3]
    with pytest.raises(ptk.SpecError, match=r"PTK507.*there is no argument 2"):
        ptk.pmap(power, static_broadcasted_argnums=2)(XS, 2.0)
    with pytest.raises(ptk.SpecError, match=r"PTK507.*must be hashable, a list"):
        ptk.pmap(power, static_broadcasted_argnums=2)(XS, XS, [2])
    with pytest.raises(ptk.SpecError, match="cannot be donated"):
        ptk.pmap(power, static_broadcasted_argnums=2, donate_argnums=(0, 2))
    x = jax.device_put(XS, ptk.pmap(lambda x: x)(XS).sharding)
    ptk.pmap(lambda x, y: x + y, donate_argnums=0)(x, XS)
    assert x.is_deleted()


def test_beside_a_mesh_that_is_set() -> None:
    double = ptk.pmap(lambda x, by: x * by, in_axes=(0, None), out_axes=-1)
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    laid_out = jax.device_put(XS, NamedSharding(mesh, P("data")))
    with jax.set_mesh(mesh):
        assert double(XS, 2).tolist() == (XS.T * 2).tolist()
        assert jax.jit(double)(XS, 2).tolist() == (XS.T * 2).tolist()
        whole = jax.device_put(3.0, NamedSharding(mesh, P()))
        assert double(laid_out, whole).tolist() == (XS.T * 3).tolist()


def test_composes() -> None:
    loss = ptk.pmap(lambda w, x: (w * x).sum(), in_axes=(None, 0))
    assert jax.grad(lambda w: loss(w, XS).sum())(2.0) == XS.sum()
    inner = ptk.pmap(ptk.vmap(lambda x: x * 2))
    assert inner(XS).tolist() == (XS * 2).tolist()
    assert jax.jit(inner)(XS).tolist() == (XS * 2).tolist()
    assert "stablehlo" in loss.lower(2.0, XS).as_text()
    assert "pmap(<lambda>) over 8" in str(loss.plan(2.0, XS))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_it_works_where_another_mesh_is_set(kind: AxisType) -> None:
    mesh = jax.make_mesh((8,), ("data",), axis_types=(kind,))

    def double(x: Any) -> Any:
        return 2 * x

    with jax.set_mesh(mesh):
        there = jax.device_put(XS, NamedSharding(mesh, P("data")))
        fewer = ptk.pmap(double)(XS[:2])
        chosen = ptk.pmap(double, devices=jax.devices()[2:4])(XS[:2])
        of_there = ptk.pmap(double)(there)
        ptk.pmap(double).lower(XS)
        noise = ptk.pmap(lambda key, x: x + jax.random.bits(key), in_axes=(ptk.SPLIT, 0))
        with_keys = noise(jax.random.key(0), XS)
        raw_keys = noise(jax.random.PRNGKey(0), there)
        assert jax.sharding.get_abstract_mesh() == mesh.abstract_mesh
    assert fewer.tolist() == chosen.tolist() == (2 * XS[:2]).tolist()
    assert of_there.tolist() == (2 * XS).tolist()
    assert len({row[0] - x[0] for row, x in zip(with_keys.tolist(), XS.tolist(), strict=True)}) == 8
    assert raw_keys.tolist() == with_keys.tolist()


def test_a_call_is_refused_before_the_function_whatever_out_axes_says() -> None:
    entered = []

    def total(x: Any) -> Any:
        entered.append(x)
        return x.sum()

    with pytest.raises(ptk.SpecError, match="PTK506"):
        ptk.pmap(total, out_axes=None)(jnp.ones((16, 3)))
    elsewhere = jax.device_put(XS, jax.devices()[3])
    with pytest.raises(ptk.SpecError, match="PTK108"):
        ptk.pmap(lambda x: 1.5, out_axes=1)(elsewhere)


class Way(enum.StrEnum):
    DOUBLE = "double"


def test_what_is_static_is_told_by_type_and_value() -> None:
    def times(x: Any, how: Any) -> Any:
        return x * (2 if isinstance(how, Way) else 1)

    mapped = ptk.pmap(times, in_axes=(0, None))
    assert mapped(XS, "double").tolist() == XS.tolist()
    assert mapped(XS, Way.DOUBLE).tolist() == (2 * XS).tolist()


def test_keywords_are_not_donated() -> None:
    a, b = (jax.pmap(lambda x, by=by: x + by)(XS) for by in (1, 2))
    ptk.pmap(lambda x, y: (x + 1, y + 1), donate_argnums=1)(a, y=b)
    assert not b.is_deleted()


@pytest.mark.parametrize(
    "options", [{"devices": 3}, {"devices": "cpu"}, {"axis_size": -1}], ids=str
)
def test_options_of_a_wrong_kind_are_told_on_wrapping(options: Any) -> None:
    with pytest.raises(ptk.SpecError, match=f"PTK001.*{next(iter(options))}"):
        ptk.pmap(lambda x: x, **options)


class Model:
    def __init__(self) -> None:
        self.w = 3.0

    @functools.partial(ptk.pmap, in_axes=(None, 0))
    def apply(self, x: Any) -> Any:
        return self.w * x


def test_methods_and_pickles() -> None:
    model = Model()
    assert model.apply(XS).tolist() == (XS * 3).tolist()
    again = pickle.loads(pickle.dumps(Model.apply))
    assert again is Model.apply
