"""Why an array does not fit an annotation of jaxtyping: its dimensions, and what names stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..faults import Place
from ..show import values


class Binder(NamedTuple):
    """What a name of a dimension stands for, and the place that made it so."""

    size: Any
    place: Place


Names = dict[str, Binder]


def bind_names(hint: Any, shape: tuple[Any, ...], place: Place, names: Names) -> None:
    """Note the names that a fitting array gives a size to, unless one was noted before."""
    for token, size in _aligned(hint, shape):
        name = token.lstrip("#?*")
        if name.isidentifier() and not name.startswith("_") and not (token[0] == "#" and size == 1):
            names.setdefault(name, Binder(size, place))


def why_not(hint: Any, leaf: Any, names: Names) -> tuple[str, str, tuple[Place, ...]]:
    """The code of a fault, its fact, and the places that an array disagrees with."""
    shape = tuple(leaf.shape)
    if not isinstance(leaf, hint.dtype[hint.array_type, "..."]):
        dtype = values.short_dtype(str(leaf.dtype))
        return "PTK601", f"its dtype {dtype} is not one of {hint.dtype.__name__}", ()
    tokens = hint.dim_str.split()
    several = [token for token in tokens if token == "..." or "*" in token[:2]]
    least = len(tokens) - len(several)
    if len(shape) < least or (len(shape) > least and not several):
        wanted = values.count(least, "dimension")
        some = "at least " * bool(several)
        return "PTK602", f"one example has {len(shape)}, the annotation has {some}{wanted}", ()
    for token, size in _aligned(hint, shape):
        name = token.rpartition("=")[2].lstrip("#?*")
        if name.isdigit() and int(name) != size and not ("#" in token and size == 1):
            return "PTK603", f"a dimension has {size}, the annotation says {name}", ()
        bound = names.get(name)
        if bound is not None and bound.size != size:
            fact = f"{name} has size {_text(size)} here and {_text(bound.size)} before"
            return "PTK603", fact, (bound.place,)
    known = ", ".join(f"{name} = {_text(its.size)}" for name, its in names.items())
    return "PTK603", f"its sizes do not fit where {known}" if known else "its sizes do not fit", ()


def _aligned(hint: Any, shape: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Each token of an annotation with the size, or the sizes, that it stands for."""
    tokens = hint.dim_str.split()
    many = [index for index, token in enumerate(tokens) if token == "..." or "*" in token[:2]]
    if not many:
        yield from zip(tokens, shape, strict=False)
        return
    (first,) = many
    after = len(tokens) - first - 1
    stop = len(shape) - after
    yield from zip(tokens[:first], shape[:first], strict=False)
    yield tokens[first], shape[first:stop]
    yield from zip(tokens[first + 1 :], shape[stop:], strict=False)


def _text(size: Any) -> str:
    return values.shape_text(size) if isinstance(size, tuple) else str(size)
