"""Bind a spec tree to a tree: one value for each leaf, by exactly the prefix rules of JAX."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..faults import Fault
from ..trees import paths
from ..trees.paths import IsLeaf, KeyPath
from .finding import Finding
from .meeting import Meeting
from .mismatch import mismatches
from .rest import expanded
from .ruled import is_rules

if TYPE_CHECKING:
    from .rules import Rules


class Bound(NamedTuple):
    """A leaf and the spec value that governs it.

    Attributes:
        path: The key path of the leaf in its tree.
        spec_path: The key path of the value in the spec: a prefix of `path`.
        leaf: The leaf.
        value: The spec value.
    """

    path: KeyPath
    spec_path: KeyPath
    leaf: Any
    value: Any


class _Ruled(NamedTuple):
    """The rule of a leaf: where it stands in the spec, and the text of the leaf that it takes."""

    place: str
    text: str


class Entry(NamedTuple):
    """A value of the spec, and the subtree that it speaks for. Both lie at `path`."""

    path: KeyPath
    value: Any
    subtree: Any


class Binding:
    """A spec tree bound to a tree. Iterate for a `Bound` per leaf, in flattening order.

    Attributes:
        spec: The spec tree, with the tree's own keys in the place of every `...`.
        tree: The tree.
        name: What messages call the tree.
        spec_name: What messages call the spec.
        entries: The values of the spec, each with the subtree that it governs.
        findings: Where the two structures do not match, with repairs to try.

    Args:
        is_leaf: What counts as a leaf of the tree besides what JAX takes for one.
        fill: The value to propose for a place of the tree that the spec has none for.
        prefix: The keys that the tree is taken to lie below, for `ptk.Rules` in the spec.
    """

    def __init__(
        self,
        spec: Any,
        tree: Any,
        name: str,
        spec_name: str,
        is_leaf: IsLeaf = None,
        fill: Any = None,
        prefix: KeyPath = (),
    ) -> None:
        self.spec, self._from_rest = expanded(spec, tree, is_leaf)
        self.tree = tree
        self.name = name
        self.spec_name = spec_name
        self.is_leaf = is_leaf
        self.entries: list[Entry] = []
        self._prefix = prefix
        self._ruled: dict[KeyPath, _Ruled] = {}
        self.findings = [
            *check_sorts(self.spec, Fault("PTK104", "", "", spec_name, "", "")),
            *check_sorts(tree, Fault("PTK104", name, "", "", "dict", "")),
        ]
        if not self.findings:
            self._walk(fill)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Where the two structures do not match."""
        return tuple(finding.fault for finding in self.findings)

    def __iter__(self) -> Iterator[Bound]:
        for path, value, subtree in self.entries:
            for below, leaf in paths.leaves_with_paths(subtree, self.is_leaf):
                yield Bound(path + below, path, leaf, value)

    def values(self) -> list[Any]:
        """The spec value of each leaf, in flattening order, without making any path."""
        values: list[Any] = []
        for _, value, subtree in self.entries:
            values.extend([value] * paths.count_leaves(subtree, self.is_leaf))
        return values

    def fault(self, code: str, bound: Bound, found: str, wanted: str, **more: Any) -> Fault:
        """A fault of one leaf, at its place."""
        place = self.name, paths.text(bound.path), self.place(bound.spec_path)
        return Fault(code, *place, found, wanted, **more)

    def text(self, path: KeyPath) -> str | None:
        """The text of a leaf that a rule takes, None for one that none does."""
        return self._ruled[path].text if path in self._ruled else None

    def place(self, path: KeyPath) -> str:
        """Where the entry at a path stands in the spec, as the user wrote it."""
        return self.spec_name + self._written(path)

    def _written(self, path: KeyPath) -> str:
        """A path in the spec as the user wrote it: with `[...]` where that stands, or by a rule."""
        if path in self._ruled:
            return self._ruled[path].place
        if not self._from_rest:
            return paths.text(path)
        keys = [
            "[...]" if path[: depth + 1] in self._from_rest else paths.text((key,))
            for depth, key in enumerate(path)
        ]
        return "".join(keys)

    def _walk(self, fill: Any) -> None:
        """Go down both trees side by side, without recursion: specs may be as deep as trees are."""
        pending: list[tuple[KeyPath, Any, Any]] = [((), self.spec, self.tree)]
        while pending:
            path, spec, tree = pending.pop()
            if is_rules(spec):
                self._follow(path, spec, tree)
                continue
            if spec is None or paths.is_leaf(spec):
                self.entries.append(Entry(path, spec, tree))
                continue
            spec_children, spec_structure = paths.children(spec)
            leaf = paths.is_leaf(tree, self.is_leaf)
            children, structure = ([], None) if leaf else paths.children(tree)
            if paths.same_level(spec, spec_structure, tree, structure):
                below = zip(spec_children, children, strict=True)
                shared = [((*path, key), child, node) for (key, child), (_, node) in below]
            else:
                met = Meeting(self.name, self.spec_name, path, spec, tree, leaf, fill)
                self.findings += mismatches(met)
                shared = _shared(path, spec_children, children)
            pending.extend(reversed(shared))

    def _follow(self, path: KeyPath, rules: Rules, tree: Any) -> None:
        """The entry of each leaf below a place where rules stand."""
        from .matcher import NO_RULE
        from .rule_values import UNMATCHED

        found = rules.assign(tree, is_leaf=self.is_leaf, prefix=self._prefix)
        place = self._written(path)
        for fault in found.faults(self.name + paths.text(path), f"{self.spec_name}{place}.entries"):
            its = {"argument": self.name, "path": fault.place.removeprefix(self.name)}
            self.findings.append(Finding(dataclasses.replace(fault, **its)))
        for index, (leaf, value) in enumerate(zip(found.leaves, found.unread(), strict=True)):
            if value is UNMATCHED:
                continue
            here = path + found.path(index)
            number = found.numbers[index]
            at = ".default" if number == NO_RULE else f"[{rules.patterns[number].text!r}]"
            self._ruled[here] = _Ruled(place + at, found.text(index))
            self.entries.append(Entry(here, value, leaf))


