"""How long collectives take at least, by the bytes that must cross the links between devices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

PerAxis: TypeAlias = float | int | Mapping[str, float | int]
"""A number, the same for all, or one for each axis of the mesh."""

_SHARES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1}
"""How often the part of an array that a device lacks crosses its link."""


def sent(kind: str, size: int, members: int) -> float:
    """The bytes that each device must send, at least, in one collective.

    It is what the ring algorithms reach (Patarasu and Yuan, Bandwidth Optimal All-reduce
    Algorithms for Clusters of Workstations, 2009).

    Args:
        kind: `"all-reduce"` and its kin.
        size: The bytes of the whole array that is reduced, gathered or exchanged.
        members: How many devices are in a group.

    >>> sent("all-reduce", 800, 8), sent("all-gather", 800, 8), sent("collective-permute", 800, 8)
    (1400.0, 700.0, 800.0)
    """
    share = _SHARES.get(kind)
    return float(size) if share is None else share * size * (members - 1) / members


@dataclasses.dataclass(frozen=True)
class Links:
    """What is known of the links between devices.

    Attributes:
        bandwidth: Bytes per second that a device can send: over all of its links, or along each
            axis of the mesh.
        latency: Seconds that a collective takes at least, however small: any, or along each axis.
    """

    bandwidth: PerAxis
    latency: PerAxis = 0.0

    def seconds(self, kind: str, size: int, axes: Sequence[str], mesh: Mapping[str, int]) -> float:
        """The seconds that a collective takes at least.

        Args:
            kind: `"all-reduce"` and its kin.
            size: The bytes of the whole array.
            axes: The axes of the mesh that it runs over.
            mesh: The size of each axis.
        """
        members = math.prod(mesh[axis] for axis in axes)
        if members <= 1 or not axes:
            return 0.0
        late = max(self._of(self.latency, axis) for axis in axes)
        return late + self._crossing(kind, size, axes, mesh, members)

    def _crossing(
        self, kind: str, size: int, axes: Sequence[str], mesh: Mapping[str, int], members: int
    ) -> float:
        whole = sent(kind, size, members)
        if not isinstance(self.bandwidth, Mapping):
            return whole / self.bandwidth
        speeds = {axis: self._of(self.bandwidth, axis) for axis in axes}
        if kind not in _SHARES:
            return whole / sum(speeds.values())
        # What the devices of one place along an axis lack comes in over the links of all of them.
        alone = [
            sent(kind, size, mesh[axis]) * mesh[axis] / members / speed
            for axis, speed in speeds.items()
        ]
        return max(*alone, whole / sum(speeds.values()))

    @staticmethod
    def _of(its: PerAxis, axis: str) -> float:
        return float(its[axis] if isinstance(its, Mapping) else its)
