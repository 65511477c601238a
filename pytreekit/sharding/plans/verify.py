"""How arrays, or the arguments of a compiled function, are laid out, held against a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding
from jax.stages import Compiled

from ...faults import Fault
from ...show import values as shown
from ...trees import paths
from .beside import PLAN, beside
from .planned import Planned

NAME = "arrays"


def verify(its: Planned, what: Any) -> tuple[Fault, ...]:
    """Every way in which arrays, shardings or a compiled function are not as a plan says."""
    if isinstance(what, Compiled):
        return tuple(_verify_compiled(its, what))
    leaves, structure = jax.tree.flatten(what, is_leaf=_is_none)
    if any(isinstance(leaf, Sharding) for leaf in leaves):
        aligned = _aligned(its, leaves, structure)
        if aligned is None:
            return (Fault("PTK205", NAME, "", PLAN, shown.tree(what), "", fact=_OTHER),)
        return tuple(_differing(its, aligned, NAME))
    found = beside(its, what, NAME)
    if found.faults:
        return tuple(found.faults)
    return tuple(_differing(its, jax.tree.leaves(what), NAME))


_OTHER = "is a tree of another structure than the plan is of"


def _is_none(node: Any) -> bool:
    return node is None


def _aligned(its: Planned, leaves: list[Any], structure: Any) -> list[Any] | None:
    """The leaves of a tree in which None may stand for a leaf, beside those of the plan."""
    numbers = its.tree(range(len(its.parts)))
    planned, its_structure = jax.tree.flatten(numbers, is_leaf=_is_none)
    if structure != its_structure:
        return None
    pairs = zip(planned, leaves, strict=True)
    return [leaf for number, leaf in pairs if number is not None]


def _verify_compiled(its: Planned, compiled: Compiled) -> Iterator[Fault]:
    args, kwargs = compiled.args_info
    found = _nearest(its, args, kwargs)
    if found is None:
        note = "pass its shardings, as compiled.input_shardings[0][0]"
        yield Fault("PTK205", "", "", PLAN, "", "", fact="no argument is like the plan", note=note)
        return
    name, path = found
    node: Any = compiled.input_shardings[0] if name == "args" else compiled.input_shardings[1]
    aligned = _aligned(its, *jax.tree.flatten(_below(node, path), is_leaf=_is_none))
    yield from _differing(its, aligned or [], name + paths.text(path))


def _nearest(its: Planned, args: Any, kwargs: Any) -> tuple[str, paths.KeyPath] | None:
    """Where the argument is that has the structure and the shapes of a plan: the least deep one."""
    level: list[tuple[str, paths.KeyPath, Any]] = [("args", (), args), ("kwargs", (), kwargs)]
    while level:
        below: list[tuple[str, paths.KeyPath, Any]] = []
        for name, path, node in level:
            if _is_like(its, node):
                return name, path
            if not paths.is_leaf(node):
                its_children = paths.children(node)[0]
                below += [(name, (*path, key), child) for key, child in its_children]
        level = below
    return None


def _is_like(its: Planned, node: Any) -> bool:
    leaves, structure = jax.tree.flatten(node)
    if structure != its.structure:
        return False
    pairs = zip(its.parts, leaves, strict=True)
    return all(getattr(part, "shape", None) == leaf.shape for part, leaf in pairs)


def _below(node: Any, path: paths.KeyPath) -> Any:
    for key in path:
        node = dict(paths.children(node)[0])[key]
    return node


def _differing(its: Planned, leaves: list[Any], name: str) -> Iterator[Fault]:
    """PTK310 for what is laid out otherwise."""
    for place, part, planned, leaf in zip(
        its.places, its.parts, its.shardings, leaves, strict=True
    ):
        if leaf is None or not isinstance(part, jax.ShapeDtypeStruct):
            continue  # None: a compiled function has no use for it
        sharding = leaf if isinstance(leaf, Sharding) else getattr(leaf, "sharding", None)
        note = _difference(sharding, planned, len(part.shape), leaf)
        if note:
            told = place.path, "plan.specs" + place.path, place.found, shown.spec(place.spec)
            yield Fault("PTK310", name, *told, note=note)


def _difference(sharding: Any, planned: NamedSharding, rank: int, leaf: Any) -> str:
    """How a layout is another than the one planned, nothing if it is not."""
    if sharding is None:
        return f"it is {shown.kind(leaf)}, on no device"
    wanted = planned
    if not isinstance(planned.mesh, jax.sharding.Mesh):
        there = _on_its_mesh(sharding, planned)
        if there is None:
            return _told(sharding)
        wanted = there
    if sharding.is_equivalent_to(wanted, rank):
        return ""
    same_spec = isinstance(sharding, NamedSharding) and sharding.spec == planned.spec
    if len(sharding.device_set) != len(wanted.device_set):
        return f"{_told(sharding)} on {shown.count(len(sharding.device_set), 'device')}"
    if same_spec or sharding.device_set != wanted.device_set:
        return f"{_told(sharding)}, on other devices or in another order"
    return _told(sharding)


def _on_its_mesh(sharding: Any, planned: NamedSharding) -> NamedSharding | None:
    """What a plan without devices says on the mesh of a sharding, if this has its axes."""
    mesh = getattr(sharding, "mesh", None)
    if mesh is None:
        return None
    has_its_axes = dict(mesh.shape) == dict(planned.mesh.shape)
    return NamedSharding(mesh, planned.spec) if has_its_axes else None


def _told(sharding: Any) -> str:
    if isinstance(sharding, NamedSharding):
        mesh = ", ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
        return f"it has {PartitionSpec(*sharding.spec)} over {mesh}"
    return f"it has a {type(sharding).__name__}"
