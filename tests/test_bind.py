"""The public engine: `bind` gives each leaf one value, by JAX's own rules for prefixes."""

from __future__ import annotations

import collections
import dataclasses
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec
from jax.tree_util import DictKey, SequenceKey, keystr

import pytreekit as ptk

from .strategies import Style, damaged_spec, draw_bound
from .vmap_nodes import (
    Chexed,
    Keyed,
    Layer,
    Leaf,
    Module,
    NeedsArray,
    Node,
    Pair,
    Plain,
    Point,
    Struct,
    build,
)

ROOT = Path(__file__).parents[1]


def codes(spec: Any, tree: Any) -> list[str]:
    return [fault.code for fault in ptk.bind(spec, tree).faults]


def shown(spec: Any, tree: Any) -> list[tuple[str, str, Any, Any]]:
    """What a binding tells of each leaf, with its paths as text."""
    return [(keystr(p), keystr(s), leaf, value) for p, s, leaf, value in ptk.bind(spec, tree)]


# ---- values -------------------------------------------------------------------------------------


@dataclasses.dataclass
class Optimizer:
    """An object that JAX knows nothing of."""

    rate: float


TREE = {"w": [1.0, 2.0], "b": 3.0}
VALUES = {
    "an axis": (0, -1),
    "a mask": (True, False),
    "a clip norm": (1.0, float("inf")),
    "a label": ("decay", ""),
    "a layout": (PartitionSpec("data", None), PartitionSpec()),
    "an array": (np.ones(2), jnp.zeros(())),
    "a function": (len, lambda leaf: 0),
    "an object": (Optimizer(0.1), Optimizer(0.1)),
    "a class": (int, Point),
    "a dtype": (np.dtype("float32"), jnp.bfloat16),
    "an ellipsis": (..., ...),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_spec_value_may_be_of_any_kind(kind):
    first, second = VALUES[kind]
    bound = list(ptk.bind({"w": first, "b": second}, TREE))
    assert [leaf for _, _, leaf, _ in bound] == [3.0, 1.0, 2.0]
    assert all(v is w for (*_, v), w in zip(bound, [second, first, first], strict=True))
    assert all(value is first for *_, value in ptk.bind(first, TREE))


def test_every_kind_of_value_is_a_leaf_to_jax():
    """JAX decides what a value is: were a PartitionSpec a node some day, it would be one here."""
    for values in VALUES.values():
        assert jax.tree_util.all_leaves(values)


def test_a_value_below_which_nothing_matches_is_no_prefix():
    for first, _ in VALUES.values():
        assert codes({"w": [first], "b": first}, TREE) == ["PTK203"]
        assert codes({"w": first, "b": [first]}, TREE) == ["PTK202"]


def test_none_in_the_spec_governs_all_that_lies_below():
    assert shown(None, TREE) == [
        ("['b']", "", 3.0, None), ("['w'][0]", "", 1.0, None), ("['w'][1]", "", 2.0, None)
    ]  # fmt: skip
    assert shown({"w": None, "b": 1}, TREE)[1:] == [
        ("['w'][0]", "['w']", 1.0, None), ("['w'][1]", "['w']", 2.0, None)
    ]  # fmt: skip


def test_none_in_the_tree_has_no_leaf():
    assert shown(0, None) == []
    assert shown({"w": 0, "b": None}, {"w": None, "b": None}) == []
    assert [place for place, *_ in shown(0, {"w": None, "b": 1.0})] == ["['b']"]
    (fault,) = ptk.bind({"w": (0, 0)}, {"w": None}, name="params").faults
    assert (fault.code, fault.place, fault.wanted) == ("PTK202", "params['w']", "(0, 0)")


@pytest.mark.parametrize("empty", [None, (), [], {}, collections.OrderedDict(), Plain((), "k")])
def test_containers_without_leaves(empty):
    assert shown(0, {"a": empty, "b": 1.0}) == [("['b']", "", 1.0, 0)]
    assert shown({"a": empty, "b": 0}, {"a": empty, "b": 1.0}) == [("['b']", "['b']", 1.0, 0)]
    assert codes({"a": empty, "b": 0}, {"a": empty, "b": 1.0}) == []
    if empty is not None:
        assert codes({"a": empty}, {"a": 1.0}) == ["PTK202"]


def test_nothing_at_all():
    assert list(ptk.bind((), ())) == []
    assert ptk.bind((), ()).values() == []
    assert codes((), ()) == codes({}, {}) == codes(0, ()) == codes(None, {}) == []
    assert codes((), {}) == codes({}, ()) == ["PTK202"]


# ---- JAX's rules --------------------------------------------------------------------------------


def broadcast(spec: Any, tree: Any) -> list[Any] | None:
    """The value of each leaf as JAX has it, None where it takes the spec for no prefix."""
    try:
        values = jax.tree.broadcast(spec, tree, is_leaf=lambda node: node is None)
    except Exception:  # a ValueError, or what explaining it runs into
        return None
    return jax.tree.leaves(values, is_leaf=lambda node: node is None)


def without_none(blueprint: Any) -> Any:
    """Another empty node for each None in a tree: told to stop at None, broadcast stops there."""
    if isinstance(blueprint, Leaf):
        return blueprint
    if blueprint.kind == "none":
        return Node("tuple")
    return dataclasses.replace(blueprint, children=tuple(map(without_none, blueprint.children)))


STYLE = Style(weird=False, kinds=("np float32",))


@st.composite
def specs_and_trees(draw, *, damaged):
    """A tree and a prefix of it, which may then be damaged in one place."""
    tree, spec = draw_bound(draw, STYLE, 2, 3)
    if damaged:
        spec = damaged_spec(draw, spec)
    return build(spec), build(without_none(tree))


@settings(max_examples=100)
@given(specs_and_trees(damaged=False))
def test_every_prefix_binds_as_jax_broadcasts_it(drawn):
    spec, tree = drawn
    binding = ptk.bind(spec, tree)
    expected = broadcast(spec, tree)
    bound = list(binding)
    assert binding.faults == ()
    assert binding.values() == [value for *_, value in bound] == expected
    with_paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    assert [path for path, *_ in bound] == [path for path, _ in with_paths]
    assert all(ours.leaf is leaf for ours, (_, leaf) in zip(bound, with_paths, strict=True))
    assert all(path[: len(spec_path)] == spec_path for path, spec_path, *_ in bound)
    assert list(binding) == bound


@settings(max_examples=100)
@given(specs_and_trees(damaged=True))
def test_no_prefix_binds_that_jax_does_not_broadcast(drawn):
    spec, tree = drawn
    binding = ptk.bind(spec, tree)
    expected = broadcast(spec, tree)
    assert (binding.faults == ()) == (expected is not None)
    if expected is not None:
        ours = binding.values()
        assert all(one is other for one, other in zip(ours, expected, strict=True))


def test_the_order_of_keys_counts_in_an_ordered_dict_alone():
    assert codes({"b": 0, "a": 1}, {"a": 1.0, "b": 2.0}) == []
    ordered = collections.OrderedDict
    (fault,) = ptk.bind(ordered(b=0, a=1), ordered(a=1.0, b=2.0), name="params").faults
    assert (fault.code, fault.path, fault.argument) == ("PTK201", "", "params")
    assert "order" in fault.fact
    assert codes(ordered(a=0, b=1), ordered(a=1.0, b=2.0)) == []
    assert codes({"a": 0}, ordered(a=1.0)) == codes(ordered(a=0), {"a": 1.0}) == ["PTK202"]


def test_a_default_dict_has_its_factory_as_static_data():
    default = collections.defaultdict
    assert codes(default(list, a=0), default(list, a=1.0)) == []
    assert codes(default(int, a=0), default(list, a=1.0)) == ["PTK204"]
    assert codes({"a": 0}, default(list, a=1.0)) == ["PTK202"]


# ---- every kind of node -------------------------------------------------------------------------

TWO_FIELDS = (Point, Pair, Layer, Chexed, Struct, Module)
STATIC = (Layer, Struct, Module)


@pytest.mark.parametrize("kind", TWO_FIELDS)
def test_nodes_with_fields(kind):
    tree = kind(p=[1.0, 2.0], q=3.0)
    found = shown(kind(p="mapped", q=None), tree)
    assert found == [
        (".p[0]", ".p", 1.0, "mapped"), (".p[1]", ".p", 2.0, "mapped"), (".q", ".q", 3.0, None)
    ]  # fmt: skip
    assert [place for place, *_ in shown(kind(p=[0, 1], q=2), tree)] == [".p[0]", ".p[1]", ".q"]
    assert codes(kind(p=[0], q=(1,)), tree) == ["PTK203", "PTK202"]
    for other in TWO_FIELDS:
        assert codes(other(p=0, q=1), tree) == ([] if other is kind else ["PTK202"])
    assert codes((0, 1), tree) == codes({"p": 0, "q": 1}, tree) == ["PTK202"]


@pytest.mark.parametrize("kind", STATIC)
def test_static_fields_must_agree(kind):
    spec, tree = kind(p=0, q=1, n="relu"), kind(p=1.0, q=2.0, n="tanh")
    (fault,) = ptk.bind(spec, tree, name="layer", spec_name="spec[0]").faults
    assert (fault.code, fault.place, fault.spec_path) == ("PTK204", "layer", "spec[0]")
    assert "n" in fault.fact
    assert [value for *_, value in ptk.bind(spec, tree)] == [0, 1]


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")  # equinox, of numpy's too
@pytest.mark.parametrize("kind", STATIC)
@pytest.mark.parametrize("static", [np.ones(1), np.ones(2), [np.ones(2)], {"a": np.ones(2)}, [1]])
def test_arrays_in_static_fields(kind, static):
    """They may compare to no truth value, or have no hash: a fault, and never a crash."""
    spec = kind(p=0, q=1, n=static)
    for n in (static, 3, np.zeros(2)):
        tree = kind(p=1.0, q=2.0, n=n)
        assert (codes(spec, tree) == []) == (broadcast(spec, tree) is not None)
        assert set(codes(spec, tree)) <= {"PTK204"}
        assert len(list(ptk.bind(spec, tree))) == 2


def test_custom_nodes_with_and_without_keys():
    assert shown(Keyed((0, 1), "k"), Keyed((1.0, [2.0]), "k")) == [
        (".c0", ".c0", 1.0, 0), (".c1[0]", ".c1", 2.0, 1)
    ]  # fmt: skip
    places = [place for place, *_ in shown(Plain((0, 1), "k"), Plain((1.0, 2.0), "k"))]
    assert places == ["[<flat index 0>]", "[<flat index 1>]"]
    for kind in (Keyed, Plain):
        assert codes(kind((0, 1), "k"), kind((1.0, 2.0), "other")) == ["PTK204"]
        assert codes(kind((0,), "k"), kind((1.0, 2.0), "k")) == ["PTK203"]
        assert codes(kind((0, (1,)), "k"), kind((1.0, 2.0), "k")) == ["PTK202"]
    assert codes(Plain((0, 1), "k"), Keyed((1.0, 2.0), "k")) == ["PTK202"]


def test_a_node_that_checks_what_it_holds_is_never_rebuilt():
    tree = NeedsArray(np.ones(2)), np.ones(2)
    assert [value for *_, value in ptk.bind((0, 1), tree)] == [0, 1]
    assert codes((0, (1,)), tree) == ["PTK202"]
    assert codes(([0], 1), tree) == ["PTK202"]


# ---- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys", [(0, 10, 2), ((0, "a"), (0, "b")), (1, 2.5), (True, False), (b"a", b"b"), (-1, 0)]
)
def test_keys_that_are_no_text(keys):
    tree, spec = dict.fromkeys(keys, 1.0), {key: repr(key) for key in keys}
    expected = [(f"[{key!r}]", f"[{key!r}]", 1.0, repr(key)) for key in sorted(keys)]
    assert shown(spec, tree) == expected
    (fault,) = ptk.bind({key: spec[key] for key in keys[1:]}, tree, name="tree").faults
    assert (fault.code, fault.place) == ("PTK201", f"tree[{keys[0]!r}]")


