"""Why an array does not fit an annotation of jaxtyping, and what its names stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..faults import Place
from ..show import values

MODIFIERS = re.compile(r"[#*?_]*")


class Bound(NamedTuple):
    """What a name of a dimension stands for, and the place that made it so."""

    size: Any
    place: Place


class Names(dict[str, Bound]):
    """What names stand for.

    Attributes:
        fitted: Each array or tree that was found to fit, with its annotation, in order: what
            jaxtyping goes by, which shows nobody what its names stand for.
    """

    def __init__(self, names: Names | None = None) -> None:
        super().__init__(names or {})
        self.fitted: list[tuple[Any, Any]] = list(names.fitted) if names is not None else []


class Why(NamedTuple):
    """Why an array does not fit: the code and the fact, and the places that it disagrees with."""

    code: str
    fact: str
    beside: tuple[Place, ...] = ()


def bind_names(hint: Any, shape: tuple[Any, ...], place: Place, names: Names) -> None:
    """Note the sizes of names that a fitting array gives them, unless they have one already."""
    for token, size in _aligned(hint, shape):
        name = _name(token)
        if name and not (_broadcasts(token) and size == 1):
            note = f"{name} = {_text(size)}"
            names.setdefault(name, Bound(size, place._replace(note=note)))


def why_not(hint: Any, array: Any, names: Names) -> Why:
    """Why an array does not fit an annotation for arrays."""
    if not isinstance(array, hint.dtype[Any, "..."]):
        dtype = values.short_dtype(str(array.dtype))
        return Why("PTK601", f"has dtype {dtype}, which {hint.dtype.__name__} does not take")
    shape = tuple(array.shape)
    tokens = hint.dim_str.split()
    several = _several(tokens)
    least = len(tokens) - len(several)
    if len(shape) < least or (len(shape) > least and not several):
        has = values.count(len(shape), "dimension")
        wanted = f"{least} or more" if several else least
        return Why("PTK602", f"one example has {has}, its annotation {wanted}")
    for token, size in _aligned(hint, shape):
        why = _other_size(token, size, names)
        if why is not None:
            return why
    return Why("PTK603", "its sizes do not fit the annotation")


def _other_size(token: str, size: Any, names: Names) -> Why | None:
    """Why a dimension does not have the size that its token asks for."""
    if _broadcasts(token) and size == 1:
        return None
    text = MODIFIERS.sub("", token.rpartition("=")[2], count=1)
    if text.isdigit() and int(text) != size:
        return Why("PTK603", f"has {size} where its annotation has {text}")
    bound = names.get(_name(token))
    if bound is not None and bound.size != size:
        fact = f"{_name(token)} is {_text(size)} here, and {_text(bound.size)} elsewhere"
        return Why("PTK603", fact, (bound.place,))
    if not (text.isidentifier() or text.isdigit() or not text.strip(".")):
        used = dict.fromkeys(re.findall(r"[^\W\d]\w*", text))
        known = [names[name] for name in used if name in names]
        fact = f"has {size} where its annotation has {text}"
        return Why("PTK603", fact, tuple(its.place for its in known))
    return None


def _aligned(hint: Any, shape: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Each token of an annotation with the size that it stands for, or the sizes."""
    tokens = hint.dim_str.split()
    several = _several(tokens)
    if not several:
        yield from zip(tokens, shape, strict=True)
        return
    first = several[0]
    stop = len(shape) - (len(tokens) - first - 1)
    yield from zip(tokens[:first], shape[:first], strict=True)
    yield tokens[first], shape[first:stop]
    yield from zip(tokens[first + 1 :], shape[stop:], strict=True)


def _several(tokens: list[str]) -> list[int]:
    """Where a token stands for any number of dimensions."""
    return [
        index
        for index, token in enumerate(tokens)
        if token == "..." or "*" in (MODIFIERS.match(token) or [""])[0]
    ]


def _name(token: str) -> str:
    """The name that a token gives a size to, `""` where it gives none."""
    modifiers = (MODIFIERS.match(token) or [""])[0]
    name = token[len(modifiers) :]
    plain = name.isidentifier() and "_" not in modifiers and "?" not in modifiers
    return name if plain else ""


def _broadcasts(token: str) -> bool:
    return "#" in (MODIFIERS.match(token) or [""])[0]


def _text(size: Any) -> str:
    return values.shape_text(size) if isinstance(size, tuple) else str(size)
