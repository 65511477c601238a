"""Specs beside JAX and flax: what is accepted, what is refused, and what logical names become."""

from __future__ import annotations

import math
import os
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import pytreekit as ptk

EXAMPLES = int(os.environ.get("PYTREEKIT_EXAMPLES", "0"))


def mesh_of(**sizes: int) -> Mesh:
    devices = np.array(jax.devices()[: math.prod(sizes.values())])
    return Mesh(devices.reshape(tuple(sizes.values())), tuple(sizes))


MESHES = [mesh_of(a=2, b=4), mesh_of(a=2, b=2, c=2), mesh_of(a=8, b=1), mesh_of(a=3), mesh_of(a=1)]

NAMES = st.sampled_from(["a", "b", "c", "b "])
ENTRIES = st.none() | NAMES | st.lists(NAMES, max_size=3).map(tuple)
SPECS = st.lists(ENTRIES, max_size=3).map(lambda entries: P(*entries))
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 24]), max_size=3).map(tuple)


def put(array: Any, mesh: Mesh, spec: P) -> P | None:
    """What `jax.device_put` makes of a spec, None where it refuses it."""
    try:
        return jax.device_put(array, NamedSharding(mesh, spec)).sharding.spec
    except Exception:  # of several kinds, not all of them public
        return None


def cut(spec: P) -> tuple[Any, ...]:
    """A spec in normal form."""
    entries = [part[0] if isinstance(part, tuple) and len(part) == 1 else part for part in spec]
    entries = [None if part == () else part for part in entries]
    while entries and entries[-1] is None:
        entries.pop()
    return tuple(entries)


def assigned(*args: Any, **options: Any) -> tuple[Any, tuple[ptk.Fault, ...]]:
    """The specs, or the faults."""
    try:
        return ptk.partition_specs(*args, **options), ()
    except ptk.SpecError as error:
        return None, error.faults


@settings(max_examples=EXAMPLES or 150)
@given(st.sampled_from(MESHES), st.lists(st.tuples(SHAPES, SPECS), min_size=1, max_size=3))
def test_specs_are_refused_where_jax_refuses_them(mesh: Mesh, drawn: list[Any]) -> None:
    drawn = [(shape, spec) for shape, spec in drawn if math.prod(shape) != 1]
    arrays = {str(number): np.zeros(shape) for number, (shape, _) in enumerate(drawn)}
    wanted = {str(number): spec for number, (_, spec) in enumerate(drawn)}
    placed = {name: put(array, mesh, wanted[name]) for name, array in arrays.items()}
    specs, faults = assigned(arrays, list(wanted.items()), mesh=mesh)
    refused = {name for name, spec in placed.items() if spec is None}
    assert {fault.path.strip("[']") for fault in faults} == refused
    assert assigned(arrays, wanted, mesh=mesh)[0] == specs
    for name, spec in (specs or {}).items():
        assert tuple(spec) == cut(placed[name])
        sharding = NamedSharding(mesh, wanted[name])
        assert NamedSharding(mesh, spec).is_equivalent_to(sharding, arrays[name].ndim)
    if specs:
        assert ptk.check_shardings(arrays, ptk.named_shardings(mesh, specs)) == ()


X = [np.zeros((8, 4)), np.zeros(6)]
TREE = {"x": X, "y": {"z": np.zeros((4, 3, 2)), "none": None}, "s": 1.0}
FORMS: list[Any] = [
    lambda n: n(),
    lambda n: {"x": n(), "y": n(), "s": n()},
    lambda n: {"x": [n(), n()], "y": {"z": n(), "none": n()}, "s": None},
    lambda n: {"x": [n(), n()], "y": {"z": n(), "none": None}, "s": n()},
    lambda n: {"x": (n(), n()), "y": n(), "s": n()},
    lambda n: {"x": [n()], "y": n(), "s": n()},
    lambda n: {"x": n(), "y": n()},
    lambda n: {"x": n(), "y": {"z": {"w": n()}, "none": None}, "s": n()},
    lambda n: {"x": n(), "y": [n(), n()], "s": n()},
    lambda n: {"x": "a", "y": n(), "s": n()},
    lambda n: {"x": P("a"), "y": n(), "s": n()},
    lambda n: {"x": n(), "y": 0, "s": n()},
]
LIKELY = [P(), P(), P("a"), P("b"), P(None, "a"), P(("a", "b")), P(P.UNCONSTRAINED), P(None, None)]