UNSORTABLE = {1: 1.0, "1": 2.0}


@pytest.mark.parametrize(
    ("spec", "tree", "places"),
    [
        (0, UNSORTABLE, ["tree"]),
        (0, [1.0, {"a": UNSORTABLE}], ["tree[1]['a']"]),
        (UNSORTABLE, 1.0, [""]),
        ([UNSORTABLE], [1.0], [""]),
        (UNSORTABLE, UNSORTABLE, ["", "tree"]),
        (0, {None: 1.0, "a": 2.0}, ["tree"]),
    ],
)
def test_keys_that_do_not_sort_are_a_fault(spec, tree, places):
    with pytest.raises(ValueError, match=r"sort|compar"):
        jax.tree.leaves((spec, tree))
    binding = ptk.bind(spec, tree)
    assert [fault.code for fault in binding.faults] == ["PTK104"] * len(places)
    assert [fault.place for fault in binding.faults] == places
    assert list(binding) == binding.values() == []


# ---- faults -------------------------------------------------------------------------------------


def test_every_mismatch_is_found_in_one_pass():
    spec = {"a": [0, 1], "b": (0,), "c": {"x": 0, "y": 1}, "d": 0, "e": Layer(0, 1, "relu"), "f": 2}
    tree = {
        "a": [1.0],
        "b": 1.0,
        "c": {"y": {"z": 1.0}, "zz": 2.0},
        "d": {"deep": 1.0},
        "e": Layer(1.0, 2.0, "tanh"),
        "g": 3.0,
    }
    faults = ptk.bind(spec, tree, name="tree", spec_name="axes").faults
    assert [(fault.code, fault.place, fault.spec_path) for fault in faults] == [
        ("PTK201", "tree", "axes['f']"),
        ("PTK201", "tree['g']", "axes"),
        ("PTK203", "tree['a']", "axes['a']"),
        ("PTK202", "tree['b']", "axes['b']"),
        ("PTK201", "tree['c']", "axes['c']['x']"),
        ("PTK201", "tree['c']['zz']", "axes['c']"),
        ("PTK204", "tree['e']", "axes['e']"),
    ]
    shared = shown(spec, tree)
    assert [place for place, *_ in shared] == [
        "['a'][0]", "['c']['y']['z']", "['d']['deep']", "['e'].p", "['e'].q"
    ]  # fmt: skip
    assert [value for *_, value in shared] == [0, 1, 0, 0, 1]


