"""The spec of each leaf: what is asked for, resolved once for all leaves that are alike."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec

from ..faults import Fault
from ..show import values as shown
from ..specs.rule_values import is_function
from .asked import source_of
from .entries import BadSpec, Template
from .metadata import metadata_of
from .options import Options
from .plan import PlannedSpec, SpecNote, SpecPlan
from .reading import template
from .remarks import Problem, Remark
from .resolve import Resolved, names_of, resolve
from .shapes import is_single, shape_of, stacks_of, without
from .sources import NAME, NOTHING, Source, value_key

WHOLE = PartitionSpec()


class Alike(NamedTuple):
    """What leaves that are treated as one have in common.

    Attributes:
        number: The index of what is said of them.
        shape: Their shape.
        stack: The dimensions of theirs that are stacks.
        metadata: The spec in their metadata.
    """

    number: int
    shape: tuple[Any, ...]
    stack: tuple[int, ...]
    metadata: PartitionSpec | None


class _Reading(NamedTuple):
    """What is said, read, and a number that is the same for all that says the same."""

    kind: int
    asked: Template


class Group(NamedTuple):
    """Leaves that are treated as one: what they have in common, what comes of it, and which."""

    alike: Alike
    resolved: Resolved
    leaves: list[int]


@dataclasses.dataclass
class Assigned:
    """The spec of each leaf of a tree.

    Attributes:
        source: What is said of each leaf.
        specs: The spec of each, as far as it can be said.
        groups: The leaves that something is said of, by what is alike; those with one element alone
            are in none.
        faults: All that is wrong.
        options: What the specs were made with.
    """

    source: Source
    specs: list[PartitionSpec]
    groups: list[Group]
    faults: list[Fault]
    options: Options
    _known: dict[Any, str] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def tree(self) -> Any:
        """The tree of specs."""
        return self.source.treedef.unflatten(self.specs)

    def found(self, index: int) -> str:
        """A leaf by its dtype and shape."""
        leaf = self.source.leaves[index]
        if type(leaf) is not jax.ShapeDtypeStruct or leaf.sharding is not None:
            return shown.leaf(leaf)
        alike = leaf.shape, leaf.dtype
        if alike not in self._known:
            self._known[alike] = shown.leaf(leaf)
        return self._known[alike]

    def plan(self) -> SpecPlan:
        """The plan, if there are no faults."""

        def place(index: int) -> tuple[str, str]:
            return self.source.path(index), self.source.text(index)

        whys = [("one element", "")] * len(self.specs)
        notes: list[SpecNote] = []
        for group in self.groups:
            saying = self.source.sayings[group.alike.number]
            for index in group.leaves:
                whys[index] = saying.why(index), saying.told(index)[1]
            notes += (
                SpecNote(kind, *place(index), text)
                for kind, text in group.resolved.remarks
                for index in group.leaves
            )
        idle = self.idle() if self.groups else []
        notes += (SpecNote("idle-axis", "", "", f"{axis} splits nothing") for axis in idle)
        leaves = (
            PlannedSpec(*place(index), self.found(index), spec, *whys[index])
            for index, spec in enumerate(self.specs)
        )
        return SpecPlan(self.tree, tuple(leaves), tuple(notes), self.options.mesh.sizes)

    def idle(self) -> list[str]:
        """The axes of the mesh that split nothing, though they could."""
        used = {name for group in self.groups for name in names_of(group.resolved.spec)}
        sizes = self.options.mesh.sizes
        return [name for name, size in sizes.items() if size > 1 and name not in used]


def assign(
    tree: Any, rules: Any, options: Options, stack: Any, doing: str, spec_name: str = "rules"
) -> Assigned:
    """The spec that rules, a spec tree or metadata give each leaf, and all that is wrong.

    Raises:
        SpecError: PTK001, PTK306 or PTK104, if there is nothing to go by.
    """
    metadata = metadata_of(tree)
    source = source_of(tree, rules, metadata, doing, spec_name)
    stacks = stacks_of(tree, source.leaves, stack)
    readings, bad = _read(source)
    singles, alikes = _sorted(source, stacks.dims, metadata or itertools.repeat(None))
    groups = list(_groups(alikes, readings, source, options))
    specs = [WHOLE] * len(source.leaves)
    for group in groups:
        for index in group.leaves:
            specs[index] = group.resolved.spec
    assigned = Assigned(source, specs, groups, [], options)
    assigned.faults = [*bad, *source.faults(singles), *stacks.faults, *_faults(assigned)]
    return assigned


def _read(source: Source) -> tuple[list[_Reading | None], list[Fault]]:
    """What is said, read; and the faults of what cannot be."""
    known: dict[Any, _Reading | BadSpec] = {}
    readings: list[_Reading | None] = []
    faults: list[Fault] = []
    for saying in source.sayings:
        if is_function(saying.value):
            readings.append(None)
            continue
        key = value_key(saying.value), saying.by
        if key not in known:
            asked = _template(saying.value)
            known[key] = _Reading(len(known), asked) if isinstance(asked, Template) else asked
        its = known[key]
        readings.append(its if isinstance(its, _Reading) else None)
        if isinstance(its, BadSpec):
            number = len(readings) - 1
            entry = saying.by == "an entry"  # a rule stands in one place, an entry in several
            places = [n for n, one in enumerate(source.numbers) if one == number] if entry else [0]
            faults += [_bad(its, *saying.told(index)) for index in places]
    return readings, faults


def _groups(
    alikes: dict[Alike, list[int]],
    readings: Sequence[_Reading | None],
    source: Source,
    options: Options,
) -> Iterator[Group]:
    known: dict[Any, Resolved] = {}
    for alike, leaves in alikes.items():
        reading = readings[alike.number]
        if reading is None:
            continue
        key = (reading.kind, *alike[1:])
        if key not in known:
            by = source.sayings[alike.number].by
            known[key] = _resolved(alike, reading.asked, by, options)
        yield Group(alike, known[key], leaves)


def _template(value: Any) -> Template | BadSpec:
    try:
        return template(value)
    except BadSpec as bad:
        return bad


def _bad(bad: BadSpec, place: str, wanted: str) -> Fault:
    hint = ""
    if bad.instead and isinstance(_template(ast.literal_eval(bad.instead)), Template):
        hint = f"write {bad.instead}"
    return Fault("PTK306", "", "", place, "", wanted, hint=hint, fact=bad.fact, note=bad.note)


def _sorted(
    source: Source, stacks: Iterable[tuple[int, ...]], metadata: Iterable[Any]
) -> tuple[set[int], dict[Alike, list[int]]]:
    """The leaves that need no spec, of one element; and the others, by what is alike."""
    found: dict[tuple[Any, ...], list[int]] = {}
    shapes = map(shape_of, source.leaves)
    for index, key in enumerate(zip(source.numbers, shapes, stacks, metadata, strict=False)):
        its = found.get(key)
        if its is None:
            found[key] = [index]
        else:
            its.append(index)
    singles: set[int] = set()
    alikes: dict[Alike, list[int]] = {}
    for key, leaves in found.items():
        alike = Alike(*key)
        if is_single(without(alike.shape, alike.stack)):
            singles.update(leaves)
        elif alike.number != NOTHING:
            alikes[alike] = leaves
    return singles, alikes


def _resolved(alike: Alike, asked: Template, by: str, options: Options) -> Resolved:
    stack = alike.stack
    if by == "metadata" and len(asked.entries) + len(stack) > len(alike.shape):
        stack = ()  # they speak of the stack as well, as those of flax's scan do
    found = resolve(asked, alike.shape, options, stack)
    told = list(found.remarks)
    if by in {"the default", "nobody"}:
        text = "no rule matches it" if by == "the default" else "it has no metadata"
        told.append(Remark("defaulted", text))
    if by != "metadata" and alike.metadata is not None and not found.problems:
        its = resolve(template(alike.metadata), alike.shape, options)
        if its.problems or its.spec != found.spec:
            told.append(Remark("metadata", f"its metadata have {shown.spec(alike.metadata)}"))
    return found._replace(remarks=tuple(told))


def _faults(assigned: Assigned) -> Iterator[Fault]:
    from .mending import hint

    for group in assigned.groups:
        if not group.resolved.problems:
            continue
        told = assigned.source.sayings[group.alike.number].told
        found = functools.cache(lambda kind, dtype, leaf=group.leaves[0]: assigned.found(leaf))
        for problem in group.resolved.problems:
            write = hint(assigned, group, problem)
            for index in group.leaves:
                leaf = assigned.source.leaves[index]
                its = found(type(leaf), getattr(leaf, "dtype", None))
                yield fault(problem, assigned.source.path(index), its, *told(index), write)


def fault(problem: Problem, path: str, found: str, place: str, wanted: str, hint: str) -> Fault:
    """The fault of a leaf."""
    told = path, place, found, wanted, hint
    return Fault(problem.code, NAME, *told, fact=problem.fact, note=problem.note)
