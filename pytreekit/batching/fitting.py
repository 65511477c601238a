"""Whether a tree fits its annotation: walked by us, judged leaf by leaf by jaxtyping."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from ..faults import Place
from ..show import values
from ..trees import paths
from ..trees.paths import KeyPath
from . import annotations
from .dimensions import Bound, Names, Why, bind_names, why_not

Example = Callable[[Any, KeyPath], Any]
"""What one example has of a leaf: an array or what stands for one, None where it is no array,
`UNKNOWN` where that cannot be told."""

UNKNOWN: Any = object()

NEAREST = ("PTK603", "PTK602", "PTK601", "PTK604")
"""What is told of a choice, of several that do not fit: of the one that comes nearest."""

MOST_ALONE = 100
"""How many leaves are looked at one by one, where a whole tree does not fit."""


class Misfit(NamedTuple):
    """A part of a tree that does not fit its annotation.

    Attributes:
        path: Where it is.
        hint: Its annotation.
        found: What one example has of it.
        why: Why that does not fit.
    """

    path: KeyPath
    hint: Any
    found: str
    why: Why


class Fitting:
    """Fits trees to annotations. The names of dimensions are bound across all of them.

    It works within one `with jaxtyped("context")`, in which jaxtyping keeps what its names stand
    for. Containers are walked here, since a type checker looks at one item of each. Whatever asks
    jaxtyping is a generator: a function that is itself checked by jaxtyping has names of its own.

    Args:
        argument: What the tree is called.
        example: What one example has of a leaf.
        names: What names stand for so far, for messages; it is added to.
    """

    def __init__(self, argument: str, example: Example, names: Names) -> None:
        self.argument = argument
        self.names = names
        self._example = example

    def misfits(self, value: Any, hint: Any, path: KeyPath = ()) -> Iterator[Misfit]:
        """Each part of a tree that does not fit."""
        hint = annotations.stripped(hint)
        if not annotations.speaks_of_arrays(hint):
            return
        if annotations.is_array(hint):
            yield from self._array(value, hint, path)
        elif annotations.is_union(hint):
            yield from self._union(value, hint, path)
        elif annotations.is_pytree(hint):
            yield from self._pytree(value, hint, path)
        else:
            yield from self._container(value, hint, path)

    def _array(self, value: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        array = self._example(value, path) if paths.is_leaf(value) else None
        if array is UNKNOWN:
            return
        if array is None:
            yield self._other_type(value, hint, path, "an array")
            return
        judge = annotations.of_any_array(hint)
        try:
            fits = isinstance(array, judge)
        except Exception:  # noqa: BLE001  an expression of unbound names, or one that divides by 0
            return
        if fits:
            self.names.fitted.append((array, judge))
            bind_names(hint, tuple(array.shape), self._place(array, hint, path), self.names)
        else:
            yield Misfit(path, hint, values.leaf(array), why_not(hint, array, self.names))

    def _union(self, value: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        found = []
        for choice in typing.get_args(hint):
            if not annotations.speaks_of_arrays(choice):
                if _may_be(value, choice):
                    return
                continue
            found.append(self._misfits_apart(value, choice, path))
            if not found[-1]:
                yield from self.misfits(value, choice, path)
                return
        yield from min(found, key=lambda its: (len(its), NEAREST.index(its[0].why.code)))

    def _misfits_apart(self, value: Any, hint: Any, path: KeyPath) -> list[Misfit]:
        """Each part that does not fit; what fits leaves names as they are."""
        names = Names(self.names)
        with annotations.context():
            for fitted, its in names.fitted:
                isinstance(fitted, its)  # here, too, it gives names their sizes
            return list(Fitting(self.argument, self._example, names).misfits(value, hint, path))

    def _pytree(self, value: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        leaf_hint = annotations.stripped(hint.leaftype)
        by_leaf = not _has_containers(leaf_hint)
        if by_leaf:
            found = [
                misfit
                for below, leaf in paths.leaves_with_paths(value)
                for misfit in self.misfits(leaf, leaf_hint, path + below)
            ]
            yield from found
            if found or hint.structure is None:
                return
        judge = annotations.pytree_of_any_array(hint)
        try:
            tree = jax.tree_util.tree_map_with_path(
                lambda below, leaf: self._stand_in(leaf, path + below), value
            )
            fits = isinstance(tree, judge)
        except Exception:  # noqa: BLE001  a node that takes no stand-ins, an unbound structure
            return
        told = values.leaf_or_tree(value)
        if fits:
            self.names.fitted.append((tree, judge))
            self._bind_structure(hint, Place(self.argument + paths.text(path), told, "", ""))
        else:
            others = list(self._other_leaves(tree, hint, path)) if by_leaf else []
            whole = Misfit(path, hint, told, self._why_not_tree(hint, by_leaf=by_leaf))
            yield from others or [whole]

    def _bind_structure(self, hint: Any, place: Place) -> None:
        """Note whose structure a name stands for, unless it has one already."""
        name = (hint.structure or "").strip()
        if name.isidentifier():
            told = place._replace(note=f"gave {name} its structure")
            self.names.setdefault(name, Bound(None, told))

    def _other_leaves(self, tree: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        """Each leaf whose `?names` do not have the sizes that this leaf of another tree gave them.

        Of a leaf by itself only jaxtyping's `PyTree` can tell: the other leaves are taken out.
        """
        leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
        judge = annotations.pytree_of_any_array(hint, or_other=True)
        hidden = [annotations.Other()] * len(leaves)
        beside = self._bound_by(hint)
        try:
            if len(leaves) > MOST_ALONE or not isinstance(structure.unflatten(hidden), judge):
                return
            for index, (below, leaf) in enumerate(leaves):
                alone = structure.unflatten([*hidden[:index], leaf, *hidden[index + 1 :]])
                if not isinstance(alone, judge):
                    why = Why("PTK603", "has other sizes than this leaf elsewhere", beside)
                    yield Misfit(path + below, hint, values.leaf(leaf), why)
        except Exception:  # noqa: BLE001  a node that takes no stand-ins
            return

    def _why_not_tree(self, hint: Any, *, by_leaf: bool) -> Why:
        if not by_leaf:
            return Why("PTK604", "does not fit its annotation")
        fact = f"does not have the structure {hint.structure.strip()}"
        return Why("PTK604", fact, self._bound_by(hint))

    def _bound_by(self, hint: Any) -> tuple[Place, ...]:
        """What gave a structure its name."""
        names = [name for name in hint.structure.split() if name in self.names]
        return tuple(self.names[name].place for name in names)

    def _stand_in(self, leaf: Any, path: KeyPath) -> Any:
        array = self._example(leaf, path)
        return leaf if array is None or array is UNKNOWN else array

    def _container(self, value: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        origin = typing.get_origin(hint) or hint
        args = typing.get_args(hint)
        if not isinstance(origin, type) or any(map(annotations.is_unpacked, args)):
            return
        if not _is_of(value, dict if typing.is_typeddict(origin) else origin):
            yield self._other_type(value, hint, path, f"of type {origin.__name__}")
            return
        fixed = issubclass(origin, tuple) and not hasattr(origin, "_fields") and args[1:] != (...,)
        if fixed and len(value) != len(args):
            fact = f"has {values.count(len(value), 'entry', 'entries')}, its annotation {len(args)}"
            yield Misfit(path, hint, values.tree(value, len(value)), Why("PTK604", fact))
            return
        for key, part, inner in _parts(value, hint, origin):
            yield from self.misfits(part, inner, (*path, key))

    def _other_type(self, value: Any, hint: Any, path: KeyPath, wanted: str) -> Misfit:
        found = values.leaf(value) if paths.is_leaf(value) else values.tree(value)
        return Misfit(path, hint, found, Why("PTK604", f"is not {wanted}"))

    def _place(self, array: Any, hint: Any, path: KeyPath) -> Place:
        place = self.argument + paths.text(path)
        return Place(place, values.leaf(array), "", annotations.text(hint))


def _parts(value: Any, hint: Any, origin: type) -> Iterator[tuple[Any, Any, Any]]:
    """The parts of a container: the key, the value and the annotation of each."""
    args = typing.get_args(hint)
    if fields := annotations.fields_of(origin):
        yield from _fields(value, fields, of_dict=typing.is_typeddict(origin))
    elif issubclass(origin, Mapping):
        yield from ((DictKey(key), part, args[-1]) for key, part in value.items())
    elif issubclass(origin, tuple) and args[1:] != (...,):
        for index, (part, inner) in enumerate(zip(value, args, strict=True)):
            yield _key_in(value, index), part, inner
    elif isinstance(value, list | tuple):
        yield from ((_key_in(value, index), part, args[0]) for index, part in enumerate(value))


def _key_in(value: Sequence[Any], index: int) -> Any:
    """The key that JAX has for an entry: of a NamedTuple, its name."""
    names = getattr(value, "_fields", None)
    return SequenceKey(index) if names is None else GetAttrKey(names[index])


def _fields(
    value: Any, fields: Mapping[str, Any], *, of_dict: bool
) -> Iterator[tuple[Any, Any, Any]]:
    for name, inner in fields.items():
        if of_dict and name in value:
            yield DictKey(name), value[name], inner
        elif not of_dict and hasattr(value, name):
            yield GetAttrKey(name), getattr(value, name), inner


def _is_of(value: Any, kind: type) -> bool:
    """Whether a value is of a type; True where that cannot be told."""
    try:
        return isinstance(value, kind)
    except Exception:  # noqa: BLE001  such as a protocol that is not for run time
        return True


def _has_containers(hint: Any) -> bool:
    """Whether an annotation may be of a node, rather than of a leaf."""
    if annotations.is_union(hint):
        return any(map(_has_containers, map(annotations.stripped, typing.get_args(hint))))
    return annotations.speaks_of_arrays(hint) and not annotations.is_array(hint)


def _may_be(value: Any, hint: Any) -> bool:
    """Whether a value fits an annotation that says nothing of arrays, as beartype has it."""
    from beartype.door import is_bearable

    if isinstance(value, jax.ShapeDtypeStruct):
        value = jnp.zeros(())  # an array of any kind: the annotation does not speak of that
    try:
        return is_bearable(value, hint)
    except Exception:  # noqa: BLE001  an annotation that beartype cannot read: no verdict
        return True
