"""`assert_plan`: what a mapped function is expected to map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..batching.plan import PlannedLeaf
from ..batching.vmapped import Vmapped, VmappedMethod
from ..faults import Fault
from ..show import assertions, values
from ..show.errors import raise_faults
from ..specs import by_name
from ..trees import paths


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
            or a dict keyed by places, as plans name them. A place is that of a leaf,
            `"params['w']"`, or of all below it, `"params"`; the longest that fits counts, and
            `...` stands for the rest. An entry is an axis as plans have it, never negative: an int,
            None or `ptk.SPLIT`; or a tree of them. Every leaf must be covered, but for those of
            `self`, which are expected to be shared.
        axis_size: The expected size of the mapped axis, None for any.
        kwargs: The keywords of the call.

    Raises:
        AssertionError: If the plan differs, with every difference.
        SpecError: If the arguments do not fit in_axes; PTK001, if `mapped` has no plan.

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
    if not isinstance(mapped, Vmapped | VmappedMethod):
        fact = f"must be what ptk.vmap returns, this is a {type(mapped).__name__}"
        raise_faults([Fault("PTK001", "mapped", "", "", "", "", fact=fact)], doing="assert_plan")
    plan = mapped.plan(*args, **kwargs)
    expected = _places(
        axes, [its.name for its in by_name.passed(mapped.__wrapped__, len(args), {})]
    )
    told = list(_other_axes(plan.leaves, expected))
    if axis_size is not None and plan.axis_size != axis_size:
        told.append(("axis_size", "", f"{plan.axis_size}, expected {axis_size}"))
    if told:
        number = values.count(len(told), "difference")
        fact = f"the plan of vmap({plan.function}) is not the expected one: {number}"
        raise AssertionError(assertions.rows(fact, told))


def _places(axes: Any, names: Sequence[str]) -> dict[str, Any]:
    """The expected axes by place, `""` being that of all."""
    if isinstance(axes, dict):
        entries = [("" if key is ... else str(key), its) for key, its in axes.items()]
    elif isinstance(axes, tuple):
        more = [f"args[{number}]" for number in range(len(names), len(axes))]
        entries = list(zip([*names, *more], axes, strict=False))
    else:
        entries = [("", axes)]
    return {
        place + paths.text(path): axis
        for place, tree in entries
        for path, axis in paths.leaves_with_paths(tree, lambda node: node is None)
    }


def _other_axes(
    planned: Sequence[PlannedLeaf], expected: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Each leaf that has another axis than is expected, and each place that is none."""
    met = {""}
    for leaf in planned:
        place = leaf.argument + leaf.path
        above = [its for its in expected if place.startswith(its) and _ends(its, place)]
        met |= set(above)
        if not above and leaf.argument == by_name.SELF:
            continue
        axis = expected[max(above, key=len)] if above else "nothing"
        if type(axis) is not type(leaf.axis) or axis != leaf.axis:
            yield place, leaf.found, f"{_axis(leaf.axis)}, expected {_axis(axis)}"
    for place in expected:
        if place not in met:
            yield place, "", f"no such leaf, expected {_axis(expected[place])}"


def _ends(place: str, longer: str) -> bool:
    """Whether a place ends where a key of the longer one begins: `x` does not in `xs`."""
    return place in {"", longer} or longer[len(place)] in "[."


def _axis(axis: Any) -> str:
    return "shared" if axis is None else str(axis)