@settings(max_examples=EXAMPLES or 150)
@given(st.sampled_from(MESHES[:2]), st.sampled_from(FORMS), st.data())
def test_shardings_are_refused_where_jax_refuses_them(mesh: Mesh, form: Any, data: Any) -> None:
    shardings = form(lambda: NamedSharding(mesh, data.draw(st.sampled_from(LIKELY))))
    faults = ptk.check_shardings(TREE, shardings)
    try:
        jax.device_put(TREE, shardings)
    except Exception:  # of several kinds, not all of them public
        assert faults
    else:
        assert faults == ()


LOGICAL = st.sampled_from(["embed", "mlp", "heads", "batch"])
AXES = st.none() | st.sampled_from(["a", "b", "c"]) | st.sampled_from([("a", "b"), ("b", "c"), ()])


@settings(max_examples=EXAMPLES or 150)
@given(
    st.lists(st.tuples(LOGICAL, AXES), min_size=1, max_size=8),
    st.lists(st.none() | LOGICAL, max_size=4, unique=True),
)
def test_logical_names_are_those_of_flax(table: list[Any], names: list[Any]) -> None:
    mesh = {"a": 2, "b": 2, "c": 2}
    theirs = nn.logical_to_mesh_axes(names, table)
    array = jax.ShapeDtypeStruct((8,) * len(names), "float32")
    specs, faults = assigned(array, [("**", P(*names))], mesh=mesh, axes=table)
    known = {name for name, _ in table}
    may_be_whole = {name for name, axes in table if not axes}
    left = [
        name
        for name, axis in zip(names, theirs, strict=True)
        if name is not None and not axis and name not in may_be_whole
    ]
    assert len(faults) == len(left)
    assert {fault.code for fault in faults} <= {"PTK307"}
    for name, fault in zip(
        left, sorted(faults, key=lambda its: left.index(_name(its))), strict=True
    ):
        assert repr(name) in fault.fact
        assert ("gets no mesh axis" in fault.fact) == (name in known)
    if not left:
        assert tuple(specs) == cut(theirs)


def _name(fault: ptk.Fault) -> str:
    return fault.fact.split("'")[1]


WORDS = st.sampled_from(["a", "b", "c", "embed", "mlp", "heads", "batch", "zzz"])
CHOICES = st.lists(WORDS | WORDS.map("{}?".format), min_size=1, max_size=2).map("+".join)
TOKENS = st.just("_") | st.lists(CHOICES | st.just("_"), min_size=1, max_size=3).map("|".join)
TEXTS = st.lists(TOKENS | st.just("..."), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=EXAMPLES or 150)
@given(
    st.lists(st.tuples(SHAPES, TEXTS), min_size=1, max_size=3),
    st.none() | st.lists(st.tuples(LOGICAL, AXES), max_size=6),
    st.sampled_from(["error", "replicate", {"a": "replicate"}]),
    st.sampled_from(["error", "drop"]),
    st.sampled_from([None, {"**": ()}, {"0": 0}]),
)
def test_whatever_text_says_the_specs_hold(
    drawn: list[Any], table: Any, indivisible: Any, missing: str, stack: Any
) -> None:
    mesh = {"a": 2, "b": 2, "c": 2}
    arrays = {str(n): jax.ShapeDtypeStruct(shape, "float32") for n, (shape, _) in enumerate(drawn)}
    if stack == {"0": 0} and not drawn[0][0]:
        return
    rules = [(str(number), text) for number, (_, text) in enumerate(drawn)]
    its = {"on_indivisible": indivisible, "missing_axes": missing, "stack": stack}
    specs, faults = assigned(arrays, rules, mesh=mesh, axes=table, **its)
    codes = {fault.code for fault in faults}
    assert codes <= {"PTK301", "PTK302", "PTK303", "PTK304", "PTK306", "PTK307"}
    assert not (indivisible == "replicate" and "PTK303" in codes)
    if specs is not None:
        assert ptk.check_shardings(arrays, specs, mesh=mesh) == ()
        assert all(tuple(spec) == cut(spec) for spec in specs.values())
        if stack == {"0": 0}:
            assert not specs["0"] or specs["0"][0] is None
        again = ptk.partition_plan(arrays, specs, mesh=mesh)
        assert again.specs == specs
