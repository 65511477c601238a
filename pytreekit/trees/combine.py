"""`ptk.combine`: trees that have None in each other's places, put together into one."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..faults import Fault
from ..show.errors import raise_faults
from . import nodes, paths
from .difference import as_fault
from .paths import KeyPath
from .sorts import check_sorts


class _Part(NamedTuple):
    """What one of the trees has at a place: the number of the tree, and a node or leaf."""

    number: int
    node: Any


class _Made(NamedTuple):
    """A node to build: its structure, and how many children it takes. None for a finished part."""

    structure: Any
    width: Any
    done: Any = None


def combine(*trees: Any) -> Any:
    """Put trees together that have None in each other's places: the way back from `ptk.partition`.

    At each place at most one of the trees may have a leaf; the others have None there, or for
    all of the subtree. Where all have None, so has the result.

    Args:
        trees: At least one pytree.

    Returns:
        A tree with every leaf of each of them.

    Raises:
        SpecError: PTK205, if nodes differ, or two of the trees have a leaf at one place; PTK001, if
            there are no trees; PTK104, if JAX cannot flatten a tree.

    Examples:
        >>> import pytreekit as ptk
        >>> ptk.combine({"w": 1.0, "act": None}, {"w": None, "act": "relu"})
        {'act': 'relu', 'w': 1.0}
    """
    faults = [
        fault
        for number, tree in enumerate(trees)
        for fault in check_sorts(tree, f"trees[{number}]")
    ]
    if not trees:
        fact = "there are no trees, so there is nothing to combine"
        faults = [Fault("PTK001", "", "", "", "", "", fact=fact)]
    raise_faults(faults, doing="combine")
    parts, faults = _walked([_Part(number, tree) for number, tree in enumerate(trees)])
    raise_faults(faults, doing="combine", where="trees")
    return _built(parts)


def _walked(parts: list[_Part]) -> tuple[list[_Made], list[Fault]]:
    """All places from the root down, each node before its children, and what is wrong there."""
    made: list[_Made] = []
    faults: list[Fault] = []
    pending: list[tuple[KeyPath, list[_Part]]] = [((), parts)]
    while pending:
        path, here = pending.pop()
        there = [part for part in here if part.node is not None]
        if len(there) <= 1:
            made.append(_Made(None, 0, there[0].node if there else None))
            continue
        found = _clashes(path, there)
        if found:
            faults += found
            pending.extend(_shared(path, there))
            continue
        levels = [paths.children(part.node) for part in there]
        children, structure = levels[0]
        made.append(_Made(structure, len(children)))
        for place in reversed(range(len(children))):
            below = [
                _Part(part.number, level[0][place][1])
                for part, level in zip(there, levels, strict=True)
            ]
            pending.append(((*path, children[place][0]), below))
    return made, faults


def _clashes(path: KeyPath, there: list[_Part]) -> list[Fault]:
    """Why the parts at one place cannot be put together."""
    first, *others = there
    faults: list[Fault] = []
    for part in others:
        reference, name = f"trees[{first.number}]", f"trees[{part.number}]"
        leaves = paths.is_leaf(first.node), paths.is_leaf(part.node)
        if all(leaves):
            fact = f"is here and in {reference}, in one of them must be None"
            place = paths.text(path)
            wanted = nodes.told(first.node)
            told = name, place, reference + place, nodes.told(part.node), wanted
            faults.append(Fault("PTK205", *told, fact=fact))
        elif any(leaves) or nodes.matched_children(first.node, part.node) is None:
            found = nodes.node_differences(path, first.node, part.node)
            faults += [as_fault(one, reference, name) for one in found]
    return faults


def _shared(path: KeyPath, there: list[_Part]) -> list[tuple[KeyPath, list[_Part]]]:
    """Where to go on below a clash: what the first of the parts shares with each other."""
    first, *others = there
    if paths.is_leaf(first.node):
        return []
    return [
        ((*path, key), [_Part(first.number, child), _Part(part.number, its)])
        for part in others
        if not paths.is_leaf(part.node)
        for key, child, its in reversed(nodes.shared_children(first.node, part.node))
    ]


def _built(made: list[_Made]) -> Any:
    """The tree of places that stand in the order of `_walked`: from the last to the root."""
    finished: list[Any] = []
    for structure, width, done in reversed(made):
        if structure is None:
            finished.append(done)
        else:
            children = [finished.pop() for _ in range(width)]
            finished.append(structure.unflatten(children))
    return finished[0]
