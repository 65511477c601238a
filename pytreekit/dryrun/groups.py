"""Which devices take part in a collective: groups as HLO writes them, and the mesh axes of these.

A group is written as lists, `{{0,1},{2,3}}`; as numbers that are counted, reshaped and transposed,
`[2,4]<=[4,2]T(1,0)`; or by axes of a mesh that the compiler made up,
`mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a','b':(1)2}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

_LISTS = re.compile(r"\breplica_groups=\{(\{[\d,]*\}(?:,\{[\d,]*\})*)?\}")
_COUNTED = re.compile(r"\breplica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"\breplica_groups=mesh\[(?P<sizes>[^\]]*)\]"
    r"(?:, device_ids=\((?P<devices>[^()]*(?:\([\d,]*\))?)\))? \{(?P<axes>[^}]*)\}"
)
_DEVICES = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_SIZE = re.compile(r"'([^']*)'=(\d+)")
_AXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_PAIRS = re.compile(r"\bsource_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")


class Over(NamedTuple):
    """What a collective runs over.

    Attributes:
        axes: The axes of the mesh along which the devices of a group differ.
        devices: How many devices a group has.
        whole: Whether a group has all devices along its axes.
    """

    axes: tuple[str, ...]
    devices: int
    whole: bool = True

    def __str__(self) -> str:
        return "+".join(self.axes) + " in part" * (not self.whole)


def groups(attributes: str, devices: int) -> np.ndarray | None:
    """The groups of devices, a row each; None where an instruction tells of none.

    Args:
        attributes: What stands behind an instruction.
        devices: For how many devices the program is: `{}` is a group of all of them.

    >>> groups("replica_groups=[2,2]<=[2,2]T(1,0)", 4).tolist()
    [[0, 2], [1, 3]]
    >>> groups("replica_groups=mesh['a'=4] {'a':(2)2}", 4).tolist()
    [[0, 1], [2, 3]]
    """
    if (counted := _COUNTED.search(attributes)) is not None:
        shape, source, order = map(_numbers, counted.groups(""))
        return _arranged(source, order).reshape(shape)
    if (mesh := _MESH.search(attributes)) is not None:
        return _of_mesh(mesh["sizes"], mesh["devices"], mesh["axes"])
    if (lists := _LISTS.search(attributes)) is None:
        return None
    rows = [_numbers(row) for row in re.findall(r"\{([\d,]*)\}", lists[1] or "")]
    rows = rows or [list(range(devices))]
    most = max(map(len, rows))
    return np.array([row for row in rows if len(row) == most])


def _of_mesh(sizes: str, devices: str | None, axes: str) -> np.ndarray:
    """Groups that are told as axes, or parts of axes, of a mesh."""
    its = {name: int(size) for name, size in _SIZE.findall(sizes)}
    count = math.prod(its.values())
    found = _DEVICES.search(devices or "")
    if found is not None:
        order = _arranged(*map(_numbers, found.groups(""))).ravel()
    else:
        order = np.array(_numbers(devices or "") or range(count))
    taken = {
        name: (int(pre or 1), int(size or its[name])) for name, pre, size in _AXIS.findall(axes)
    }
    shape: list[int] = []
    grouped: list[int] = []
    for name, size in its.items():
        pre, part = taken.get(name, (1, 1))
        grouped += [len(shape) + 1] if name in taken else []
        shape += [pre, part, size // (pre * part)]
    rest = [dim for dim in range(len(shape)) if dim not in grouped]
    members = math.prod(shape[dim] for dim in grouped)
    return order.reshape(shape).transpose([*rest, *grouped]).reshape(-1, members)


def _arranged(shape: Sequence[int], order: Sequence[int]) -> np.ndarray:
    counted = np.arange(math.prod(shape)).reshape(shape)
    return counted.transpose(order) if order else counted


def pairs(attributes: str) -> np.ndarray | None:
    """Who sends to whom in a permutation, a row each; None where an instruction is none."""
    found = _PAIRS.search(attributes)
    if found is None:
        return None
    return np.array([_numbers(pair) for pair in re.findall(r"\{(\d+,\d+)\}", found[1])])


def over(attributes: str, mesh: Mapping[str, int]) -> Over:
    """The axes of a mesh that a collective runs over.

    Args:
        attributes: What stands behind the instruction.
        mesh: The size of each axis. Devices are counted along the last axis first, as JAX does.
    """
    sent = pairs(attributes)
    found = groups(attributes, math.prod(mesh.values())) if sent is None else sent
    if found is None or not found.size:
        return Over((), 1)
    sizes = tuple(mesh.values()) or (1,)
    if found.max() >= math.prod(sizes):  # more devices than the mesh has: they have no place in it
        return Over((), found.shape[1], whole=False)
    places = np.stack(np.unravel_index(found, sizes), axis=-1)
    differ = (places != places[:, :1]).any(axis=(0, 1))
    names = tuple(name for name, its in zip(mesh, differ, strict=False) if its)
    members = found.shape[1]
    full = sent is not None or math.prod(mesh[name] for name in names) == members
    return Over(names, members, whole=full)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number.strip().isdigit()]
