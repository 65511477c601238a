"""Large and deep trees: right verdicts, short messages, and work in proportion to the leaves.

Work is counted, in calls of functions and in bytes, and never timed.
"""

from __future__ import annotations

import cProfile
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

XS = jnp.arange(6.0).reshape(3, 2)
FEW, MANY, MOST = 100, 2_000, 100_000


def wide(count, leaf=XS, bad=None):
    """Layers of ten leaves each; `bad` leaves stand at the end."""
    names = [f"layer{i:05}" for i in range(count // 10)]
    tree = {name: {f"w{i}": leaf for i in range(10)} for name in names}
    if bad is not None:
        tree[names[-1]]["w9"] = bad
    return tree


def first(tree, x):
    return x


def shared(tree, x):
    """A call of a mapped function that shares the tree."""
    return ptk.vmap(first, in_axes=(None, 0))(tree, x)


def fault_of(tree, in_axes=0, x=XS):
    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(first, in_axes=in_axes)(tree, x)
    return caught.value


# ---- verdicts -----------------------------------------------------------------------------------


def test_many_shared_leaves():
    np.testing.assert_array_equal(shared(wide(MOST), XS), XS)


def test_many_mapped_leaves():
    mapped = ptk.vmap(first)
    assert mapped.check(wide(MANY), XS) == ()
    plan = mapped.plan(wide(MANY), XS)
    assert plan.axis_size == 3


def test_one_bad_leaf_among_many():
    error = fault_of(wide(10 * MANY, bad=jnp.ones((4, 2))))
    assert [fault.path for fault in error.faults] == [f"['layer{MANY - 1:05}']['w9']"]
    assert len(str(error).splitlines()) < 20
    assert error.faults[0].path in str(error)


def test_many_bad_leaves():
    error = fault_of(wide(MANY, leaf=2.0))
    assert len(error.faults) == MANY
    assert len(str(error).splitlines()) < 40
    assert f"x{MANY}" in str(error)


def test_many_bad_leaves_of_many_kinds():
    tree = {f"k{i:04}": {f"b{i}": XS} for i in range(100)}
    error = fault_of(tree, in_axes=({f"k{i:04}": {f"c{i}": 0} for i in range(100)}, 0))
    assert len(error.faults) >= 100
    assert len(str(error).splitlines()) < 80


def test_a_long_spec_with_one_entry_missing():
    axes = wide(MANY, leaf=0)
    del axes["layer00150"]["w5"]
    error = fault_of(wide(MANY), in_axes=(axes, 0))
    assert [(fault.code, fault.path) for fault in error.faults] == [
        ("PTK201", "['layer00150']['w5']")
    ]
    assert len(str(error).splitlines()) < 20
    assert max(map(len, str(error).splitlines())) <= 88


# ---- work ---------------------------------------------------------------------------------------


def calls_of(work):
    """How many functions are called, those of C included."""
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def bytes_of(work):
    """How much memory is held at once, at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def good_call(count):
    tree = wide(count)
    return lambda: shared(tree, XS)


def plan(count):
    tree = wide(count)
    return lambda: ptk.vmap(first).plan(tree, XS)


def one_bad_leaf(count):
    tree = wide(count, bad=jnp.ones(5))
    return lambda: fault_of(tree)


def all_leaves_bad(count):
    tree = wide(count, leaf=2.0)
    return lambda: fault_of(tree)


def spec_for_every_leaf(count):
    tree, axes = wide(count), wide(count, leaf=0)
    return lambda: ptk.vmap(first, in_axes=(axes, 0)).check(tree, XS)


def spec_with_a_hole(count):
    tree, axes = wide(count), wide(count, leaf=0)
    del axes["layer00005"]["w5"]
    return lambda: fault_of(tree, in_axes=(axes, 0))


WORK = [good_call, plan, one_bad_leaf, all_leaves_bad, spec_for_every_leaf, spec_with_a_hole]


@pytest.mark.parametrize("measure", [calls_of, bytes_of])
@pytest.mark.parametrize("make", WORK)
def test_work_is_in_proportion_to_the_leaves(make, measure):
    make(100)()  # what is done once is done before
    few, many = (measure(make(count)) for count in (FEW, 10 * FEW))
    assert many < 15 * few, (few, many)


def test_a_known_structure_is_not_planned_again():
    count = 5_000
    tree, mapped = wide(count), ptk.vmap(first, in_axes=(None, 0))
    once = calls_of(lambda: mapped(tree, XS))
    again = calls_of(lambda: mapped(tree, XS))
    assert again < count / 5 < once, (once, again)


# ---- depth --------------------------------------------------------------------------------------

DEPTH = 200


def deep(leaf, depth=DEPTH, make=lambda inner: {"a": inner}):
    for _ in range(depth):
        leaf = make(leaf)
    return leaf


SHAPES = {
    "dicts": lambda inner: {"a": inner},
    "lists": lambda inner: [inner],
    "tuples beside a leaf": lambda inner: (inner, XS),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_deep_tree(shape):
    tree = deep(XS, make=SHAPES[shape])
    for in_axes in (0, (None, 0), (0, 0)):
        ours, theirs = (vmap(first, in_axes=in_axes)(tree, XS) for vmap in (ptk.vmap, jax.vmap))
        np.testing.assert_array_equal(ours, theirs)


def test_a_deep_spec():
    axes, tree = deep(0), deep(XS)
    mapped = ptk.vmap(first, in_axes=(axes, 0))
    np.testing.assert_array_equal(mapped(tree, XS), XS)
    assert mapped.plan(tree, XS).axis_size == 3


@pytest.mark.parametrize(
    ("leaf", "axis", "code"),
    [(jnp.ones((4, 2)), 0, "PTK102"), (XS, 7, "PTK101"), (XS, (0,), "PTK202"), ("a", 0, "PTK104")],
)
def test_a_fault_at_the_bottom_of_a_deep_tree(leaf, axis, code):
    error = fault_of(deep(leaf), in_axes=(deep(axis), 0), x=[XS, XS])
    assert [fault.code for fault in error.faults] == [code]
    assert error.faults[0].path == "['a']" * DEPTH
    assert max(map(len, str(error).splitlines())) <= 88


def test_an_output_as_deep():
    out_axes = deep(1)
    ours, theirs = (vmap(deep, out_axes=out_axes)(XS) for vmap in (ptk.vmap, jax.vmap))
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    with pytest.raises(ptk.SpecError, match="PTK108"):
        ptk.vmap(deep, out_axes=deep(5))(XS)
