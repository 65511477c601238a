"""A second look at `init`: run for shapes, on parameters whose equal dimensions are told apart."""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from ...show import values
from ...trees import paths
from ...trees.boxes import Ends
from ...trees.leaves import is_array
from ..shapes import shape_of
from .overlay import text
from .shape_reading import Shape


class Probed(NamedTuple):
    """What `init` makes of the widened parameters.

    Attributes:
        wide: The shape of each parameter.
        shapes: The shape of each leaf of the state, by its index, as far as it was found.
        failure: Why there are none.
    """

    wide: list[Shape]
    shapes: dict[int, Shape]
    failure: str = ""


def told_apart(shape: Shape) -> Shape:
    """A shape without equal dimensions, the order of which by size stays, also that of equal ones.

    >>> told_apart((256, 512, 256))
    (256, 512, 257)
    """
    if not all(isinstance(size, int) for size in shape):
        return shape
    wide = list(shape)
    least = 0
    for dim in sorted(range(len(shape)), key=lambda dim: (shape[dim], dim)):
        wide[dim] = least = max(shape[dim], least + 1)
    return tuple(wide)


def probe(
    init: Callable[[Any], Any],
    leaves: Sequence[Any],
    structure: Any,
    widened: Collection[int],
    state: Any,
) -> Probed:
    """Run `init` for shapes alone.

    Args:
        init: The function from parameters to a state, or to a part of one.
        leaves: The parameters.
        structure: Their structure.
        widened: The indices of those whose equal dimensions are to be told apart.
        state: The state whose leaves are looked for in what `init` makes.
    """
    shapes = [shape_of(leaf) for leaf in leaves]
    wide = [told_apart(shape) if n in widened else shape for n, shape in enumerate(shapes)]
    arrays = {
        index: jax.ShapeDtypeStruct(wide[index], leaf.dtype)
        for index, leaf in enumerate(leaves)
        if is_array(leaf)
    }

    def made(arrays: dict[int, Any]) -> Any:  # what is no array cannot be an argument
        return init(structure.unflatten([arrays.get(n, leaf) for n, leaf in enumerate(leaves)]))

    try:
        found = jax.eval_shape(made, arrays)
    except Exception as error:  # noqa: BLE001  a user's function may raise anything
        return Probed(wide, {}, values.error(error))
    return Probed(wide, _aligned(state, found))


def _aligned(state: Any, made: Any) -> dict[int, Shape]:
    """The shapes in what `init` made, by the index of the leaf of the state that each is of."""
    structure, its = jax.tree.structure(state), jax.tree.structure(made)
    shapes = [shape_of(leaf) for leaf in jax.tree.leaves(made)]
    places = list(_places(structure, its)) if shapes else []
    if places:
        return {first + n: shape for first in places for n, shape in enumerate(shapes)}
    return _by_text(_texts(state), _texts(made), shapes)


def _places(structure: Any, part: Any, first: int = 0) -> Iterator[int]:
    """The index of the first leaf of each subtree that has the structure of a part."""
    if structure.num_leaves < part.num_leaves:
        return
    if paths.same(structure, part):
        yield first
        return
    for child in structure.children():
        yield from _places(child, part, first)
        first += child.num_leaves


def _by_text(
    texts: Sequence[tuple[str, ...]], made: Sequence[tuple[str, ...]], shapes: Sequence[Shape]
) -> dict[int, Shape]:
    """Leaves whose path ends as one in what `init` made; the longest such end counts."""
    counts = collections.Counter(made)
    known = {path: shape for path, shape in zip(made, shapes, strict=True) if counts[path] == 1}
    found: dict[int, Shape] = {}
    for index, path in enumerate(texts):
        ends = (path[start:] for start in range(len(path)))
        end = next((its for its in ends if its in known), None)
        if end is not None:
            found[index] = known[end]
    return found


def _texts(tree: Any) -> list[tuple[str, ...]]:
    return [tuple(map(text, path)) for path in Ends(tree).texts]
