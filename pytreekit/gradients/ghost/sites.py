"""What is done with each parameter: recognised where it is used, or differentiated as it is."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import dense, rows
from .classify import Classified, Form, Use

GHOST, ITSELF, UNUSED = "ghost", "itself", "unused"


class Site(NamedTuple):
    """The one place where a parameter is used, of a kind that is recognised.

    Attributes:
        number: That of the step.
        operand: Which operand the parameter is there.
        kind: What is done there.
        forms: What brought the parameter into the form in which it is taken.
    """

    number: int
    operand: int
    kind: Any
    forms: tuple[Form, ...]


class Verdict(NamedTuple):
    """What is done with a parameter.

    Attributes:
        how: `"ghost"`: no example has a gradient of its own; `"itself"`: each has one; `"unused"`.
        why: What it is used in, or why it is not recognised.
        site: Where, if it is recognised.
    """

    how: str
    why: str
    site: Site | None = None


def verdicts(found: Classified) -> list[Verdict]:
    """What is done with each parameter."""
    return [_verdict(found, uses) for uses in found.uses]


def _verdict(found: Classified, uses: list[Use]) -> Verdict:
    if not uses:
        return Verdict(UNUSED, "the loss does not use it")
    if len(uses) > 1:
        names = ", ".join(dict.fromkeys(use.name for use in uses))
        return Verdict(ITSELF, f"used {len(uses)} times: {names}")
    [use] = uses
    return _of_one_use(found, use, use.number)


def _of_one_use(found: Classified, use: Use, number: int | None) -> Verdict:
    if number is None:
        return Verdict(ITSELF, "the loss returns it")
    step = found.program.steps[number]
    product = dense.recognised(step.equation, use.operand)
    kind = product or rows.recognised(step.equation, use.operand)
    if kind is None:
        return Verdict(ITSELF, use.name)
    if len(found.taken(step)) > 1:
        return Verdict(ITSELF, f"{use.name} of two parameters")
    if product is not None and not product.pays:
        return Verdict(ITSELF, f"{use.name}, smaller than the products of its positions")
    return Verdict(GHOST, use.name, Site(number, use.operand, kind, use.forms))
