"""Which parameter each leaf of a state is of: the parameters' structure, laid over the state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...trees import paths
from ...trees.boxes import is_box
from ..shapes import is_single, shape_of

MOST_KNOWN = 1000
"""Structures whose bonds are kept: their hashes say little, so that they are compared in turn."""

NOT_AT_ALL, STRICTLY, BY_KEYS, IN_PART = range(4)
"""How a node of the state may lie over the parameters, each after what the one before has found.

`STRICTLY`: by types and keys. `BY_KEYS`: by the text of keys, whatever holds them: a state that was
restored as dicts, a FrozenDict over a dict, one box over another. `IN_PART`: as that, but it may
lack some of the parameters, and have several arrays for one; then all shapes must follow from
those of the parameters.
"""


class Bond(NamedTuple):
    """What ties a leaf of a state to a parameter.

    Attributes:
        param: The index of the parameter.
        dim: The dimension of it that the leaf keeps a statistic of, None for all of it.
    """

    param: int
    dim: int | None = None


Fits = Callable[[Any, Bond], bool]
"""Whether the shape of a leaf follows from that of a parameter."""


class Node:
    """A node of the parameters; its children are looked up when they are asked for.

    Attributes:
        value: The node itself.
        structure: Its structure.
        first: The index of its first leaf.
    """

    def __init__(self, value: Any, structure: Any, first: int = 0) -> None:
        self.value, self.structure, self.first = value, structure, first

    @functools.cached_property
    def is_leaf(self) -> bool:
        """Whether it is a parameter."""
        return _is_leaf(self.structure)

    @functools.cached_property
    def children(self) -> dict[Any, Node]:
        """Its children by their keys."""
        found: dict[Any, Node] = {}
        first = self.first
        below = paths.children(self.value)[0]
        for (key, child), structure in zip(below, self.structure.children(), strict=True):
            found[key] = Node(child, structure, first)
            first += structure.num_leaves
        return found

    @functools.cached_property
    def by_text(self) -> dict[str, Node]:
        """Its children by the text of their keys."""
        return {text(key): child for key, child in self.children.items()}


def text(key: Any) -> str:
    """A key as it stands in the text of a path."""
    return str(paths.plain(key))


class _Known(NamedTuple):
    """The bonds of a node, its first parameter being 0; None if it does not lie there."""

    bonds: list[Bond] | None


class _Memo:
    """What was found for structures: bounded, and silent where static data cannot be compared."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """What was found, or None."""
        try:
            return self._known.get(key)
        except Exception:  # noqa: BLE001  comparing static data may raise anything
            return None

    def put(self, key: Any, value: Any) -> None:
        """Keep what was found."""
        if len(self._known) >= MOST_KNOWN:
            return
        try:
            self._known[key] = value
        except Exception:  # noqa: BLE001  as above; then it is found anew each time
            return


class Overlay:
    """The parameters, to be laid over states.

    Attributes:
        root: The tree of parameters.
    """

    def __init__(self, params: Any, structure: Any, leaves: Sequence[Any], fits: Fits) -> None:
        """Take the parameters.

        Args:
            params: The tree.
            structure: Its structure.
            leaves: Its leaves.
            fits: Whether the shape of a leaf follows from that of a parameter.
        """
        self.root = Node(params, structure)
        self._ranks = [len(shape_of(leaf)) for leaf in leaves]
        self._bonds = [Bond(index) for index in range(len(leaves))]
        self._fits = fits
        self._known = _Memo()
        self._alike = _Memo()

    def bonds(self, state: Any, structure: Any) -> list[Bond | None]:
        """The parameter of each leaf of a state, None for what is of none."""
        if not self._bonds:
            return [None] * structure.num_leaves
        if self.root.is_leaf:
            return self._of_one(state, structure)
        return self._walk(IN_PART, state, structure)

    def lies_over(self, node: Any, structure: Any, param: Node) -> bool:
        """Whether a node of a state lies over a node of the parameters, and all of it fits."""
        found = self._lay(STRICTLY, node, structure, param)
        return bool(found) and all(map(self._fits, _leaves(node), found))

    def _of_one(self, node: Any, structure: Any) -> list[Bond | None]:
        """Where the parameters are one array, which has no structure: by shape alone."""
        if _is_leaf(structure):
            bond = self._bonds[0]
            alike = not is_single(shape_of(node)) and self._fits(node, bond)
            return [bond if alike else None]
        found = self._by_dimension(STRICTLY, node, structure, self.root)
        if found and all(map(self._fits, _leaves(node), found)):
            return list(found)
        return [bond for its in _below(node, structure) for bond in self._of_one(*its)]

    def _walk(self, how: int, node: Any, structure: Any) -> list[Bond | None]:
        """The bonds below a node: the topmost that lies over the parameters has all of its own."""
        if how == NOT_AT_ALL:
            return [None] * structure.num_leaves
        known = None if how == IN_PART else self._known.get((how, structure))  # shapes have a say
        if known is not None:
            return known
        found: list[Bond | None] = list(self._walk(how - 1, node, structure))
        left = found.count(None)
        if left:
            laid = self._laid(how, node, structure) if left == len(found) else None
            if laid is not None:
                found = list(laid)
            elif not _is_leaf(structure):
                below = _below(node, structure)
                found = [bond for its in below for bond in self._walk(how, *its)]
        if how != IN_PART:
            self._known.put((how, structure), found)
        return found

    def _laid(self, how: int, node: Any, structure: Any) -> list[Bond] | None:
        found = self._lay(how, node, structure, self.root)
        if found and how == IN_PART and not all(map(self._fits, _leaves(node), found)):
            return None
        return found or None

    def _lay(self, how: int, node: Any, structure: Any, param: Node) -> list[Bond] | None:
        """The bonds of a node that lies over a node of the parameters, None if it does not.

        What has no leaves may stand for any parameter, as optax's `MaskedNode` does.
        """
        count = structure.num_leaves
        if not count:
            return []
        if not param.structure.num_leaves:
            return None
        if type(node) is type(param.value) and paths.same(structure, param.structure):
            return self._bonds[param.first : param.first + count]
        if _is_end(how, param.value, param.structure):
            return self._over_end(how, node, structure, param)
        if _is_leaf(structure) or (how == STRICTLY and type(node) is not type(param.value)):
            return None
        return self._over_node(how, node, structure, param)

    def _over_node(self, how: int, node: Any, structure: Any, param: Node) -> list[Bond] | None:
        """As `_lay`; what is alike in every layer of a model is looked at once."""
        first = param.first
        ranks = tuple(self._ranks[first : first + param.structure.num_leaves])
        key = how, type(node), structure, type(param.value), param.structure, ranks
        known = self._alike.get(key)
        if known is None:
            found = self._over_children(how, node, structure, param)
            known = _Known(None if found is None else [Bond(n - first, dim) for n, dim in found])
            self._alike.put(key, known)
        if known.bonds is None:
            return None
        bonds = self._bonds
        return [bonds[first + n] if dim is None else Bond(first + n, dim) for n, dim in known.bonds]

    def _over_children(self, how: int, node: Any, structure: Any, param: Node) -> list[Bond] | None:
        there: dict[Any, Node] = dict(param.children if how == STRICTLY else param.by_text)
        found: list[Bond] = []
        below = paths.children(node)[0]
        for (key, child), its in zip(below, structure.children(), strict=True):
            other = there.pop(key if how == STRICTLY else text(key), None)
            if other is None and its.num_leaves:
                return None
            laid = self._lay(how, child, its, other) if other is not None else []
            if laid is None:
                return None
            found += laid
        lacks = any(other.structure.num_leaves for other in there.values())
        return None if lacks and how != IN_PART else found

    def _over_end(self, how: int, node: Any, structure: Any, param: Node) -> list[Bond] | None:
        """Over a parameter lies a leaf, or a list with one for each dimension; or, in part, all."""
        bond = self._bonds[param.first]
        if _is_end(how, node, structure):
            return [bond]
        found = self._by_dimension(how, node, structure, param)
        if found is None and how == IN_PART:
            return [bond] * structure.num_leaves
        return found

    def _by_dimension(self, how: int, node: Any, structure: Any, param: Node) -> list[Bond] | None:
        rank = self._ranks[param.first]
        if not rank or structure.num_leaves != rank or structure.num_nodes != rank + 1:
            return None
        if type(node) not in {list, tuple}:
            keys = [text(key) for key, _ in paths.children(node)[0]]
            if how == STRICTLY or keys != [str(dim) for dim in range(rank)]:
                return None
        return [Bond(param.first, dim) for dim in range(rank)]


def _is_leaf(structure: Any) -> bool:
    return structure.num_nodes == structure.num_leaves == 1  # JAX also calls an empty node a leaf


def _is_end(how: int, node: Any, structure: Any) -> bool:
    """Whether a node is an array, or, where types do not count, the box of one."""
    if _is_leaf(structure):
        return True
    return how != STRICTLY and structure.num_leaves == 1 and is_box(node)


def _below(node: Any, structure: Any) -> list[tuple[Any, Any]]:
    """The children of a node with their structures."""
    below = paths.children(node)[0]
    return [(child, its) for (_, child), its in zip(below, structure.children(), strict=True)]


def _leaves(node: Any) -> list[Any]:
    return [leaf for _, leaf in paths.leaves_with_paths(node)]
