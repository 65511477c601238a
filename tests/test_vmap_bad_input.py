"""Arguments and specs that can hardly be meant: the verdicts of jax.vmap, with reasons."""

from __future__ import annotations

import collections
import threading
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

from .vmap_nodes import Keyed, Layer, Plain, Point, Struct

XS = jnp.arange(6.0).reshape(3, 2)


def outcome(vmap, fun, args, **options):
    """The result as (structure, leaves), or None for a rejected call."""
    refusal = ptk.SpecError if vmap is ptk.vmap else Exception
    try:
        leaves, structure = jax.tree.flatten(vmap(fun, **options)(*args))
    except refusal:
        return None
    return structure, [np.asarray(leaf).tolist() for leaf in leaves]


def refused(fun, args, **options):
    """The SpecError of a call that JAX refuses, too; the function is not entered."""
    with pytest.raises(Exception):  # noqa: B017, PT011  (JAX raises of several types)
        jax.vmap(fun, **options)(*args)
    entered = []
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(lambda *args: entered.append(args), **options)(*args)
    assert not entered
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(fun, **options)(*args)
    return caught.value


# ---- static data --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Keyed, Plain])
@pytest.mark.parametrize(
    "statics",
    [
        [{"a": 1}, {"a": 1}, {"a": 2}],
        [[1, 2], [1, 2], [2, 1]],
        [np.arange(3), np.arange(3), np.ones(3)],
        [np.arange(3), {"a": 1}, [1, 2]],
    ],
    ids=["dicts", "lists", "arrays", "mixed"],
)
def test_unhashable_static_data_call_after_call(make, statics):
    seen = []

    def fun(node):
        seen.append(node.label)
        return node.children[0] * 2

    mapped = ptk.vmap(fun)
    for static in [*statics, *statics]:
        np.testing.assert_array_equal(mapped(make((XS,), static)), XS * 2)
        assert seen[-1] is static


def test_unhashable_static_data_with_a_fault_call_after_call():
    mapped = ptk.vmap(lambda node, x: x)
    for static in [np.arange(3), np.arange(3), {"a": 1}, {"a": 1}]:
        with pytest.raises(ptk.SpecError, match="PTK102"):
            mapped(Keyed((XS,), static), jnp.ones(4))


