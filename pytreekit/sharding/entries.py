"""What a rule says of the dimensions of an array, before it meets one: a template."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class Name(NamedTuple):
    """A mesh axis or a logical name, and whether it may go where the dimension does not divide."""

    name: str
    may_go: bool = False


Choice: TypeAlias = tuple[Name, ...]
"""The names that split one dimension together, the first is the slowest; none leave it whole."""

Entry: TypeAlias = tuple[Choice, ...]
"""The choices for one dimension, in order: the later ones are fallbacks."""

WHOLE: Entry = ((),)
"""The entry of a dimension that is not split."""


class Template(NamedTuple):
    """The entries of a spec.

    Attributes:
        entries: One for each dimension that is spoken of.
        rest: The index of the entry that `...` stands before, None where there is no `...`.
    """

    entries: tuple[Entry, ...]
    rest: int | None = None

    def over(self, rank: int) -> tuple[Entry, ...]:
        """The entries with `...` filled up to a rank; more than that if there are too many."""
        if self.rest is None:
            return self.entries
        filled = (WHOLE,) * (rank - len(self.entries))
        return (*self.entries[: self.rest], *filled, *self.entries[self.rest :])

    @property
    def names_any(self) -> bool:
        """Whether it names anything, so that it matters which dimension an entry stands for."""
        return any(choice for entry in self.entries for choice in entry)


class BadSpec(ValueError):  # noqa: N818  it is made into a fault
    """What cannot be read as a spec: why, what more to say, and what to write instead."""

    def __init__(self, fact: str, note: str = "", instead: str = "") -> None:
        super().__init__(fact)
        self.fact, self.note, self.instead = fact, note, instead
