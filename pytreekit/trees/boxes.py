"""Boxes: nodes that hold one array and what is said of it, such as flax's `Partitioned`.

A box is told by the type of the node, never by the name of its key: a parameter may be called
`value`, too. No framework is imported here; what is not loaded has no nodes in any tree.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import jax
from jax.tree_util import DictKey, SequenceKey

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from . import paths
from .paths import IsLeaf, KeyPath

_FRAMEWORKS = (
    ("flax.linen", "meta.AxisMetadata"),  # Partitioned, LogicallyPartitioned and their kin
    ("flax.nnx", "Variable"),
    ("haliax", "NamedArray"),
)

_OF_CONTAINERS = {DictKey, SequenceKey}
"""Keys that no box of a framework has for its array."""

_MOST_TYPES = 4096

T = TypeVar("T", bound=type)


class _Registered:
    """The classes that users have registered, and how often that was done."""

    kinds: tuple[type, ...] = ()


def register_box(cls: T) -> T:
    """Let the nodes of a class be boxes: to `ptk.Rules`, the path of an array ends at its box.

    So that `kernel` matches the array in `{"kernel": Quantized(array)}`, whatever key the box has
    for it. Known already are the boxes of flax linen (`Partitioned`, `LogicallyPartitioned`), the
    Variables of flax nnx, and the named arrays of haliax.

    Args:
        cls: A class whose instances are pytree nodes. Its subclasses are boxes, too.

    Returns:
        The class, so that this is also a decorator.

    Raises:
        SpecError: PTK001, if `cls` is no class.

    Examples:
        >>> import dataclasses, jax
        >>> import pytreekit as ptk
        >>> @ptk.register_box
        ... @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass
        ... class Quantized:
        ...     array: jax.Array
        >>> ptk.Rules([("kernel", "k")])({"kernel": Quantized(1.0)})
        {'kernel': Quantized(array='k')}
    """
    if not isinstance(cls, type):
        fact = f"must be a class, this is {values.kind(cls)}"
        raise_faults([Fault("PTK001", "cls", "", "", "", "", fact=fact)], doing="register_box")
    if cls not in _Registered.kinds:
        _Registered.kinds = (*_Registered.kinds, cls)
        _is_box_type.cache_clear()
    return cls


def kinds() -> tuple[type, ...]:
    """The classes of boxes that there are now."""
    return (*_Registered.kinds, *_loaded())


def is_box(node: Any) -> bool:
    """Whether a node is a box."""
    return _is_box_type(type(node))


class Ends:
    """The leaves of a tree, in flattening order, with their paths when these are asked for.

    Attributes:
        leaves: The leaves.
        structure: The structure of the tree, boxes included.
    """

    leaves: list[Any]
    structure: Any

    def __init__(
        self, tree: Any, also: IsLeaf = None, prefix: KeyPath = (), *, paths_first: bool = True
    ) -> None:
        """Flatten a tree.

        Args:
            tree: Any pytree.
            also: What counts as a leaf besides what JAX takes for one.
            prefix: What texts have in front of the path in the tree.
            paths_first: Whether paths will be asked for: they cost less along with the leaves.
        """
        self._tree, self._also, self._prefix = tree, also, prefix
        if paths_first:
            rows, self.structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=also)
            self.leaves = [leaf for _, leaf in rows]
            self.paths = [path for path, _ in rows]
        else:
            self.leaves, self.structure = jax.tree.flatten(tree, is_leaf=also)

    @functools.cached_property
    def paths(self) -> list[KeyPath]:
        """The path of each leaf."""
        return [path for path, _ in paths.leaves_with_paths(self._tree, self._also)]

    @functools.cached_property
    def texts(self) -> list[KeyPath]:
        """The path of each leaf up to its box: what its text is made of."""
        cut = _up_to_boxes(self._tree, self._also, self.paths, self.leaves)
        return [self._prefix + path for path in cut] if self._prefix else cut


def _up_to_boxes(tree: Any, also: IsLeaf, whole: list[KeyPath], leaves: list[Any]) -> list[KeyPath]:
    if not _may_end_in_boxes(whole):
        return whole
    nodes = jax.tree.leaves(tree, is_leaf=_or_box(also))
    if not any(map(is_box, nodes)):
        return whole
    cut: list[KeyPath] = []
    for node in nodes:
        at = len(cut)
        if not is_box(node) or (also is not None and also(node)):
            cut.append(whole[at])
        elif at < len(leaves) and _holds(node, leaves[at]):
            cut.append(whole[at][:-1])
        else:
            below = list(_below(node, also))
            inside = paths.leaves_with_paths(node, also)[:1]
            cut += [whole[at][: -len(inside[0][0])] + its for its in below] if inside else []
    return cut


def _may_end_in_boxes(whole: list[KeyPath]) -> bool:
    """Whether boxes must be looked for: that costs as much as making the paths."""
    if _Registered.kinds:
        return True
    return any(_loaded()) and not {type(path[-1]) for path in whole if path} <= _OF_CONTAINERS


def _holds(box: Any, leaf: Any) -> bool:
    """Whether a box holds this leaf and nothing else."""
    its = jax.tree.leaves(box, is_leaf=lambda node: node is not box)
    return len(its) == 1 and its[0] is leaf


def _below(box: Any, also: IsLeaf) -> Iterator[KeyPath]:
    """The paths of the leaves of a box from the box on; no key that belongs to a box ends one."""
    for key, child in paths.children(box)[0]:
        if paths.is_leaf(child, also):
            yield ()
        elif is_box(child):
            for below in _below(child, also):
                yield (key, *below) if below else ()
        else:
            for below in Ends(child, also).texts:
                yield (key, *below)


def _or_box(also: IsLeaf) -> Any:
    if also is None:
        return is_box
    return lambda node: is_box(node) or also(node)


@functools.lru_cache(_MOST_TYPES)
def _is_box_type(kind: type) -> bool:
    return issubclass(kind, kinds())


def _loaded() -> Iterator[type]:
    """The boxes of the frameworks that are loaded; while one is loading, some may be missing."""
    for module, name in _FRAMEWORKS:
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type):
            yield found