@pytest.mark.parametrize("static", [np.arange(3), {"a": [1]}, threading.Lock()], ids=type)
def test_a_spec_with_awkward_static_data(static):
    args, in_axes = (Keyed((XS, XS), static),), (Keyed((0, None), static),)
    ours, theirs = (
        outcome(vmap, lambda node: node.children[0] + node.children[1].sum(), args, in_axes=in_axes)
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs


@pytest.mark.parametrize(("spec", "value"), [(Layer, Struct), (Struct, Layer)])
def test_two_dataclasses_with_equal_fields_are_two_types(spec, value):
    # jaxlib takes the structures of two registered dataclasses for equal
    error = refused(lambda node: node.p, (value(XS, XS),), in_axes=(spec(0, 0),))
    assert [fault.code for fault in error.faults] == ["PTK202"]


def test_two_dataclasses_with_equal_fields_share_no_plan():
    seen = []
    mapped = ptk.vmap(lambda node: seen.append(type(node)) or node.p)
    for kind in (Layer, Struct, Layer):
        mapped(kind(XS, XS))
    assert seen == [Layer, Struct, Layer]


# ---- leaves -------------------------------------------------------------------------------------


class Grumpy:
    """An object that can be held, and nothing else."""

    __hash__ = None

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("leave me alone")

    __eq__ = __bool__ = __repr__ = __str__ = __len__ = __iter__ = __array__ = _refuse


def test_a_grumpy_object_is_shared():
    grumpy, seen = Grumpy(), []
    out = ptk.vmap(lambda g, x: seen.append(g) or x, in_axes=(None, 0))(grumpy, XS)
    np.testing.assert_array_equal(out, XS)
    assert seen[0] is grumpy


def test_a_grumpy_object_is_not_mapped():
    with pytest.raises(ptk.SpecError, match="Grumpy") as caught:
        ptk.vmap(lambda g, x: x)(Grumpy(), XS)
    assert [(fault.code, fault.argument) for fault in caught.value.faults] == [("PTK104", "g")]


# JAX announces that it will refuse iterators as leaves
iterators_are_leaves = pytest.mark.filterwarnings("ignore:Python iterable type:DeprecationWarning")


@iterators_are_leaves
def test_a_generator_is_shared_unread():
    numbers = (n for n in range(3))
    out = ptk.vmap(lambda numbers, x: x + next(numbers), in_axes=(None, 0))(numbers, XS)
    np.testing.assert_array_equal(out, XS)
    assert list(numbers) == [1, 2]


@iterators_are_leaves
@pytest.mark.parametrize("make", [lambda: (n for n in range(3)), lambda: iter([1, 2, 3])])
def test_a_generator_is_not_mapped_and_not_read(make):
    numbers = make()
    error = refused(lambda numbers, x: x, (numbers, XS))
    assert error.faults[0].argument == "numbers"
    assert len(list(numbers)) == 3


RANKLESS = [
    jnp.float32(1),
    np.ones(()),
    np.float32(2),
    np.int64(2),
    2.0,
    3,
    True,
    1j,
]


@pytest.mark.parametrize("value", RANKLESS, ids=lambda value: type(value).__name__)
def test_values_without_axes(value):
    error = refused(lambda scale, x: x, (value, XS))
    assert [(fault.code, fault.argument) for fault in error.faults] == [("PTK101", "scale")]
    ours, theirs = (
        outcome(vmap, lambda scale, x: x, (value, XS), in_axes=(None, 0))
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs is not None


def test_lists_where_arrays_were_meant():
    error = refused(lambda xs: xs, ([[1.0, 2.0], [3.0, 4.0]],))
    assert [fault.path for fault in error.faults] == ["[0][0]", "[0][1]", "[1][0]", "[1][1]"]
    assert {fault.code for fault in error.faults} == {"PTK101"}


def test_a_list_of_arrays_is_no_batch():
    args = ([jnp.ones(3), jnp.zeros(3)],)
    ours, theirs = (outcome(vmap, lambda xs: xs[0] - xs[1], args) for vmap in (ptk.vmap, jax.vmap))
    assert ours == theirs is not None


EMPTY_AXES = {
    "an empty batch": ((jnp.ones((0, 2)),), {}),
    "an empty batch with its size": ((jnp.ones((0, 2)),), {"axis_size": 0}),
    "an empty batch with another size": ((jnp.ones((0, 2)),), {"axis_size": 1}),
    "no examples of nothing": ((jnp.ones(()),), {"in_axes": None, "axis_size": 0}),
    "a batch of empty examples": ((jnp.ones((2, 0)),), {}),
    "none beside one": ((jnp.ones((0, 2)), jnp.ones((1, 2))), {}),
    "one beside three": ((jnp.ones((1, 2)), jnp.ones((3, 2))), {}),
}


@pytest.mark.parametrize("name", EMPTY_AXES)
def test_axes_of_size_zero_and_one(name):
    args, options = EMPTY_AXES[name]
    ours, theirs = (
        outcome(vmap, lambda *xs: sum(x.sum() for x in xs), args, **options)
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs


EMPTY_TREES = {
    "no arguments": ((), {}),
    "no arguments, a size": ((), {"axis_size": 3}),
    "an empty dict": (({},), {}),
    "an empty dict, a size": (({},), {"axis_size": 3}),
    "None": ((None,), {"axis_size": 2}),
    "None beside an array": ((None, XS), {}),
    "empty specs": (({}, [], XS), {"in_axes": ({}, [], 0)}),
    "a spec of another empty kind": (({}, [], XS), {"in_axes": ([], {}, 0)}),
    "any axis over nothing": (({}, XS), {"in_axes": (7, 0)}),
    "an empty in_axes": ((), {"in_axes": (), "axis_size": 3}),
    "an empty in_axes for one argument": ((XS,), {"in_axes": ()}),
}


@pytest.mark.parametrize("name", EMPTY_TREES)
def test_empty_trees(name):
    args, options = EMPTY_TREES[name]
    ours, theirs = (
        outcome(vmap, lambda *args: (jnp.ones(2), args), args, **options)
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs


# ---- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_axes", [0, None, (None, 0)])
@pytest.mark.parametrize("deep", [False, True])
def test_keys_that_do_not_sort(in_axes, deep):
    mixed = {1: XS, "a": XS}
    args = ([{"inner": mixed}] if deep else mixed), XS
    error = refused(lambda batch, x: x, args, in_axes=in_axes)
    assert error.faults[0].argument == "batch"
    assert "keys" in str(error)


def test_keys_that_do_not_sort_in_a_keyword():
    with pytest.raises(ptk.SpecError, match="options"):
        ptk.vmap(lambda x, options: x)(XS, options={1: XS, "a": XS})


def test_keys_that_do_not_sort_in_a_spec():
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(lambda batch: batch, in_axes=({1: 0, "a": 0},))
    assert "in_axes[0]" in str(caught.value)


def test_keys_that_do_not_sort_in_the_output():
    error = None
    try:
        ptk.vmap(lambda x: {1: x, "a": x})(XS)
    except ptk.SpecError as caught:
        error = caught
    assert error is not None
    assert "keys" in str(error)


@pytest.mark.parametrize(
    "keys", [(0, 1), (0.5, 1.5), ((1, 2), (3, 4)), (False, True), (b"a", b"b")]
)
def test_keys_of_other_types(keys):
    batch, axes = dict.fromkeys(keys, XS), {keys[1]: None, keys[0]: 0}
    ours, theirs = (
        outcome(vmap, lambda batch: batch[keys[0]], (batch,), in_axes=(axes,))
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs is not None
    error = refused(lambda batch: batch, (batch,), in_axes=({keys[0]: 0},))
    assert f"batch[{keys[1]!r}]" in str(error)


@pytest.mark.parametrize("key", ["gewicht_größe", "重み", "가중치", "\N{PARTY POPPER}"])
def test_keys_outside_ascii(key):
    ours = outcome(ptk.vmap, lambda batch: batch[key], ({key: XS},), in_axes=({key: 1},))
    assert ours == outcome(jax.vmap, lambda batch: batch[key], ({key: XS},), in_axes=({key: 1},))
    error = refused(lambda batch: batch, ({key: XS},), in_axes=({key: 5},))
    assert error.faults[0].path == f"[{key!r}]"
    assert str(error).isascii()
    assert ascii(key)[1:-1] in str(error)


def test_keys_with_line_ends_stay_on_one_line():
    error = refused(lambda batch: batch, ({"a\nb": XS},), in_axes=5)
    assert "a\nb" not in str(error)
    assert max(map(len, str(error).splitlines())) <= 88


# ---- axes ---------------------------------------------------------------------------------------

NO_AXES = [
    np.int64(0),
    True,
    False,
    0.0,
    "batch",
    jnp.int32(0),
    np.zeros((), int),
    ...,
    1j,
    object(),
]


def _name(value: Any) -> str:
    return "Ellipsis" if value is ... else type(value).__name__


@pytest.mark.parametrize("option", ["in_axes", "out_axes"])
@pytest.mark.parametrize("put", [lambda a: a, lambda a: (a,), lambda a: ({"w": [0, a]},)])
@pytest.mark.parametrize("axis", NO_AXES, ids=_name)
def test_an_axis_that_is_no_int(axis, put, option):
    with pytest.raises(TypeError):
        jax.vmap(lambda x: x, **{option: put(axis)})
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(lambda x: x, **{option: put(axis)})
    assert [fault.code for fault in caught.value.faults] == ["PTK107"]
    assert option in str(caught.value)
    assert _name(axis).lower() in str(caught.value).lower()


def test_every_axis_that_is_no_int_is_found():
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(lambda x, y, z: x, in_axes=(True, {"a": "b", "c": 0}, 1.5))
    places = [fault.spec_path for fault in caught.value.faults]
    assert places == ["in_axes[0]", "in_axes[1]['a']", "in_axes[2]"]


class Axes(NamedTuple):
    """A NamedTuple of axes."""

    x: Any
    y: Any


class Tuple(tuple):
    """A kind of tuple."""

    __slots__ = ()


class List(list):
    """A kind of list."""


TOP = {
    "ordered dict": (collections.OrderedDict(x=0, y=None), False),
    "named tuple": (Axes(0, None), False),
    "kind of tuple": (Tuple((0, None)), False),
    "set": ({0}, False),
    "text": ("00", False),
    "node": (Point(0, None), False),
    "kind of list": (List([0, None]), True),
    "list": ([0, None], True),
    "None": (None, False),
}


@pytest.mark.parametrize("name", TOP)
def test_the_top_of_in_axes(name):
    in_axes, accepted = TOP[name]
    ours, theirs = (
        outcome(vmap, lambda x, y: x + y, (XS, jnp.ones(2)), in_axes=in_axes)
        for vmap in (ptk.vmap, jax.vmap)
    )
    assert ours == theirs
    assert (theirs is not None) == accepted


@pytest.mark.parametrize("value", [3, "f", None])
def test_a_function_that_is_none(value):
    with pytest.raises(TypeError):
        jax.vmap(value)
    with pytest.raises((ptk.SpecError, TypeError)):
        ptk.vmap(value)
