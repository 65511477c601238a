"""What a rule may say besides a value: by the rank of the leaf, or that it may match nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from ..faults import Fault
from ..show import values as shown
from ..show.errors import raise_faults
from .globs import Glob, rests


class Unmatched:
    """The type of `UNMATCHED`."""

    def __repr__(self) -> str:
        return "UNMATCHED"

    def __reduce__(self) -> str:
        return "UNMATCHED"  # one object, however it is copied


UNMATCHED: Final = Unmatched()
"""The value of a leaf that no rule matches, where there is no default."""


@dataclasses.dataclass(frozen=True)
class OptionalRule:
    """What `optional` returns: a rule."""

    pattern: Any
    value: Any


def optional(pattern: Any, value: Any) -> OptionalRule:
    """A rule that may match nothing: `rules.audit` does not call it unused.

    For a list of rules that serves several models, of which some lack what it speaks of.

    Args:
        pattern: A pattern, as `ptk.Rules` takes it.
        value: Its value.

    Returns:
        What stands in a list of rules for the pair `(pattern, value)`.

    Examples:
        >>> import pytreekit as ptk
        >>> rules = ptk.Rules([("kernel", "... model"), ptk.optional("bias", "replicate")])
        >>> rules.audit({"kernel": 1.0}).unused
        ()
    """
    return OptionalRule(pattern, value)


@dataclasses.dataclass(frozen=True)
class ByRank:
    """What `by_rank` returns: a function of a path and a leaf."""

    values: Mapping[Any, Any]

    def __call__(self, path: str, leaf: Any) -> Any:
        """The value for the rank of the leaf, `UNMATCHED` where there is none."""
        return self.values.get(rank(leaf), self.values.get(..., UNMATCHED))

    def __hash__(self) -> int:
        return hash(tuple(map(str, self.values)))

    def __repr__(self) -> str:
        entries = (f"{'...' if key is ... else key}: {its!r}" for key, its in self.values.items())
        return f"by_rank({{{', '.join(entries)}}})"


def by_rank(values: Mapping[Any, Any]) -> ByRank:
    """A value for each rank that the leaves of one rule may have.

    For a name that arrays of several ranks share, such as the `kernel` of dense layers and of
    convolutions. A leaf of a rank without an entry is a fault.

    Args:
        values: The value for each rank, an int of 0 or more; `...` stands for every other rank.

    Returns:
        The value of a rule: a function of a path and a leaf.

    Raises:
        SpecError: PTK306, if `values` is no mapping, or a key of it is no rank.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> rules = ptk.Rules([("kernel", ptk.by_rank({2: "_ model", 4: "_ _ _ model"}))])
        >>> rules([{"kernel": jnp.ones((3, 4))}, {"kernel": jnp.ones((3, 3, 3, 4))}])
        [{'kernel': '_ model'}, {'kernel': '_ _ _ model'}]
    """
    if not isinstance(values, Mapping):
        faults = [_fault("values", f"must be a mapping, this is {shown.kind(values)}", "")]
    else:
        faults = [
            _fault(f"values[{key!r}]", "a rank is an int of 0 or more, or `...`", shown.spec(value))
            for key, value in values.items()
            if key is not ... and not (type(key) is int and key >= 0)
        ]
    raise_faults(faults, doing="by_rank")
    return ByRank(dict(values))


def _fault(place: str, fact: str, wanted: str) -> Fault:
    return Fault("PTK306", "", "", place, "", wanted, fact=fact)


def rank(leaf: Any) -> int:
    """The rank of a leaf: of what is no array, and has no shape, it is 0."""
    shape = getattr(leaf, "shape", None)
    return len(shape) if isinstance(shape, tuple) else 0


def is_function(value: Any) -> bool:
    """Whether the value of a rule is a function of a path and a leaf. A class is a value."""
    return callable(value) and not isinstance(value, type)


@dataclasses.dataclass(frozen=True)
class Inside:
    """A function of a path and a leaf, that is given the path as it is below one of some places."""

    function: Any
    places: tuple[Glob, ...]
    separators: str

    def __call__(self, path: str, leaf: Any) -> Any:
        """What the function says."""
        return self.function(next(rests(self.places, path, self.separators), path), leaf)


@dataclasses.dataclass(frozen=True)
class OfLeaf:
    """A function of a path and a leaf, at the path of one leaf."""

    function: Any
    path: str

    def __call__(self, leaf: Any) -> Any:
        """What the function says of the leaf."""
        return self.function(self.path, leaf)

    def __repr__(self) -> str:
        return repr(self.function)