def test_names_lead_the_places():
    (fault,) = ptk.bind({"w": (1,)}, {"w": 2.0}, name="params", spec_name="clip[0]").faults
    assert fault.place == "params['w']"
    assert fault.entry == "clip[0]['w'] = (1,)"
    (fault,) = ptk.bind((1,), 2.0).faults
    assert (fault.place, fault.entry) == ("tree", "spec = (1,)")


def test_paths_are_those_of_jax():
    bound = list(ptk.bind({"a": 0}, {"a": [1.0, (2.0,)]}))
    assert bound[1].path == (DictKey("a"), SequenceKey(1), SequenceKey(0))
    assert bound[1].spec_path == (DictKey("a"),)
    assert bound[1] == (bound[1].path, bound[1].spec_path, 2.0, 0)


# ---- raise_faults -------------------------------------------------------------------------------


def test_no_faults_raise_nothing():
    assert ptk.raise_faults(()) is None
    assert ptk.raise_faults(fault for fault in ()) is None


def test_faults_are_raised_as_one_error():
    faults = ptk.bind({"w": [0], "b": (1,)}, {"w": 1.0, "b": 2.0}, name="params").faults
    with pytest.raises(ptk.SpecError) as caught:
        ptk.raise_faults(iter(faults), doing="clip(f)", where="norms", when="early", repaired={})
    assert caught.value.faults == faults
    assert caught.value.repaired == {}
    assert str(caught.value).startswith("clip(f): 2 faults in norms, found early\n\n  PTK202  ")


def test_the_error_hides_what_it_came_from():
    fault = ptk.Fault("MY1", "x", "", "spec", "f32[]", "0", fact="must be even")
    try:
        _ = {}["inner"]
    except KeyError:
        with pytest.raises(ValueError, match="must be even") as caught:
            ptk.raise_faults([fault])
    assert "KeyError" not in "".join(traceback.format_exception(caught.value))
    assert str(caught.value).startswith("1 fault\n\n  MY1  x   f32[]   must be even\n")


# The suite has annotations checked, so a wrong argument comes to bind only outside of it.
WRONG_NAMES = """
import pytreekit as ptk
for names in ({"name": 3}, {"spec_name": None}, {"name": b"x", "spec_name": ["y"]}):
    try:
        ptk.bind(0, 1.0, **names)
    except ptk.SpecError as error:
        print(*(f"{fault.code} {fault.argument} {fault.found}" for fault in error.faults))
"""


def test_names_that_are_no_text_are_a_fault():
    command = [sys.executable, "-c", WRONG_NAMES]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [
        "PTK001 name int",
        "PTK001 spec_name NoneType",
        "PTK001 name bytes PTK001 spec_name list",
    ]
