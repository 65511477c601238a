"""The spec of each leaf: what is asked for, resolved once for all leaves that are alike."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jax.sharding import PartitionSpec
from jax.tree_util import keystr

from ..faults import Fault
from ..show import values as shown
from ..specs.rule_values import is_function
from ..trees import paths
from .entries import BadSpec, Template
from .metadata import metadata_of
from .options import Options
from .plan import PlannedSpec, SpecNote, SpecPlan
from .reading import template
from .remarks import Problem, Remark
from .resolve import Resolved, names_of, resolve
from .shapes import is_single, shape_of, stacks_of
from .sources import NAME, NOTHING, Source, source_of, value_key

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

    @property
    def tree(self) -> Any:
        """The tree of specs."""
        return self.source.treedef.unflatten(self.specs)

    def found(self, index: int) -> str:
        """A leaf by its dtype and shape."""
        return shown.leaf(self.source.leaves[index])

    def path(self, index: int) -> str:
        """The path of a leaf as text."""
        return paths.text(self.source.path(index))

    def text(self, index: int) -> str:
        """The path of a leaf with `/` between its keys."""
        return keystr(self.source.path(index), simple=True, separator="/")

    def plan(self) -> SpecPlan:
        """The plan, if there are no faults."""
        whys = ["one element"] * len(self.specs)
        notes: list[SpecNote] = []
        for group in self.groups:
            why = self.source.sayings[group.alike.number].why
            for index in group.leaves:
                whys[index] = why
            notes += (
                SpecNote(kind, self.path(index), self.text(index), text)
                for kind, text in group.resolved.remarks
                for index in group.leaves
            )
        notes += (SpecNote("idle-axis", "", "", f"{axis} splits nothing") for axis in self.idle())
        leaves = (
            PlannedSpec(self.path(index), self.text(index), self.found(index), spec, whys[index])
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
    templates, bad = _read(source)
    singles, alikes = _sorted(source, stacks.dims, metadata)
    groups = [
        Group(alike, resolved, leaves)
        for alike, leaves in alikes.items()
        if (resolved := _resolved(alike, templates[alike.number], source, options))
    ]
    specs = [WHOLE] * len(source.leaves)
    for group in groups:
        for index in group.leaves:
            specs[index] = group.resolved.spec
    assigned = Assigned(source, specs, groups, [], options)
    assigned.faults = [*bad, *source.faults(singles), *stacks.faults, *_faults(assigned)]
    return assigned


def _read(source: Source) -> tuple[list[Template | None], list[Fault]]:
    """What is said, read; and the faults of what cannot be."""
    known: dict[Any, Template | BadSpec] = {}
    templates: list[Template | None] = []
    faults: list[Fault] = []
    for saying in source.sayings:
        value = saying.value
        if is_function(value):
            templates.append(None)
            continue
        key = value_key(value)
        if key not in known:
            known[key] = _template(value)
        its = known[key]
        templates.append(its if isinstance(its, Template) else None)
        if isinstance(its, BadSpec):
            faults.append(_bad(its, *saying.told()))
    return templates, faults


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
    source: Source, stacks: Sequence[tuple[int, ...]], metadata: Sequence[Any] | None
) -> tuple[set[int], dict[Alike, list[int]]]:
    """The leaves that need no spec, of one element; and the others, by what is alike."""
    singles: set[int] = set()
    alikes: dict[Alike, list[int]] = {}
    single = functools.cache(_is_single)
    for index, (leaf, number) in enumerate(zip(source.leaves, source.numbers, strict=True)):
        shape = shape_of(leaf)
        if single(shape, stacks[index]):
            singles.add(index)
        elif number != NOTHING:
            its = None if metadata is None else metadata[index]
            alikes.setdefault(Alike(number, shape, stacks[index], its), []).append(index)
    return singles, alikes


def _is_single(shape: tuple[Any, ...], stack: tuple[int, ...]) -> bool:
    return is_single(tuple(size for dim, size in enumerate(shape) if dim not in stack))


def _resolved(
    alike: Alike, asked: Template | None, source: Source, options: Options
) -> Resolved | None:
    if asked is None:
        return None
    found = resolve(asked, alike.shape, options, alike.stack)
    by = source.sayings[alike.number].by
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
        place, wanted = assigned.source.sayings[group.alike.number].told()
        found = functools.cache(lambda kind, dtype, leaf=group.leaves[0]: assigned.found(leaf))
        for problem in group.resolved.problems:
            write = hint(assigned, group, problem)
            for index in group.leaves:
                leaf = assigned.source.leaves[index]
                its = found(type(leaf), getattr(leaf, "dtype", None))
                yield fault(problem, assigned.path(index), its, place, wanted, write)


def fault(problem: Problem, path: str, found: str, place: str, wanted: str, hint: str) -> Fault:
    """The fault of a leaf."""
    told = path, place, found, wanted, hint
    return Fault(problem.code, NAME, *told, fact=problem.fact, note=problem.note)
