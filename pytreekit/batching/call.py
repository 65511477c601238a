"""One call of a vmapped function under its in_axes: bound, checked, repaired."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..compat import is_batched_sparse
from ..specs import arguments
from ..specs.bind import Binding
from ..specs.finding import Replace, Revalue
from ..specs.repair import change, respecified


class InArgument(NamedTuple):
    """A repair of the spec of one positional argument."""

    position: int
    repair: Replace | Revalue


class NewAxes(NamedTuple):
    """Other in_axes altogether."""

    in_axes: Any


class Advice(NamedTuple):
    """A repair of the call itself, in words and as a change that can be checked."""

    text: str
    change: Callable[[Call], Call]


_CALLED_WITH = ("args", "kwargs", "axis_size")


@dataclasses.dataclass(frozen=True)
class Call:
    """Arguments, and the axes that they are to be mapped over.

    Attributes:
        fun: The function, for the names of its parameters.
        in_axes: An int, None, or a tuple with a spec for each positional argument.
        args: The positional arguments.
        kwargs: The keyword arguments, all mapped over axis 0, as `jax.vmap` has it.
        axis_size: The size of the mapped axis, None to take it from the arguments.
        spmd_axis_name: As `jax.vmap` takes it.
        broadcasts: Whether an output may be broadcast to the axis size, though nothing is mapped.
    """

    fun: Callable[..., Any]
    in_axes: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    axis_size: Any = None
    spmd_axis_name: Any = None
    broadcasts: bool = True

    @functools.cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """A binding for each argument: by position, then by keyword in the order of flattening."""
        bind = functools.partial(Binding, is_leaf=is_batched_sparse)
        names = arguments.positional_names(self.fun, len(self.args))
        by_position = [
            bind(spec, arg, name, spec_name)
            for arg, name, (spec, spec_name) in zip(self.args, names, self.specs(), strict=False)
        ]
        by_keyword = [
            bind(0, self.kwargs[name], name, "axis of every keyword")
            for name in sorted(self.kwargs)
        ]
        return (*by_position, *by_keyword)

    @property
    def mismatched(self) -> bool:
        """Whether the specs are no prefix of the arguments."""
        entries = isinstance(self.in_axes, tuple) and len(self.in_axes) != len(self.args)
        return entries or any(binding.findings for binding in self.bindings)

    def axes(self) -> list[Any]:
        """The axis of each leaf of `(args, kwargs)`, in flattening order."""
        return [axis for binding in self.bindings for axis in binding.values()]

    def repaired_axes(self, faulty: Call) -> Any:
        """The in_axes of this call, if in them alone it differs from a faulty one."""
        same = all(getattr(self, name) is getattr(faulty, name) for name in _CALLED_WITH)
        return self.in_axes if same else None

    def is_positional(self, position: int) -> bool:
        """Whether a binding is of an argument passed by position, so that in_axes governs it."""
        return position < len(self.args)

    def specs(self) -> list[tuple[Any, str]]:
        """The spec of each positional argument, and what it is called."""
        if isinstance(self.in_axes, tuple):
            return [(spec, f"in_axes[{index}]") for index, spec in enumerate(self.in_axes)]
        return [(self.in_axes, "in_axes")] * len(self.args)

    def repaired(self, repairs: Sequence[Any]) -> Call:
        """A copy of the call with repairs written into it."""
        call = self
        for advice in {r.text: r for r in repairs if isinstance(r, Advice)}.values():
            call = advice.change(call)
        for repair in repairs:
            if isinstance(repair, NewAxes):
                call = dataclasses.replace(call, in_axes=repair.in_axes)
        inside: dict[int, list[Replace | Revalue]] = {}
        for repair in repairs:
            if isinstance(repair, InArgument):
                inside.setdefault(repair.position, []).append(repair.repair)
        if inside:
            axes = [spec for spec, _ in self.specs()]
            for position, its in inside.items():
                axes[position] = respecified(self.bindings[position], its)
            call = dataclasses.replace(call, in_axes=tuple(axes))
        return call

    def change(self, new: Call, repairs: Sequence[Any]) -> str:
        """What to write to get from this call to `new`."""
        said = list(dict.fromkeys(r.text for r in repairs if isinstance(r, Advice)))
        if new.in_axes is not self.in_axes:
            said.append(change("in_axes", self.in_axes, new.in_axes))
        return "; ".join(said)
