"""The header of a safetensors file: which arrays are in it. The arrays themselves are not read.

The library that writes these files can read headers, too. It maps the whole file, takes the last of
two entries of one name, and stops at the first fault, often without a name. It is what the tests
hold this module against: what it refuses is refused here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import jax

from ..faults import Fault
from ..show import values
from .arrays import dtype_of, wrong_shape
from .opening import (
    MOST_BYTES,
    MOST_FAULTS,
    brief,
    fault,
    few,
    json_of,
    opened,
    refuse,
    refuse_all,
    short,
    wrong_path,
)

LENGTH = 8
"""Bytes at the beginning that say how long the header is."""

METADATA = "__metadata__"

_DTYPES: Mapping[str, tuple[str, int]] = {
    "BOOL": ("bool", 8),
    "F4": ("float4_e2m1fn", 4),
    "F6_E2M3": ("float6_e2m3fn", 6),
    "F6_E3M2": ("float6_e3m2fn", 6),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "I16": ("int16", 16),
    "U16": ("uint16", 16),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I32": ("int32", 32),
    "U32": ("uint32", 32),
    "F32": ("float32", 32),
    "C64": ("complex64", 64),
    "F64": ("float64", 64),
    "I64": ("int64", 64),
    "U64": ("uint64", 64),
}
"""The dtypes of the format, as JAX calls them, and their bits."""


class _Entry(NamedTuple):
    """An array as the header has it, and the bytes that are its own."""

    name: str
    leaf: Any
    begin: int
    end: int


def read(path: Path, name: str) -> dict[str, Any]:
    """The arrays of a file by their names, as `jax.ShapeDtypeStruct`s.

    Raises:
        SpecError: PTK801, if it cannot be opened; PTK803, if it has another length than it says;
            PTK804, if its header cannot be read; PTK805, for each entry that is wrong.
    """
    with opened(path, name) as stream:
        size = os.fstat(stream.fileno()).st_size
        data = json_of(_header(stream, size, name), name, "its header")
        used = stream.tell()
    if not isinstance(data, dict):
        refuse(fault("PTK804", name, f"its header is {values.kind(data)}, not a mapping"), name)
    entries, faults = _entries(data, name)
    refuse_all(faults or few(_misplaced(entries, size - used, name)), name)
    return {entry.name: entry.leaf for entry in entries}


def _header(stream: BinaryIO, size: int, name: str) -> bytes:
    head = stream.read(LENGTH)
    if len(head) < LENGTH:
        fact = f"has {values.count(len(head), 'byte')}, its header begins with {LENGTH}"
        refuse(fault("PTK803", name, fact), name)
    length = int.from_bytes(head, "little")
    if length > size - LENGTH:
        fact = f"its header should have {length:,} bytes, the file has {size - LENGTH:,} more"
        refuse(fault("PTK803", name, fact), name)
    if length > MOST_BYTES:
        fact = f"its header has {length:,} bytes, {MOST_BYTES:,} are the most"
        refuse(fault("PTK804", name, fact), name)
    return stream.read(length)


def _entries(data: dict[str, Any], name: str) -> tuple[list[_Entry], list[Fault]]:
    """The arrays of a header in the order in which they lie, and what is wrong with them."""
    found: list[_Entry] = []
    faults: list[Fault] = []
    for key, its in data.items():
        if len(faults) >= MOST_FAULTS:
            break
        if key == METADATA:
            is_text = isinstance(its, dict) and all(isinstance(one, str) for one in its.values())
            if not is_text:
                faults.append(fault("PTK804", name, "must be a mapping of texts", METADATA))
            continue
        fact = wrong_path(key) or _wrong(its)
        if fact:
            faults.append(fault("PTK805", name, fact, key))
            continue
        leaf = jax.ShapeDtypeStruct(tuple(its["shape"]), dtype_of(_DTYPES[its["dtype"]][0]))
        found.append(_Entry(key, leaf, *its["data_offsets"]))
    return sorted(found, key=lambda entry: (entry.begin, entry.end)), faults


def _wrong(its: Any) -> str:
    """What is wrong with an entry, `""` for nothing."""
    if not isinstance(its, dict) or not {"dtype", "shape", "data_offsets"} <= its.keys():
        return f"is {brief(its)}, it must have dtype, shape and data_offsets"
    dtype, shape, offsets = its["dtype"], its["shape"], its["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        return f"has no dtype {brief(dtype)}"
    fact = wrong_shape(shape)
    if fact:
        return fact
    are_ints = isinstance(offsets, list) and all(type(offset) is int for offset in offsets)
    if not are_ints or len(offsets) != len(("begin", "end")) or not 0 <= offsets[0] <= offsets[1]:
        return f"has the data_offsets {brief(offsets)}, not where it begins and ends"
    bits, there = _DTYPES[dtype][1] * math.prod(shape), offsets[1] - offsets[0]
    if bits != 8 * there:
        wanted = f"{bits // 8:,}" if bits % 8 == 0 else f"{bits / 8:,}"
        return f"{values.shape_text(shape)} of {dtype} takes {wanted} bytes, it has {there:,}"
    return ""


def _misplaced(entries: list[_Entry], room: int, name: str) -> Iterator[Fault]:
    """Faults of arrays that do not lie one after the other, from the first byte to the last."""
    place, before = 0, ""
    for entry in entries:
        if entry.begin != place:
            where = f"begins at byte {entry.begin:,}"
            after = f"{short(before)!r} ends at {place:,}" if before else "nothing is before it"
            how = "shares bytes: it " if entry.begin < place else ""
            yield fault("PTK805", name, f"{how}{where}, {after}", entry.name)
        place, before = max(place, entry.end), entry.name
    if place > room:
        fact = f"is cut short: its arrays take {place:,} bytes, {room:,} are there"
        yield fault("PTK803", name, fact)
    elif place < room:
        fact = f"is too long: its arrays take {place:,} bytes, {room:,} are there"
        yield fault("PTK803", name, fact)
