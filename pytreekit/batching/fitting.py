"""Whether a value of one example fits its annotation: walked by us, judged by jaxtyping."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from ..faults import Place
from ..show import values
from ..trees import paths
from ..trees.paths import KeyPath
from . import annotations
from .dimensions import Names, bind_names, why_not


class Misfit(NamedTuple):
    """A value that does not fit its annotation.

    Attributes:
        path: Where it is in its argument.
        value: What is there, for one example.
        hint: Its annotation.
        code: The code of the fault.
        fact: The fault in one line.
        beside: The places that it disagrees with.
    """

    path: KeyPath
    value: Any
    hint: Any
    code: str
    fact: str
    beside: tuple[Place, ...] = ()


class Fitting:
    """Fits the arguments of one example to their annotations; names are bound across them.

    It is used within one `jaxtyping.jaxtyped("context")`, in which jaxtyping keeps what its names
    stand for; `names` is our own record of it, for people.
    """

    def __init__(self, argument: str = "") -> None:
        self.argument = argument
        self.names: Names = {}

    def misfits(self, value: Any, hint: Any, path: KeyPath = ()) -> Iterator[Misfit]:
        """All in a value that does not fit an annotation."""
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
        aval = values.typeof(value)
        if isinstance(value, hint):
            bind_names(hint, tuple(value.shape), self._place(value, hint, path), self.names)
        elif aval is None or isinstance(value, bool | int | float | complex):
            kind = values.tree(value)
            yield Misfit(path, value, hint, "PTK604", f"is {values.article(kind)}, not an array")
        else:
            yield Misfit(path, value, hint, *why_not(hint, value, self.names))

    def _union(self, value: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        tried = []
        for choice in typing.get_args(hint):
            if choice is type(None) and value is None:
                return
            if not annotations.speaks_of_arrays(choice):
                if _is_instance(value, choice):
                    return
                continue
            found = list(self.misfits(value, choice, path))
            if not found:
                return
            tried.append(found)
        if tried:
            yield from min(tried, key=len)

    def _pytree(self, value: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        leaves = paths.leaves_with_paths(value, lambda node: node is not value and _fits(node, hint))
        if isinstance(value, hint):
            if annotations.is_array(annotations.stripped(hint.leaftype)):
                for below, leaf in leaves:
                    place = self._place(leaf, hint.leaftype, path + below)
                    bind_names(hint.leaftype, tuple(leaf.shape), place, self.names)
            return
        found = [
            misfit
            for below, leaf in leaves
            for misfit in self.misfits(leaf, hint.leaftype, path + below)
        ]
        fact = f"its structure is not that of {hint.structure}, as bound before"
        yield from found or [Misfit(path, value, hint, "PTK604", fact)]

    def _container(self, value: Any, hint: Any, path: KeyPath) -> Iterator[Misfit]:
        origin = typing.get_origin(hint) or hint
        if not isinstance(origin, type):
            return
        if not typing.is_typeddict(hint) and not isinstance(value, origin):
            fact = f"is {values.article(values.tree(value))}, not {values.article(origin.__name__)}"
            yield Misfit(path, value, hint, "PTK604", fact)
            return
        for key, part, inner in _parts(value, hint, origin):
            yield from self.misfits(part, inner, (*path, key))

    def _place(self, value: Any, hint: Any, path: KeyPath) -> Place:
        return Place(self.argument + paths.text(path), values.leaf(value), annotation(hint), "")


def annotation(hint: Any) -> str:
    """An annotation as it is written: `Float[Array, "d k"]`."""
    if annotations.is_array(hint):
        kind = getattr(hint.array_type, "__name__", str(hint.array_type))
        return f'{hint.dtype.__name__}[{kind}, "{hint.dim_str}"]'
    return getattr(hint, "__name__", str(hint)).replace("typing.", "")


def _parts(value: Any, hint: Any, origin: type) -> Iterator[tuple[Any, Any, Any]]:
    """The parts of a container: key, value and annotation of each."""
    args = typing.get_args(hint)
    if fields := annotations.fields_of(origin):
        for name, inner in fields.items():
            if typing.is_typeddict(origin):
                if name in value:
                    yield DictKey(name), value[name], inner
            elif hasattr(value, name):
                yield GetAttrKey(name), getattr(value, name), inner
    elif issubclass(origin, Mapping) and len(args) == 2:  # noqa: PLR2004
        for key, part in value.items():
            yield DictKey(key), part, args[1]
    elif issubclass(origin, tuple):
        same = len(args) == 2 and args[1] is ...  # noqa: PLR2004
        for index, part in enumerate(value):
            if same or index < len(args):
                yield SequenceKey(index), part, args[0] if same else args[index]
    elif len(args) == 1 and hasattr(value, "__getitem__"):
        for index, part in enumerate(value):
            yield SequenceKey(index), part, args[0]


def _is_instance(value: Any, hint: Any) -> bool:
    from beartype.door import is_bearable

    return is_bearable(value, hint)


def _fits(node: Any, hint: Any) -> bool:
    """Whether a node of a PyTree is one of its leaves, though it is no leaf to JAX."""
    leaf = annotations.stripped(hint.leaftype)
    return not annotations.is_array(leaf) and not jax.tree_util.all_leaves([node]) and _is_instance(
        node, leaf
    )
