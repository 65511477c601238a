"""The differences of two trees as data, and as the faults of one of several."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ..faults import Fault
from ..show import differences as show

_FACTS = {
    "keys": "is not in {}",
    "order": "has its keys in another order than in {}",
    "type": "is another type than in {}",
    "length": "has another number of entries than in {}",
    "static": "has other static data than in {}",
    "leaf": "is another kind of leaf than in {}",
    "value": "is not what {} has",
    "shape": "has another shape than in {}",
    "dtype": "has another dtype than in {}",
}


@dataclasses.dataclass(frozen=True)
class Difference:
    """One thing in which two trees differ. All of it is text.

    Args:
        kind: What differs: `"keys"` (one tree lacks a child), `"order"` (of an `OrderedDict`),
            `"type"` (of a node), `"length"` (number of children), `"static"` (static data),
            `"leaf"` (type of leaf), `"value"` (leaves that are no arrays and not equal),
            `"shape"` or `"dtype"`.
        path: Where, as `jax.tree_util.keystr` prints it: `"['layer1']['w']"`.
        a: What the first tree has there, `""` where it has nothing.
        b: What the second has.
    """

    kind: str
    path: str
    a: str
    b: str


@dataclasses.dataclass(frozen=True)
class TreeDiff:
    """All differences of two trees, in flattening order: what `ptk.diff` returns.

    Iterate for each `Difference`; it is false where there is none; `print` tells them.

    Attributes:
        differences: A `Difference` for each.
        names: What the text calls the two trees.

    Examples:
        >>> import pytreekit as ptk
        >>> found = ptk.diff({"w": 1.0, "act": "relu"}, {"w": 1.0, "act": "tanh"})
        >>> bool(found), len(found), [one.kind for one in found]
        (True, 1, ['value'])
    """

    differences: tuple[Difference, ...]
    names: tuple[str, str] = ("a", "b")

    def __len__(self) -> int:
        return len(self.differences)

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    def __str__(self) -> str:
        told = (show.Told(one.kind, one.path, self._sides(one)) for one in self.differences)
        return show.text(told, " and ".join(self.names))

    def _sides(self, one: Difference) -> str:
        a, b = self.names
        if one.a and one.b:
            return f"{a} has {one.a}; {b} has {one.b}"
        return f"only in {a}: {one.a}" if one.a else f"only in {b}: {one.b}"


def under(root: str, found: Iterable[Difference]) -> Iterator[Difference]:
    """Differences of trees that are called `root`: `"x"` for an argument."""
    return (dataclasses.replace(one, path=root + one.path) for one in found)


def as_fault(one: Difference, reference: str, name: str) -> Fault:
    """A difference as the fault of its second tree, held against the first.

    Args:
        one: The difference.
        reference: What messages call the first tree: `"trees[0]"`.
        name: What they call the second.
    """
    there = f"{reference}{one.path}" if one.a else reference
    fact = _FACTS[one.kind].format(reference) if one.b else f"is missing, {reference} has it"
    return Fault("PTK205", name, one.path, there, one.b, one.a, fact=fact)
