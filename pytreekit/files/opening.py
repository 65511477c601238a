"""Files that may be anything: opened without waiting, read up to a bound, told in one fault."""

from __future__ import annotations

import contextlib
import itertools
import os
import reprlib
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from ..faults import Fault
from ..show import values
from ..show.errors import SpecError, raise_faults
from ..specs.rule_files import Unreadable, from_json

MOST_BYTES = 50_000_000
"""Bytes of a header, of an index, of a manifest: what is longer holds more than shapes."""

MOST_VALUES = 5_000_000
"""Values in a text: the plan of a hundred thousand arrays has three in five of these."""

MOST_FAULTS = 1_000
"""Faults of one file that are found: a file of another can have any number."""

LONGEST_PATH = 10_000
"""Characters of the path of an array: it is told in many places."""

LONGEST_NAME = 60
"""Characters of a name that are told: in a file of another, they can be very many."""

LONGEST_FACT = 160

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def fault(code: str, name: str, fact: str, place: str = "", **told: str) -> Fault:
    """A fault of a file.

    Args:
        code: Its code.
        name: What the file is called.
        fact: What is wrong.
        place: The name of an array in it, `""` for none.
        told: `found` and `note` of `Fault`.
    """
    found, note = told.get("found", ""), told.get("note", "")
    path = f"[{short(place)!r}]" if place else ""
    return Fault(code, short(name), path, "", found, "", fact=fact, note=note)


def short(name: str) -> str:
    """A name that is not too long to be told: its end, which tells names apart."""
    return name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"


def wrong_path(path: str, most: int = LONGEST_PATH) -> str:
    """What is wrong with the path of an array, `""` for nothing."""
    fact = f"has a path of {len(path):,} characters, {most:,} are the most"
    return fact if len(path) > most else ""


def refuse(its: Fault, name: str) -> NoReturn:
    """Raise the fault of a file.

    Raises:
        SpecError: With it.
    """
    raise SpecError([its], doing=_doing(name)) from None


def refuse_all(faults: list[Fault], name: str) -> None:
    """Raise the faults of a file, if there are any.

    Raises:
        SpecError: With them.
    """
    raise_faults(faults, doing=_doing(name))


def _doing(name: str) -> str:
    return f"reading {short(name)}"


def unopened(name: str, error: Exception) -> Fault:
    """PTK801, from what the system says."""
    return fault("PTK801", name, f"cannot be opened: {said(error)}")


def said(error: Exception) -> str:
    """What the system says of a file that cannot be read or written."""
    return getattr(error, "strerror", None) or str(error)


@contextlib.contextmanager
def opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """A regular file, open for reading. What would keep a reader waiting is refused.

    Raises:
        SpecError: PTK801, if it cannot be opened or read.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:  # a ValueError of a zero byte in its name
        refuse(unopened(name, error), name)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            refuse(fault("PTK801", name, "is no regular file"), name)
        with open(descriptor, "rb", closefd=False) as stream:
            yield stream
    except OSError as error:
        refuse(unopened(name, error), name)
    finally:
        os.close(descriptor)


def few(faults: Iterable[Fault]) -> list[Fault]:
    """The first of very many faults."""
    return list(itertools.islice(faults, MOST_FAULTS))


def brief(value: Any) -> str:
    """What stands in a file in a few characters, however large it is."""
    return values.spec(_Brief(value), 40)


class _Brief:
    """A value whose `repr` is short: that of all of it could be very long."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return _REPR.repr(self._value)


_REPR = reprlib.Repr()
_REPR.maxlist = _REPR.maxdict = 8
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 40


def read_all(stream: BinaryIO, name: str) -> bytes:
    """The bytes of a file of text.

    Raises:
        SpecError: PTK804, if there are too many.
    """
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        refuse(fault("PTK804", name, f"has more than {MOST_BYTES:,} bytes of text"), name)
    return data


def json_of(data: bytes, name: str, part: str = "") -> Any:
    """What is written in JSON.

    Args:
        data: The text in UTF-8.
        name: What the file is called.
        part: What part of it this is: `"its header"`.

    Raises:
        SpecError: PTK804, if it is no UTF-8, or no JSON.
    """
    number = sum(data.count(sign) for sign in (b"[", b"{", b","))
    if number > MOST_VALUES:
        fact = f"{part} has more than {MOST_VALUES:,} values".strip()
        refuse(fault("PTK804", name, fact), name)
    fact = f"{part} is nested too deep"
    try:
        return from_json(data.decode("utf-8-sig"), part)
    except UnicodeDecodeError as error:
        fact = f"{part} is no UTF-8: {error.reason} at byte {error.start}"
    except Unreadable as error:
        fact = error.fact
    except RecursionError:
        pass  # the fact is as above
    refuse(fault("PTK804", name, fact.strip()[:LONGEST_FACT]), name)
