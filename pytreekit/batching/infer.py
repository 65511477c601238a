"""PTK605: in_axes from annotations of one example, which the batch axis is over."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import jax

from ..compat import is_batched_sparse
from ..faults import Fault
from ..show import values
from ..trees import paths
from ..trees.paths import KeyPath
from . import annotations
from .call import Call
from .dimensions import Names
from .fitting import UNKNOWN, Fitting, Misfit
from .typed import declared_arguments, example_shape

INFER: Final = "infer"
"""What in_axes is where they are to be inferred."""

MOST_TRIED = 1000
"""How many choices of axes are tried for a call."""

Axes = tuple[Any, ...]


class Inferred(NamedTuple):
    """The axes by parameter name, or the faults that say why there are none."""

    in_axes: dict[Any, Any]
    faults: tuple[Fault, ...] = ()


def inferred(call: Call) -> Inferred:
    """The in_axes of a call by what its annotations say of one example.

    An argument that fits its annotation as it is, is shared. Any other is mapped over the axis
    without which it fits, sizes and names taken together. Where that leaves a choice, the batch is
    in front; but where another axis of the same size fits as well, or the batch cannot be in front
    everywhere, it is not for us to choose.
    """
    hints = declared_arguments(call)
    arguments = [
        _Argument(its.name, value, hints.get(position))
        for position, (its, value) in enumerate(zip(call.passed, call.values, strict=True))
    ]
    silent = tuple(_not_annotated(its) for its in arguments if its.hint is None and its.has_axes)
    if silent:
        return Inferred({}, silent)
    order = [*hints, *(place for place in range(len(arguments)) if place not in hints)]
    found = list(itertools.islice(_solutions(arguments, order, call.axis_size), MOST_TRIED))
    if not found:
        found = [tuple((its.candidates or (None,))[0] for its in arguments)]
    best = min(found, key=_later_axes)
    rivals = found
    if not any(best):
        rivals = [axes for axes in found if _size(arguments, axes) == _size(arguments, best)]
    return Inferred(_by_name(call, best), tuple(_ambiguous(call, arguments, rivals)))


class _Argument:
    """An argument, and the axes that its annotation leaves it."""

    def __init__(self, name: str, value: Any, hint: Any) -> None:
        self.name = name
        self.value = value
        self.hint = hint
        leaves = paths.leaves_with_paths(value, is_batched_sparse)
        avals = {path: values.typeof(leaf) for path, leaf in leaves}
        self.avals = {path: aval for path, aval in avals.items() if aval is not None}
        self._others = {path for path, aval in avals.items() if aval is None}

    @property
    def has_axes(self) -> bool:
        """Whether there is anything to map."""
        return any(aval.shape for aval in self.avals.values())

    @functools.cached_property
    def candidates(self) -> tuple[int | None, ...]:
        """None where it fits as it is, else each axis without which it fits."""
        if self.hint is None or self.fits(None):
            return (None,)
        rank = min((len(aval.shape) for aval in self.avals.values()), default=0)
        return tuple(axis for axis in range(rank) if self.fits(axis))

    def fits(self, axis: int | None) -> bool:
        """Whether it fits without an axis, whatever the others are."""
        with annotations.context():
            return next(self.misfits(axis, Names()), None) is None

    def misfits(self, axis: int | None, names: Names) -> Iterator[Misfit]:
        """What does not fit without an axis, in the context of jaxtyping in which it is asked."""

        def example(value: Any, path: KeyPath) -> Any:
            if path in self._others:
                return None
            aval = self.avals.get(path)
            if aval is None:
                return UNKNOWN
            return jax.ShapeDtypeStruct(example_shape(aval.shape, axis), aval.dtype)

        fitting = Fitting(self.name, example, names)
        return iter(()) if self.hint is None else fitting.misfits(self.value, self.hint)

    def sizes(self, axis: int | None) -> set[Any]:
        """The sizes of an axis."""
        if axis is None:
            return set()
        return {aval.shape[axis] for aval in self.avals.values()}


def _solutions(
    arguments: Sequence[_Argument], order: Sequence[int], axis_size: Any
) -> Iterator[Axes]:
    """Each choice of axes under which all arguments fit together."""
    tried = itertools.product(*(arguments[position].candidates for position in order))
    for chosen in itertools.islice(tried, MOST_TRIED):
        axes = dict(zip(order, chosen, strict=True))
        sizes = set().union(*(arguments[position].sizes(axis) for position, axis in axes.items()))
        sizes |= set() if axis_size is None else {axis_size}
        if len(sizes) > 1:
            continue
        with annotations.context():
            names = Names()
            misfits = (arguments[position].misfits(axis, names) for position, axis in axes.items())
            fits = all(next(found, None) is None for found in misfits)
        if fits:
            yield tuple(axes[position] for position in range(len(arguments)))


def _later_axes(axes: Axes) -> tuple[int, Axes]:
    """How far a choice is from having the batch in front."""
    given = tuple(axis or 0 for axis in axes)
    return sum(given), given


def _size(arguments: Sequence[_Argument], axes: Axes) -> Any:
    sizes = [its.sizes(axis) for its, axis in zip(arguments, axes, strict=True)]
    return set().union(*sizes)


def _by_name(call: Call, axes: Axes) -> dict[Any, Any]:
    """Axes keyed by parameter."""
    named: dict[Any, Any] = {}
    for argument, axis in zip(call.passed, axes, strict=True):
        if argument.extra is None:
            named[argument.parameter] = axis
        else:
            named[argument.parameter] = (*named.get(argument.parameter, ()), axis)
    return named


def _ambiguous(
    call: Call, arguments: Sequence[_Argument], rivals: Sequence[Axes]
) -> Iterator[Fault]:
    """A fault for each argument that may be mapped over several axes."""
    specs = " or ".join(values.spec(_by_name(call, axes)) for axes in rivals[:3])
    for argument, axes in zip(arguments, zip(*rivals, strict=True), strict=True):
        choice = sorted(set(axes) - {None})
        if len(set(axes)) > 1:
            among = " or ".join(map(str, choice))
            yield Fault(
                "PTK605", argument.name, "", "in_axes", values.leaf_or_tree(argument.value),
                repr(INFER), fact=f"may be mapped over axis {among}",
                note=f"{annotations.text(argument.hint)} fits either; write in_axes={specs}",
            )  # fmt: skip


def _not_annotated(argument: _Argument) -> Fault:
    return Fault(
        "PTK605", argument.name, "", "in_axes", values.leaf_or_tree(argument.value), repr(INFER),
        fact="has no annotation that says what one example is",
        note="annotate it, or write in_axes by name",
    )  # fmt: skip
