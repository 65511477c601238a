"""The devices of a mesh: those that a call runs on, and the context in which it does."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh

from ..faults import Fault


def check_devices(mesh: Any) -> list[Fault]:
    """PTK001: a mesh without devices is for plans."""
    if not isinstance(mesh, Mapping | AbstractMesh):
        return []
    told = str(dict(mesh) if isinstance(mesh, Mapping) else dict(mesh.shape))
    fact = "a mesh of sizes is for plans, a call needs one of devices"
    return [Fault("PTK001", "", "", "mesh", "", told, fact=fact)]


def mesh_of(mesh: Any) -> Any:
    """The mesh of a call: what was passed as such, else what is set."""
    if mesh is not None:
        return mesh
    try:
        return jax.sharding.get_mesh()
    except ValueError:  # a function is being traced: its devices are its caller's
        return jax.sharding.get_abstract_mesh()


def within(mesh: Mesh | AbstractMesh) -> Any:
    """A context in which the mesh is set, so that specs alone will do in a function."""
    if not jax.sharding.get_abstract_mesh().empty:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(mesh.abstract_mesh)