def bind(spec: Any, tree: Any, *, name: str = "tree", spec_name: str = "spec") -> Binding:
    """Bind a spec tree to a tree, as JAX matches a prefix: one spec value for each leaf.

    The engine behind every check of pytreekit, for authors of other transformations. `None` and
    whatever JAX takes for a leaf is a spec value and governs all that lies below its place.
    Below that, containers must agree in type, keys and static data. A dict may have the key `...`,
    for the children of its node that it does not name. `ptk.Rules` give each leaf below their place
    a value by its path from there; a function of theirs is a value here, a function of the leaf. A
    mismatch does not stop the walk: it goes on with what both sides share, so that `.faults` has
    every mismatch.

    Args:
        spec: A pytree prefix of `tree`, of values of any kind (axes, PartitionSpecs, bools, ...).
        tree: Any pytree; its leaves are only looked at to tell what they are.
        name: What messages call the tree: the parameter's name.
        spec_name: What messages call the spec: `"in_axes[0]"`.

    Returns:
        An iterable of `(path, spec_path, leaf, value)`, one for each leaf that has a value, in
        flattening order, with the mismatches in `.faults`.

    Raises:
        SpecError: PTK001, if `name` or `spec_name` is no string.

    Examples:
        >>> import pytreekit as ptk
        >>> bound = ptk.bind({"w": None, "b": 0}, {"w": [1.0, 2.0], "b": 3.0}, name="params")
        >>> [(value, leaf) for _, _, leaf, value in bound]
        [(0, 3.0), (None, 1.0), (None, 2.0)]
        >>> ptk.bind({"w": 0}, {"w": 1.0, "b": 2.0}, name="params").faults[0].path
        "['b']"

    The rules are those of `jax.tree.broadcast` and of the `in_axes` of `jax.vmap`.
    """
    from ..show.errors import raise_faults

    wrong = [
        Fault("PTK001", option, "", "", type(value).__name__, "", fact="must be a str")
        for option, value in (("name", name), ("spec_name", spec_name))
        if not isinstance(value, str)
    ]
    raise_faults(wrong, doing="bind")
    return Binding(spec, tree, name, spec_name)


def _shared(
    path: KeyPath, spec_children: list[tuple[Any, Any]], children: list[tuple[Any, Any]]
) -> list[tuple[KeyPath, Any, Any]]:
    """The children that two unlike nodes have in common, by key."""
    there = {paths.text((key,)): child for key, child in children}
    keyed = [(key, paths.text((key,)), child) for key, child in spec_children]
    return [((*path, key), child, there[name]) for key, name, child in keyed if name in there]


def check_sorts(tree: Any, fault: Fault) -> list[Finding]:
    """The fault of a dict whose keys do not sort: to JAX it is no tree at all."""
    try:
        paths.count_leaves(tree)
    except ValueError:
        path = paths.unsortable(tree)
        if path is None:
            raise
        place = {"path": paths.text(path)} if fault.argument else {}
        where = fault.spec_path + paths.text(path) if fault.spec_path else ""
        fact = "has keys that do not sort, so JAX cannot flatten it"
        return [Finding(dataclasses.replace(fault, spec_path=where, fact=fact, **place))]
    return []
