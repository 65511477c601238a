"""Every other public name, as it is used and as it is not. See functions.py for the marks."""

from __future__ import annotations

from typing import Any, assert_type

from jax import Array

import pytreekit as ptk
from pytreekit.batching.forms import IfArray, Split
from pytreekit.specs.bind import Binding, Bound
from pytreekit.trees.difference import Difference, TreeDiff
from pytreekit.trees.summary import Summary, SummaryRow


def axes(tree: dict[str, Array]) -> None:
    assert_type(ptk.SPLIT, Split)
    assert_type(ptk.if_array(0), IfArray)
    assert_type(ptk.if_array(None)(tree), int | None)
    assert_type(ptk.axes_like(tree, 0), Any)
    assert_type(ptk.axes_like(tree, None, where=lambda leaf: leaf.ndim > 1), Any)
    ptk.if_array("0")  # error
    ptk.if_array()  # error
    ptk.axes_like(tree)  # error
    ptk.axes_like(tree, 0, is_leaf=None)  # error


def chunks(xs: Array) -> None:
    mapped = ptk.vmap(lambda x: x)
    assert_type(ptk.suggest_chunk_size(mapped, xs, memory=2**20), int)
    ptk.suggest_chunk_size(mapped, xs)  # error
    ptk.suggest_chunk_size(mapped, xs, memory="1 MiB")  # error
    ptk.suggest_chunk_size(lambda x: x, xs, memory=2**20)  # error


def trees(tree: dict[str, Array]) -> None:
    assert_type(ptk.partition(tree, {"w": True, ...: False}), tuple[Any, Any])
    assert_type(ptk.combine(*ptk.partition(tree, lambda leaf: leaf.ndim > 1)), Any)
    assert_type(ptk.stack([tree, tree]), Any)
    assert_type(ptk.stack((tree for _ in range(3)), axis=-1), Any)
    assert_type(ptk.unstack(tree, axis=1), list[Any])
    ptk.partition(tree)  # error
    ptk.partition(tree, True)[2]  # error
    ptk.combine(trees=tree)  # error
    ptk.stack(tree, tree, 0)  # error
    ptk.unstack(tree).keys()  # error


def tables(old: dict[str, Array], new: dict[str, Array]) -> None:
    found = ptk.diff(old, new, names=("old", "new"))
    assert_type(found, TreeDiff)
    assert_type([one.kind for one in found], list[str])
    assert_type(list(found), list[Difference])
    told = ptk.summary(old, depth=1)
    assert_type(told, Summary)
    assert_type(told.rows, tuple[SummaryRow, ...])
    assert_type(told.total.shape, tuple[int, ...] | None)
    ptk.diff(old)  # error
    ptk.diff(old, new, names="ab").unknown()  # error
    found.unknown()  # error
    ptk.summary(old, 1, 2)  # error
    told.rows[0].unknown()  # error
    told.total = told.rows[0]  # error


def engine(spec: dict[str, int], tree: dict[str, Array]) -> None:
    bound = ptk.bind(spec, tree, name="params", spec_name="axes")
    assert_type(bound, Binding)
    assert_type(list(bound), list[Bound])
    assert_type(bound.faults, tuple[ptk.Fault, ...])
    assert_type([leaf for _, _, leaf, _ in bound], list[Any])
    ptk.raise_faults(bound.faults, doing="mine(f)", where="axes")
    ptk.bind(spec)  # error
    ptk.bind(spec, tree, name=1)  # error
    ptk.bind(spec, tree, "params")  # error
    ptk.raise_faults(["PTK101"])  # error
    ptk.raise_faults(bound)  # error


def errors(fault: ptk.Fault) -> None:
    error = ptk.SpecError([fault], doing="mine(f)", repaired=(0,))
    assert_type(error.faults, tuple[ptk.Fault, ...])
    assert_type(error.faults[0].code, str)
    error.unknown()  # error
    assert_type(ptk.SpecWarning([fault]).faults, tuple[ptk.Fault, ...])
    ptk.Fault("PTK101")  # error
    ptk.Fault(101, "x", "", "", "", "")  # error
    ptk.SpecError(fault)  # error
    ptk.SpecError("it is wrong")  # error
    fault.code = "PTK102"  # error


assert_type(ptk.__version__, str)
ptk.vmapp(len)  # error
