"""Hints that were tried: which repair of a fault helps, does no harm, and how to say it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from ..faults import Fault
from .finding import Finding

MOST_TRIED = 10
"""Causes for which a repair is tried: as many as a message shows."""

MOST_ROUNDS = 4
"""How often all repairs together are tried: one may bring to light what lay below it."""

STRUCTURE = "PTK2"
"""How the codes of structure begin, in which many nodes may differ in one way."""

SubjectT = TypeVar("SubjectT", bound="Subject")


@runtime_checkable
class Subject(Protocol):
    """Something that can be repaired into another of its kind: a call, an output."""

    def repaired(self, repairs: Sequence[Any]) -> Any:
        """A copy with repairs written into it."""
        ...

    def change(self, new: Any, repairs: Sequence[Any]) -> str:
        """What to write to get from here to `new`, which has `repairs` in it."""
        ...


Check = Callable[[SubjectT], Sequence[Finding]]


def with_hints(
    subject: SubjectT, check: Check[SubjectT]
) -> tuple[tuple[Fault, ...], SubjectT | None]:
    """The faults with hints that were tried, and the subject repaired if that clears it of faults.

    A hint is given only if, with the repair, the check no longer finds this fault and finds no new
    one. Faults of one cause are repaired together, and share their hint.
    """
    findings = check(subject)
    causes = _by_cause(findings)
    hints = {cause: _try(subject, check, findings, group) for cause, group in causes[:MOST_TRIED]}
    faults = [
        dataclasses.replace(finding.fault, hint=hints.get(_cause(finding), _NO_HINT).text)
        for finding in findings
    ]
    return tuple(faults), _cleared(subject, check, findings, hints)


class _Hint(NamedTuple):
    """A hint in text, and which of the repairs it stands for; -1 for none."""

    text: str
    chosen: int


_NO_HINT = _Hint("", -1)


def _cause(finding: Finding) -> Hashable:
    """Faults that are mended together: of one spec entry, or of nodes that differ alike."""
    fault, count = finding.fault, len(finding.repairs)
    if fault.code.startswith(STRUCTURE):
        return fault.code, fault.title, fault.note, count
    return fault.code, fault.spec_path, count


def _by_cause(findings: Sequence[Finding]) -> list[tuple[Hashable, list[Finding]]]:
    causes: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        causes.setdefault(_cause(finding), []).append(finding)
    return list(causes.items())


def _try(
    subject: SubjectT, check: Check[SubjectT], findings: Sequence[Finding], group: list[Finding]
) -> _Hint:
    """The first repair of a group that helps and does no harm."""
    known = {_identity(finding) for finding in findings}
    group_places = {_identity(finding, place=True) for finding in group}
    for chosen in range(len(group[0].repairs)):
        repairs = [finding.repairs[chosen] for finding in group]
        new = _repaired(subject, repairs)
        if new is None:
            continue
        left = check(new)
        if group_places.isdisjoint(_identity(finding, place=True) for finding in left) and (
            known.issuperset(map(_identity, left))
        ):
            codes = sorted({finding.fault.code for finding in left})
            then = f"   (then {', '.join(codes)} remain{'s' * (len(codes) == 1)})" if codes else ""
            return _Hint(subject.change(new, repairs) + then, chosen)
    return _NO_HINT


def _identity(finding: Finding, *, place: bool = False) -> Hashable:
    """What makes two findings the same fault. Sizes that disagree are one, wherever they are."""
    fault = finding.fault
    whole = fault.code == "PTK102" and not place
    return fault.code if whole else (fault.code, fault.place or fault.spec_path, fault.found)


def _repaired(subject: SubjectT, repairs: Sequence[Any]) -> SubjectT | None:
    try:
        return subject.repaired(repairs)
    except Exception:  # noqa: BLE001  a user's constructor may refuse; then there is no such repair
        return None


def _cleared(
    subject: SubjectT,
    check: Check[SubjectT],
    findings: Sequence[Finding],
    hints: dict[Hashable, _Hint],
) -> SubjectT | None:
    """The subject with all repairs in it, if nothing is wrong with it then."""
    for _ in range(MOST_ROUNDS):
        untried = _Hint("", 0)
        chosen = [(finding, hints.get(_cause(finding), untried).chosen) for finding in findings]
        if not all(0 <= index < len(finding.repairs) for finding, index in chosen):
            return None
        new = _repaired(subject, [finding.repairs[index] for finding, index in chosen])
        if new is None:
            return None
        subject, findings = new, check(new)
        if not findings:
            return subject
        hints = {
            cause: _try(subject, check, findings, group)
            for cause, group in _by_cause(findings)[:MOST_TRIED]
        }
    return None
