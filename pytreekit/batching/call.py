"""One call of a vmapped function under its in_axes: bound, checked, repaired."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jax.tree_util import DictKey, SequenceKey

from ..compat import is_batched_sparse
from ..specs import arguments, by_name
from ..specs.bind import Binding
from ..specs.by_name import Named, Passed
from ..specs.finding import Replace, Revalue
from ..specs.repair import change, respecified
from ..specs.ruled import is_rules
from .annotations import Declared


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
        in_axes: An int, None, a tuple with a spec for each positional argument, a dict with one
            for each parameter, or rules over the paths of all arguments, each from its name on.
        args: The positional arguments.
        kwargs: The keyword arguments; unless in_axes is by name, all mapped over axis 0, as
            `jax.vmap` has it.
        axis_size: The size of the mapped axis, None to take it from the arguments.
        spmd_axis_name: As `jax.vmap` takes it.
        chunk_size: How many examples are mapped at once, None for all.
        keep_axis: Whether the function gets each example as a batch of one.
        declared: What the annotations of `fun` say of one example, None for nothing.
        broadcasts: Whether an output may be broadcast to the axis size, though nothing is mapped.
    """

    fun: Callable[..., Any]
    in_axes: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    axis_size: Any = None
    spmd_axis_name: Any = None
    chunk_size: int | None = None
    keep_axis: bool = False
    declared: Declared | None = None
    broadcasts: bool = True

    @functools.cached_property
    def passed(self) -> tuple[Passed, ...]:
        """The arguments: by position, then by keyword in the order of flattening."""
        return tuple(by_name.passed(self.fun, len(self.args), self.kwargs))

    @property
    def values(self) -> list[Any]:
        """The values of the arguments, in the order of `passed`."""
        return [*self.args, *(self.kwargs[name] for name in sorted(self.kwargs))]

    @functools.cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """A binding for each argument that has an entry in in_axes."""
        rows = zip(self.values, self.passed, self.specs(), strict=True)
        return tuple(
            Binding(
                spec, value, argument.name, place, is_batched_sparse, prefix=self._prefix(argument)
            )
            for value, argument, (spec, place) in rows
        )

    def _prefix(self, argument: Passed) -> tuple[Any, ...]:
        """The keys that the paths of an argument have in front: its name, if rules govern all."""
        if not self.is_by_rule:
            return ()
        extra = () if argument.extra is None else (SequenceKey(argument.extra),)
        return (DictKey(argument.parameter), *extra)

    @property
    def mismatched(self) -> bool:
        """Whether the specs are no prefix of the arguments."""
        if self.is_by_name:
            entries = self.has_other_extras or not all(its.found for its in self.entries)
        else:
            entries = isinstance(self.in_axes, tuple) and len(self.in_axes) != len(self.args)
        return entries or any(binding.findings for binding in self.bindings)

    @property
    def has_other_extras(self) -> bool:
        """Whether in_axes by name has a tuple of another length for the extra ones of `*args`."""
        extras = [its for its in self.passed if its.extra is not None]
        name = extras[0].parameter if extras else arguments.rest_name(self.fun)
        spec = self.in_axes.get(name)
        return type(spec) is tuple and len(spec) != len(extras)

    def axes(self) -> list[Any]:
        """The axis of each leaf of `(args, kwargs)`, in flattening order."""
        return [axis for binding in self.bindings for axis in binding.values()]

    def repaired_axes(self, faulty: Call) -> Any:
        """The in_axes of this call, if in them alone it differs from a faulty one."""
        same = all(getattr(self, name) is getattr(faulty, name) for name in _CALLED_WITH)
        return self.in_axes if same else None

    @functools.cached_property
    def entries(self) -> tuple[Named, ...]:
        """The entry of each argument in in_axes, which are by name."""
        return tuple(by_name.entry(self.in_axes, its, "in_axes") for its in self.passed)

    @property
    def is_by_name(self) -> bool:
        """Whether in_axes is keyed by the names of parameters."""
        return isinstance(self.in_axes, dict)

    @property
    def is_by_rule(self) -> bool:
        """Whether in_axes are rules over the paths of all arguments."""
        return is_rules(self.in_axes)

    def governs(self, position: int) -> bool:
        """Whether in_axes governs an argument; if not, it is a keyword, mapped over axis 0."""
        return self.is_by_name or self.is_by_rule or position < len(self.args)

    def specs(self) -> list[tuple[Any, str]]:
        """The spec of each argument, and where it stands."""
        if self.is_by_name:
            return [(its.spec, its.place) for its in self.entries]
        if self.is_by_rule:
            return [(self.in_axes, "in_axes")] * len(self.passed)
        keywords = [(0, "axis of every keyword")] * len(self.kwargs)
        if not isinstance(self.in_axes, tuple):
            return [(self.in_axes, "in_axes")] * len(self.args) + keywords
        positional = [(spec, f"in_axes[{index}]") for index, spec in enumerate(self.in_axes)]
        missing = [(None, "in_axes")] * (len(self.args) - len(positional))
        return [*positional[: len(self.args)], *missing, *keywords]

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
        axes = {
            position: respecified(self.bindings[position], its) for position, its in inside.items()
        }
        return dataclasses.replace(call, in_axes=self._with(axes)) if axes else call

    def _with(self, axes: Mapping[int, Any]) -> Any:
        """The in_axes with other specs for some arguments."""
        if self.is_by_rule:
            kept = len(self.in_axes.entries)
            new = [rule for spec in axes.values() for rule in spec.entries[: -kept or None]]
            pairs = [(rule.pattern.text, rule.value) for rule in new]
            return self.in_axes | type(self.in_axes)(pairs, split=self.in_axes.split)
        if not self.is_by_name:
            one_for_all = [self.in_axes] * len(self.args)
            specs = self.in_axes if isinstance(self.in_axes, tuple) else one_for_all
            return tuple(axes.get(position, spec) for position, spec in enumerate(specs))
        in_axes, extras = self.in_axes, sum(its.extra is not None for its in self.passed)
        for position, spec in axes.items():
            in_axes = by_name.with_entry(in_axes, self.passed[position], spec, extras)
        return in_axes

    def change(self, new: Call, repairs: Sequence[Any]) -> str:
        """What to write to get from this call to `new`."""
        said = list(dict.fromkeys(r.text for r in repairs if isinstance(r, Advice)))
        if new.in_axes is not self.in_axes:
            said.append(change("in_axes", self.in_axes, new.in_axes))
        return "; ".join(said)
