"""The mesh around a step while it is traced: the one that was asked for, whatever else is set.

JAX finds it there for a bare PartitionSpec, `jax.sharding.get_abstract_mesh()` and the like, which
takes a mesh with devices. A step may also bring meshes of its own, which JAX refuses beside another
one that is set, so there are several ways to trace it.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh

Made = TypeVar("Made")

_RAISES = dis.opmap["RAISE_VARARGS"]
_NOT_THE_STEP = {"jax", "jaxlib", "pytreekit"}


class Way(NamedTuple):
    """A way to trace a step.

    Attributes:
        mesh: What its arguments lie on.
        is_set: Whether the step finds that mesh as the one that `jax.set_mesh` has set.
        is_here: Whether it is compiled in this process.
    """

    mesh: Mesh | AbstractMesh
    is_set: bool
    is_here: bool


class Refused(Exception):  # noqa: N818  it is told as a fault
    """A traced step cannot be taken to another process; its cause is what JAX says."""


def ways(mesh: Mesh | AbstractMesh) -> Iterator[Way]:
    """The ways to trace a step for a mesh, the likeliest first."""
    here = devices_of(mesh)
    if here is not None:
        yield Way(here, is_set=True, is_here=True)
        yield Way(here, is_set=False, is_here=True)
    else:
        yield Way(_stand_in(mesh), is_set=True, is_here=False)
    if isinstance(mesh, AbstractMesh):  # a sharding over it, of a step's own, has no devices
        yield Way(mesh, is_set=False, is_here=False)


def devices_of(mesh: Mesh | AbstractMesh) -> Mesh | None:
    """The mesh to compile for in this process; None where it has too few devices."""
    if isinstance(mesh, Mesh):
        return mesh
    devices = jax.devices("cpu")
    # The oldest XLA ends its process at other letters in the axes of a `jax.shard_map`.
    if len(devices) < mesh.size or not all(map(str.isascii, mesh.axis_names)):
        return None
    over = np.array(devices[: mesh.size]).reshape(mesh.axis_sizes)
    return Mesh(over, mesh.axis_names, axis_types=mesh.axis_types)


def _stand_in(mesh: Mesh | AbstractMesh) -> Mesh:
    """A mesh of one device, as often as there are places: it is traced over, and not compiled."""
    over = np.full(mesh.axis_sizes, jax.devices("cpu")[0], dtype=object)
    return Mesh(over, mesh.axis_names, axis_types=mesh.axis_types)


def in_the_first_way(mesh: Mesh | AbstractMesh, make: Callable[[Way], Made]) -> Made:
    """What is made in the first of the ways that JAX does not refuse.

    An error that the step itself raises is no reason to try another way: it is raised as it is. So
    is that of the first way where JAX refuses all of them.

    Args:
        mesh: The mesh that was asked for.
        make: What traces the step in one way.

    Raises:
        Refused: If the step has to go to another process, and cannot.
    """
    errors: list[Exception] = []
    for way in ways(mesh):
        try:
            with jax.set_mesh(way.mesh if way.is_set and isinstance(way.mesh, Mesh) else None):
                return make(way)
        except Exception as error:
            if not errors and not _is_refused(error):
                raise
            errors.append(error)
    stays = [error for error in errors if isinstance(error, Refused)]
    raise errors[0] if devices_of(mesh) is not None or not stays else stays[0]


def _is_refused(error: Exception) -> bool:
    """Whether it is JAX that refuses a step, or a call in it, and not the code of the user.

    JAX takes its own frames out of a traceback: the last one that is left then only makes a call.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not isinstance(error, ValueError | Refused):
        return False
    module = str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    return module in _NOT_THE_STEP or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISES
