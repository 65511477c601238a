"""The corpus: ptk.vmap accepts what jax.vmap accepts, and names what is wrong with the rest."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import pytreekit as ptk

from .vmap_cases import (  # noqa: F401  (importing them fills the corpus)
    CASES,
    Case,
    Facts,
    Setup,
    axes,
    calling,
    leaves,
    nesting,
    nodes,
    outputs,
    sharing,
    sizes,
    structure,
)


@dataclasses.dataclass
class Run:
    """What came of one case: the result or the error, and how far it came."""

    result: Any = None
    error: Exception | None = None
    entered: bool = False

    @property
    def accepted(self) -> bool:
        return self.error is None


def spied(fun: Callable[..., Any], run: Run) -> Callable[..., Any]:
    def inner(*args: Any, **kwargs: Any) -> Any:
        run.entered = True
        return fun(*args, **kwargs)

    return functools.wraps(fun)(inner) if callable(fun) else fun


def call(setup: Setup, vmap: Callable[..., Any], fun: Callable[..., Any]) -> Any:
    """Wraps and calls as the case says."""
    for options in setup.nest:
        fun = vmap(fun, **options)
    names = ("in_axes", "out_axes", "axis_name", "axis_size", "spmd_axis_name")
    mapped = vmap(fun, **{name: getattr(setup, name) for name in names}, **setup.options)
    setup.after_wrap()
    with contextlib.nullcontext() if setup.set_mesh is None else jax.set_mesh(setup.set_mesh):
        return mapped(*setup.args, **setup.kwargs)


def run(case: Case, vmap: Callable[..., Any]) -> Run:
    outcome, setup = Run(), case.build()
    try:
        outcome.result = call(setup, vmap, spied(setup.f, outcome))
    except Exception as error:
        outcome.error = error
    return outcome


def plain(text: str) -> str:
    return re.sub(r"\s+", "", text).lower()


def is_named(number: Any, text: str) -> bool:
    return re.search(rf"(?<![\d.]){re.escape(str(number))}(?!\d)", text) is not None


def has_shape(shape: str, text: str) -> bool:
    dims = plain(shape)
    return dims in plain(text) or f"[{dims.strip('()').rstrip(',')}]" in plain(text)


def missing_facts(facts: Facts, text: str) -> set[str]:
    """The wanted facts that a message does not hold."""
    word = rf"(?<!\w){re.escape(facts.param or '')}(?!\w)"
    held = {
        "param": facts.param is None or re.search(word, text) is not None,
        "path": facts.path is None or plain(facts.path) in plain(text),
        "shape": facts.shape is None or has_shape(facts.shape, text),
        "axis": facts.axis is None
        or re.search(rf"axis\s*:?\s*{re.escape(str(facts.axis))}(?!\d)", text) is not None,
        "sizes": all(is_named(size, text) for size in facts.sizes or ()),
    }
    return {name for name, is_held in held.items() if not is_held}


# sum_match is an option of jax.vmap alone, and we copy in_axes: those two differ on purpose.
APART = {"sum-match-sums-quietly", "in-axes-mutated-after-wrap"}
COMMON = sorted(set(CASES) - APART)
ACCEPTED = [name for name in COMMON if CASES[name].accepts]
REJECTED = [name for name in COMMON if not CASES[name].accepts]
# Calls of a sound spec that JAX rejects only when the function runs, or later.
IN_THE_FUNCTION = {
    "axis-name-tuple",
    "axis-size-float-alone",
    "axis-size-negative",
    "branch-on-mapped-flag",
    "spmd-name-misspelt",
    "spmd-name-used-inside",
}
# JAX takes it once something of the same shape has been compiled.
BY_CACHE = "axis-size-float-alone"
SPEC_FAULTS = [name for name in REJECTED if name not in IN_THE_FUNCTION]


def test_the_corpus_is_whole():
    assert len(CASES) == 122
    assert len(ACCEPTED) + len(REJECTED) + len(APART) == len(CASES)
    assert set(REJECTED) >= IN_THE_FUNCTION
    assert any(CASES[name].silent for name in ACCEPTED)


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts(name):
    case = CASES[name]
    with warnings.catch_warnings():
        if case.silent:  # correct programs must not be warned of
            warnings.simplefilter("ignore", ptk.SpecWarning)
        theirs, ours = run(case, jax.vmap), run(case, ptk.vmap)
    assert theirs.accepted, "the installed jax has changed its mind"
    assert ours.accepted, ours.error
    assert case.build().verify(ours.result)
    jax.tree.map(np.testing.assert_array_equal, ours.result, theirs.result)


@pytest.mark.parametrize("name", REJECTED)
def test_rejects(name):
    case = CASES[name]
    theirs, ours = run(case, jax.vmap), run(case, ptk.vmap)
    assert not theirs.accepted or name == BY_CACHE, "the installed jax has changed its mind"
    assert not ours.accepted
    if name in IN_THE_FUNCTION:
        assert theirs.entered
    else:
        assert type(ours.error) is ptk.SpecError
        assert ours.error.faults
        assert ours.entered == theirs.entered == (name in OUTPUTS)


OUTPUTS = {name for name in SPEC_FAULTS if name.startswith("out-axes")}


@pytest.mark.parametrize("name", SPEC_FAULTS)
def test_names_every_wanted_fact(name):
    text = str(run(CASES[name], ptk.vmap).error)
    assert not missing_facts(CASES[name].facts, text), text


@pytest.mark.parametrize("name", SPEC_FAULTS)
def test_message_is_plain_and_narrow(name):
    text = str(run(CASES[name], ptk.vmap).error)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 88, text


ALL_FACTS = {field.name for field in dataclasses.fields(Facts)}


def test_missing_facts_are_missed():
    facts = Facts(param="x", path="x['w']", shape="(3, 2)", axis=1, sizes=(3, 4))
    assert missing_facts(facts, "axes['w'] has 13, 14 over f32[3,2,1] axis 11") == ALL_FACTS
    assert not missing_facts(facts, "x['w'] f32[3,2] axis 1 has 3, not 4")


def test_the_spec_is_copied_when_the_function_is_wrapped():
    case = CASES["in-axes-mutated-after-wrap"]
    assert run(case, jax.vmap).result.shape == (3, 3, 3)
    assert run(case, ptk.vmap).result.shape == (3, 3)
