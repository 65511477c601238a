"""`assert_plan`: what a mapped function is expected to map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jax.tree_util import DictKey

from ..batching.plan import PlannedLeaf
from ..batching.vmapped import check_mapped
from ..show import assertions, values
from ..show.errors import raise_faults
from ..specs import arguments, by_name
from ..trees import paths

EVERYWHERE = ""
"""The place of what is expected of all leaves that are not named."""


def assert_plan(
    mapped: Any, *args: Any, axes: Any, axis_size: int | None = None, **kwargs: Any
) -> None:
    """Assert what a mapped function maps: the axis of each leaf of a call, and its size.

    It guards a spec that is short, by name or computed against changes of the model: the call is
    planned and not run, and takes `jax.ShapeDtypeStruct`s as it does arrays.

    Args:
        mapped: What `ptk.vmap` returned, or a method of it.
        args: The arguments of the call.
        axes: What is expected: an axis for all; a tuple with an entry for each positional argument;
            or a dict keyed by places, as plans name them: a leaf, `"params['w']"`, or all that is
            below, `"params"`. The longest that fits counts; `...` stands for the rest. An entry is
            an axis as plans have it, never negative: an int, None or `ptk.SPLIT`; or a tree of
            them. Every leaf must be covered, but for those of `self`, which are expected to be
            shared unless they are named.
        axis_size: The expected size of the mapped axis, None for any.
        kwargs: The keywords of the call; those named as a parameter above are not passed on.

    Raises:
        AssertionError: If the plan differs, with every difference.
        SpecError: If the arguments do not fit in_axes; PTK001, if `mapped` is no mapped function.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> from pytreekit.testing import assert_plan
        >>> predict = ptk.vmap(lambda params, x: params["w"] @ x + params["b"], in_axes=(None, 0))
        >>> call = {"w": jnp.ones((4, 8)), "b": jnp.ones(4)}, jnp.ones((32, 8))
        >>> assert_plan(predict, *call, axes=(None, 0), axis_size=32)
        >>> assert_plan(predict, *call, axes={"params": {"w": None, "b": None}, "x": 0})
        >>> try:
        ...     assert_plan(predict, *call, axes={"params['b']": 0, ...: None}, axis_size=16)
        ... except AssertionError as error:
        ...     print(error)
        the plan of vmap(<lambda>) is not the expected one: 3 differences
        <BLANKLINE>
          params['b']   f32[4]      shared, expected 0
          x             f32[32,8]   0, expected shared
          axis_size                 32, expected 16
    """
    __tracebackhide__ = True
    raise_faults(check_mapped(mapped, "mapped"), doing="assert_plan")
    plan = mapped.plan(*args, **kwargs)
    named = by_name.named(mapped.__wrapped__, args, kwargs)
    expected = _places(axes, mapped.__wrapped__)
    told = list(_other_axes(plan.leaves, expected))
    told += _not_there(expected, plan.leaves, named)
    if axis_size is not None and plan.axis_size != axis_size:
        told.append(("axis_size", "", f"{plan.axis_size}, expected {axis_size}"))
    if told:
        number = values.count(len(told), "difference")
        fact = f"the plan of vmap({plan.function}) is not the expected one: {number}"
        raise AssertionError(assertions.rows(fact, told))


def _places(axes: Any, fun: Callable[..., Any]) -> dict[str, Any]:
    """The expected axes by place."""
    entries = [(EVERYWHERE, axes)]
    if isinstance(axes, dict):
        entries = [(EVERYWHERE if key is ... else str(key), its) for key, its in axes.items()]
    elif isinstance(axes, tuple):
        entries = zip(arguments.positional_names(fun, len(axes)), axes, strict=True)
    return dict(place for entry in entries for place in _below(*entry))


def _below(place: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """The places of a tree of axes. In a dict `...` is all that it does not name, as in specs."""
    for path, node in paths.leaves_with_paths(tree, _is_none_or_dict):
        here = place + paths.text(path)
        if not isinstance(node, dict):
            yield here, node
            continue
        for key, its in node.items():
            yield from _below(here + ("" if key is ... else paths.text((DictKey(key),))), its)


def _is_none_or_dict(node: Any) -> bool:
    return node is None or isinstance(node, dict)


def _other_axes(
    planned: Sequence[PlannedLeaf], expected: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Each leaf that has another axis than is expected."""
    for leaf in planned:
        place, is_self = leaf.argument + leaf.path, leaf.argument == by_name.SELF
        known = (its for its in _above(place) if its in expected and (its or not is_self))
        its = next(known, None)
        axis = None if its is None else expected[its]
        if its is None and not is_self:
            yield place, leaf.found, f"{_axis(leaf.axis)}, there is no entry for it"
        elif isinstance(axis, bool) or axis != leaf.axis:
            yield place, leaf.found, f"{_axis(leaf.axis)}, expected {_axis(axis)}"


def _not_there(
    expected: Mapping[str, Any], planned: Sequence[PlannedLeaf], named: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Each expected place that is none of the call. `None` and what holds no leaf are places."""
    known = {EVERYWHERE, *named}
    for leaf in planned:
        known.update(_above(leaf.argument + leaf.path))
    for name, tree in named.items():
        for path, leaf in paths.leaves_with_paths(tree, lambda node: node is None):
            if leaf is None:
                known.update(_above(name + paths.text(path)))
    for place, axis in expected.items():
        if place not in known:
            yield place, "", f"no such leaf, expected {_axis(axis)}"


def _above(place: str) -> Iterator[str]:
    """The places that a place is in, itself first: where a key begins, all before it is one."""
    yield place
    for end in range(len(place) - 1, 0, -1):
        if place[end] in "[.":
            yield place[:end]
    yield EVERYWHERE


def _axis(axis: Any) -> str:
    return "shared" if axis is None else str(axis)
