"""What is done with each parameter: recognised where it is used, or differentiated as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from . import views
from .classify import Classified, Use
from .factors import Layout
from .sites import Site, is_rows, recognised

GHOST, ITSELF, UNUSED = "ghost", "itself", "unused"


class Part(NamedTuple):
    """Entries of a parameter that are used together.

    Attributes:
        sites: Where, with factors that number the entries alike.
        uses: The numbers of these uses.
        layout: How they number them.
    """

    sites: tuple[Site, ...]
    uses: tuple[int, ...]
    layout: Layout

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of groups, of what goes in and of what comes out."""
        groups, into, out = (
            math.prod(size for size, _ in its)
            for its in (self.layout.groups, self.layout.into, self.layout.out)
        )
        return groups, into, out

    @property
    def positions(self) -> int:
        """The number of outer products in each group."""
        return sum(its.positions for its in self.sites)

    @property
    def pays(self) -> bool:
        """Whether norms from pairs of positions take no more work than the gradient itself."""
        _, into, out = self.sizes
        if all(map(is_rows, self.sites)):
            return self.positions <= into
        return self.positions * (into + out) <= into * out


class Verdict(NamedTuple):
    """What is done with a parameter.

    Attributes:
        how: `"ghost"`: no example has a gradient of its own; `"itself"`: each has one; `"unused"`.
        why: What it is used in, or why it is not recognised.
        parts: What it is made up of, if all of its uses are recognised.
    """

    how: str
    why: str
    parts: tuple[Part, ...] = ()


def verdicts(found: Classified) -> list[Verdict]:
    """What is done with each parameter."""
    return [_verdict(uses, shape) for uses, shape in zip(found.uses, found.shapes, strict=True)]


def _verdict(uses: list[Use], shape: tuple[int, ...]) -> Verdict:
    if not uses:
        return Verdict(UNUSED, "the loss does not use it")
    why = _named(uses)
    sites = [recognised(use) for use in uses]
    unknown = [use for use, site in zip(uses, sites, strict=True) if site is None]
    if unknown or 0 in shape:
        returned = any(use.step is None for use in unknown)
        return Verdict(ITSELF, "the loss returns it" if returned and len(uses) == 1 else why)
    parts = parted([site for site in sites if site is not None])
    if parts is None or not views.apart([part.layout.view for part in parts], shape):
        return Verdict(ITSELF, f"{why}, of parts that overlap")
    if not any(part.pays for part in parts):
        return Verdict(ITSELF, f"{why}, smaller than the products of its positions", parts)
    return Verdict(GHOST, why, parts)


def _named(uses: Sequence[Use]) -> str:
    names = ", ".join(dict.fromkeys(use.name for use in uses))
    return names if len(uses) == 1 else f"used {len(uses)} times: {names}"


def parted(sites: Sequence[Site]) -> tuple[Part, ...] | None:
    """Sites that take the same entries put together, each with factors that number them alike."""
    found: dict[Layout, list[int]] = {}
    turned: dict[int, bool] = {}
    # What looks up rows comes first: its factors cannot change places.
    for number in sorted(range(len(sites)), key=lambda number: not is_rows(sites[number])):
        plain = sites[number].layout.plain
        turned[number] = plain not in found and plain.turned in found
        if turned[number] and is_rows(sites[number]):
            return None
        found.setdefault(plain.turned if turned[number] else plain, []).append(number)
    parts = []
    for numbers in found.values():
        its = tuple(sites[number]._replace(turned=turned[number]) for number in numbers)
        parts.append(Part(its, tuple(numbers), its[0].layout))
    return tuple(parts)
