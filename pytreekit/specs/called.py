"""One call under a spec of all its arguments: bound to each, and repaired."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from jax.tree_util import DictKey, SequenceKey

from ..trees.paths import IsLeaf, KeyPath
from ..trees.replace import replaced
from . import arguments, by_name
from .bind import Binding
from .by_name import Named, Passed
from .finding import Replace, Revalue
from .repair import change, respecified
from .ruled import is_rules


class InArgument(NamedTuple):
    """A repair of the spec of one argument, counted through the bindings of a call."""

    position: int
    repair: Replace | Revalue


class NewSpec(NamedTuple):
    """Another spec of all arguments altogether."""

    spec: Any


class Advice(NamedTuple):
    """A repair of the call itself, in words and as a change that can be checked."""

    text: str
    change: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Called:
    """Arguments, and a spec of all of them: what the call of any transformation has.

    A transformation has a subclass, with a field of the name `spec_name` for the spec.

    Attributes:
        spec_name: What the spec is called.
        fills: What to propose for an argument that has no entry, in this order.
        fill: What to propose for a place in an argument that has none.
        of_keywords: The spec of an argument by keyword where the spec is by position, and where
            that stands.
        is_leaf: What counts as a leaf of an argument besides what JAX takes for one.
        fun: The function, for the names of its parameters.
        args: The positional arguments.
        kwargs: The keyword arguments.
    """

    spec_name: ClassVar[str]
    fills: ClassVar[tuple[Any, ...]]
    of_keywords: ClassVar[tuple[Any, str]]
    is_leaf: ClassVar[IsLeaf] = None

    fill: ClassVar[Any] = None

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def spec(self) -> Any:
        """One spec for all arguments, a tuple with one for each, a dict by name, or rules."""
        return getattr(self, self.spec_name)

    def with_spec(self, spec: Any) -> Any:
        """The call under another spec."""
        return dataclasses.replace(self, **{self.spec_name: spec})

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
        """A binding for each argument that has an entry in the spec."""
        rows = zip(self.values, self.passed, self.specs(), strict=True)
        return tuple(
            Binding(
                spec,
                value,
                argument.name,
                place,
                type(self).is_leaf,
                self.fill,
                self._prefix(argument),
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
            entries = isinstance(self.spec, tuple) and len(self.spec) != len(self.args)
        return entries or any(binding.findings for binding in self.bindings)

    @property
    def has_other_extras(self) -> bool:
        """Whether the spec by name has a tuple of another length for the extra ones of `*args`."""
        extras = [its for its in self.passed if its.extra is not None]
        name = extras[0].parameter if extras else arguments.rest_name(self.fun)
        spec = self.spec.get(name)
        return type(spec) is tuple and len(spec) != len(extras)

    @functools.cached_property
    def entries(self) -> tuple[Named, ...]:
        """The entry of each argument in the spec, which is by name."""
        return tuple(by_name.entry(self.spec, its, self.spec_name) for its in self.passed)

    @property
    def is_by_name(self) -> bool:
        """Whether the spec is keyed by the names of parameters."""
        return isinstance(self.spec, dict)

    @property
    def is_by_rule(self) -> bool:
        """Whether the spec is rules over the paths of all arguments."""
        return is_rules(self.spec)

    def governs(self, position: int) -> bool:
        """Whether the spec governs an argument, not so a keyword beside a spec by position."""
        return self.is_by_name or self.is_by_rule or position < len(self.args)

    def specs(self) -> list[tuple[Any, str]]:
        """The spec of each argument, and where it stands."""
        if self.is_by_name:
            return [(its.spec, its.place) for its in self.entries]
        if self.is_by_rule:
            return [(self.spec, self.spec_name)] * len(self.passed)
        keywords = [self.of_keywords] * len(self.kwargs)
        if not isinstance(self.spec, tuple):
            return [(self.spec, self.spec_name)] * len(self.args) + keywords
        positional = [(spec, f"{self.spec_name}[{index}]") for index, spec in enumerate(self.spec)]
        missing = [(None, self.spec_name)] * (len(self.args) - len(positional))
        return [*positional[: len(self.args)], *missing, *keywords]

    def repaired(self, repairs: Sequence[Any]) -> Any:
        """A copy of the call with repairs written into it."""
        call: Any = self
        for advice in {r.text: r for r in repairs if isinstance(r, Advice)}.values():
            call = advice.change(call)
        for repair in repairs:
            if isinstance(repair, NewSpec):
                call = call.with_spec(repair.spec)
        inside: dict[int, list[Replace | Revalue]] = {}
        for repair in repairs:
            if isinstance(repair, InArgument):
                inside.setdefault(repair.position, []).append(repair.repair)
        specs = {
            position: respecified(self.bindings[position], its) for position, its in inside.items()
        }
        return call.with_spec(self._with(specs)) if specs else call

    def _with(self, new: Mapping[int, Any]) -> Any:
        """The spec with others for some arguments."""
        if self.is_by_rule:
            kept = len(self.spec.entries)
            first = [rule for spec in new.values() for rule in spec.entries[: -kept or None]]
            pairs = [(rule.pattern.text, rule.value) for rule in first]
            return self.spec | type(self.spec)(pairs, split=self.spec.split)
        if not self.is_by_name:
            one_for_all = [self.spec] * len(self.args)
            specs = self.spec if isinstance(self.spec, tuple) else one_for_all
            return tuple(new.get(position, spec) for position, spec in enumerate(specs))
        whole, extras = self.spec, sum(its.extra is not None for its in self.passed)
        for position, spec in new.items():
            whole = by_name.with_entry(whole, self.passed[position], spec, extras)
        return whole

    def with_argument(self, position: int, path: KeyPath, new: Any) -> Any:
        """The call with something else at a path of one argument, counted through the bindings."""
        name = self.passed[position].name
        if name in self.kwargs:
            value = replaced(self.kwargs[name], {path: new})
            return dataclasses.replace(self, kwargs={**self.kwargs, name: value})
        args = list(self.args)
        args[position] = replaced(args[position], {path: new})
        return dataclasses.replace(self, args=tuple(args))

    def change(self, new: Any, repairs: Sequence[Any]) -> str:
        """What to write to get from this call to `new`."""
        said = list(dict.fromkeys(r.text for r in repairs if isinstance(r, Advice)))
        if new.spec is not self.spec:
            said.append(change(self.spec_name, self.spec, new.spec))
        return "; ".join(said)
