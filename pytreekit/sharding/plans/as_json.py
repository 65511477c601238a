"""Plans as JSON, one leaf a line, and back: data alone, read with care, nothing in it is run."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from ...faults import Fault
from ...show import values as shown
from ...show.errors import raise_faults
from ...specs.rule_files import Unreadable, from_json
from ..meshes import Axes
from ..plan import PlannedSpec, SpecNote, SpecPlan
from ..resolve import axes_by_dimension, names_of
from .planned import Planned, planned

FORMAT, VERSION = "pytreekit.ShardingPlan", 1
DOING = "ShardingPlan.from_json"

_KEYS = ("threefry2x32", "rbg", "unsafe_rbg")
"""The implementations of PRNG keys that JAX has."""


_TEXTS = ("path", "text", "why", "said")


class BadFile(ValueError):  # noqa: N818  it is made into a fault
    """A file that is no plan, and why."""


def written(its: Planned) -> str:
    """A plan as JSON."""
    mesh = its.axes.mesh
    axes = [
        {"name": name, "size": size, "type": kind.name}
        for name, size, kind in zip(mesh.axis_names, mesh.axis_sizes, mesh.axis_types, strict=True)
    ]
    leaves = [_leaf_json(leaf) for leaf in its.leaves]
    notes = [note._asdict() for note in its.notes]
    structure = _structure(its.tree(range(len(its.parts))))
    head = {"format": FORMAT, "version": VERSION, "mesh": axes}
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    parts += [
        f'"structure": {structure}',
        f'"leaves": [{_lines(leaves)}]',
        f'"notes": [{_lines(notes)}]',
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(rows: Sequence[Any]) -> str:
    return "\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n" if rows else ""


def _leaf_json(leaf: Any) -> dict[str, Any]:
    spec = [
        None if not axes else axes[0] if len(axes) == 1 else list(axes)
        for axes in axes_by_dimension(leaf.spec)
    ]
    array = {} if leaf.shape is None else {"dtype": leaf.dtype, "shape": list(leaf.shape)}
    its = {"found": leaf.found} if leaf.shape is None else array
    return {
        "path": leaf.path,
        "text": leaf.text,
        **its,
        "spec": spec,
        "why": leaf.why,
        "said": leaf.said,
    }


def _structure(node: Any) -> str:
    """A tree of dicts, lists, tuples and None as JSON, its leaves as numbers; null for others."""
    try:
        return json.dumps(_node(node))
    except (BadFile, RecursionError):
        return "null"


def _node(node: Any) -> Any:
    if node is None:
        return {"none": []}
    if type(node) is int:
        return node
    if type(node) is dict:
        if not all(type(key) in {str, int} for key in node):
            raise BadFile
        return {"dict": [[key, _node(child)] for key, child in node.items()]}
    if type(node) in {list, tuple}:
        return {type(node).__name__: [_node(child) for child in node]}
    raise BadFile


class _Read(NamedTuple):
    """A plan as it stands in a file."""

    mesh: AbstractMesh
    structure: Any
    leaves: list[tuple[PlannedSpec, Any]]
    notes: tuple[SpecNote, ...]


def read(text: str, tree: Any, mesh: Any) -> Planned:
    """A plan from JSON.

    Args:
        text: What `written` made.
        tree: The tree that the plan is of, None to make one of dicts, lists and tuples.
        mesh: The mesh, None for the axes in the file, without devices.

    Raises:
        SpecError: PTK001, if it is no plan, or has nodes of other kinds and there is no tree;
            PTK205, if the tree is another; what `ShardingPlan` raises, if the mesh is.
    """
    with _told():
        found = _found(_data(text))
        tree = _built(found) if tree is None else tree
    own = planned(tree, PartitionSpec(), found.mesh)
    raise_faults(_other_leaves(found, own), doing=DOING)
    specs = own.tree([place.spec for place, _ in found.leaves])
    places = tuple(place for place, _ in found.leaves)
    plan = SpecPlan(specs, places, found.notes, dict(found.mesh.shape))
    return planned(tree, plan, found.mesh if mesh is None else mesh)


def listed(text: str) -> Planned:
    """The leaves of a plan from JSON as a list: what can be held against another, by path.

    Raises:
        SpecError: PTK001, if it is no plan.
    """
    with _told():
        return _listed(_found(_data(text)))


def listed_of(data: Any) -> Planned:
    """The same, of what `from_json` made of the text.

    Raises:
        SpecError: PTK001, if it is no plan.
    """
    with _told():
        return _listed(_found(data))


def _listed(found: _Read) -> Planned:
    structure = jax.tree.structure([0] * len(found.leaves))
    parts = tuple("" if part is None else part for _, part in found.leaves)
    places = tuple(place for place, _ in found.leaves)
    return Planned(structure, parts, places, found.notes, Axes(found.mesh.shape, found.mesh))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What is wrong with a file as a fault."""
    try:
        yield
    except BadFile as bad:
        fault = Fault("PTK001", "text", "", "", "", "", fact=str(bad))
        raise_faults([fault], doing=DOING)


def _other_leaves(found: _Read, own: Planned) -> Iterator[Fault]:
    """PTK205 for each leaf that the tree has, or has not, otherwise than the file."""
    there = {leaf.path: leaf for leaf in own.leaves}
    for number, (place, _) in enumerate(found.leaves):
        its = there.pop(place.path, None)
        told = place.path, "plan" + place.path
        if its is None:
            yield Fault("PTK205", "tree", *told, "", place.found, fact="is missing, plan has it")
        elif its.found != place.found:
            fact = "is another kind of leaf than in plan"
            yield Fault("PTK205", "tree", *told, its.found, place.found, fact=fact)
        elif own.leaves[number].path != place.path:
            fact = "has its keys in another order than in plan"
            yield Fault("PTK205", "tree", *told, its.found, place.found, fact=fact)
    for path, leaf in there.items():
        yield Fault("PTK205", "tree", path, "plan", leaf.found, "", fact="is not in plan")


def _data(text: str) -> Any:
    try:
        return from_json(_is(text, str, "a plan in JSON"), "")
    except Unreadable as error:
        raise BadFile(error.fact.strip()) from None
    except RecursionError:
        raise BadFile("its JSON is nested too deep") from None


def _found(data: Any) -> _Read:
    _is(data, dict, "the file")
    if data.get("format") != FORMAT:
        raise BadFile(f"is no plan: its format is not {FORMAT!r}")
    if data.get("version") != VERSION:
        version = shown.spec(data.get("version"), 24)
        raise BadFile(f"has version {version}, this pytreekit reads version {VERSION}")
    leaves = [_leaf(row, number) for number, row in enumerate(_list(data, "leaves"))]
    notes = tuple(_note(row) for row in _list(data, "notes"))
    mesh = _mesh(_list(data, "mesh"))
    _check_axes(mesh, leaves)
    return _Read(mesh, data.get("structure"), leaves, notes)


def _is(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadFile(f"{what} must be a {kind.__name__}, this is {shown.kind(value)}")
    return value


def _list(data: Any, key: str) -> list[Any]:
    return _is(data.get(key), list, repr(key))


def _mesh(rows: list[Any]) -> AbstractMesh:
    names, sizes, types = [], [], []
    for row in rows:
        axis = _is(row, dict, "an axis of the mesh")
        names.append(_is(axis.get("name"), str, "the name of an axis"))
        sizes.append(_is(axis.get("size"), int, "the size of an axis"))
        kind = axis.get("type")
        if kind not in [its.name for its in AxisType]:
            raise BadFile(f"an axis cannot be of type {shown.spec(kind, 24)}")
        types.append(AxisType[kind])
        if sizes[-1] < 1 or names.count(names[-1]) > 1:
            raise BadFile(f"the mesh cannot have {names[-1]!r} of size {sizes[-1]}, or twice")
    return AbstractMesh(tuple(sizes), tuple(names), axis_types=tuple(types))


def _check_axes(mesh: AbstractMesh, leaves: list[tuple[PlannedSpec, Any]]) -> None:
    for spec in {place.spec for place, _ in leaves}:
        for name in names_of(spec):
            if name not in mesh.axis_names:
                raise BadFile(f"a spec names {name!r}, its mesh has no such axis")


def _leaf(row: Any, number: int) -> tuple[PlannedSpec, Any]:
    what = f"leaves[{number}]"
    its = _is(row, dict, what)
    path, text, *reasons = (_is(its.get(key), str, f"{what}[{key!r}]") for key in _TEXTS)
    spec = PartitionSpec(*(_entry(part, what) for part in _is(its.get("spec"), list, what)))
    if "dtype" not in its:
        return PlannedSpec(path, text, _is(its.get("found"), str, what), spec, *reasons), None
    shape = _is(its.get("shape"), list, what)
    sizes = tuple(_is(size, int, f"a size in {what}") for size in shape)
    if any(size < 0 for size in sizes):
        raise BadFile(f"a size in {what} is negative")
    dtype = _dtype(_is(its["dtype"], str, what))
    part = jax.ShapeDtypeStruct(sizes, dtype)
    return PlannedSpec(path, text, shown.array(dtype, sizes), spec, *reasons), part


def _entry(part: Any, what: str) -> Any:
    if part is None or isinstance(part, str):
        return part
    names = _is(part, list, f"an entry of the spec of {what}")
    return tuple(_is(name, str, f"a mesh axis of {what}") for name in names)


@functools.cache
def _dtype(name: str) -> Any:
    if name.startswith("key<"):
        for kind in _KEYS:
            dtype = jax.eval_shape(functools.partial(jax.random.key, impl=kind), 0).dtype
            if str(dtype) == name:
                return dtype
    try:
        return jnp.dtype(name)
    except TypeError:
        raise BadFile(f"JAX has no dtype {shown.spec(name, 24)}") from None


def _note(row: Any) -> SpecNote:
    its = _is(row, dict, "a note")
    return SpecNote(*(_is(its.get(key), str, f"{key!r} of a note") for key in SpecNote._fields))


def _built(found: _Read) -> Any:
    """The tree of a file."""
    if found.structure is None:
        fact = "its tree has nodes besides dict, list and tuple, or is very deep"
        raise BadFile(f"{fact}: pass one like it as tree=")
    missing = [place.path for place, part in found.leaves if part is None]
    if missing:
        raise BadFile(f"its tree has leaves that are no arrays, as {missing[0]}: pass tree=")
    try:
        return _tree(found.structure, [part for _, part in found.leaves])
    except RecursionError:
        raise BadFile("its structure is too deep") from None


def _tree(node: Any, leaves: list[Any]) -> Any:
    if type(node) is int and 0 <= node < len(leaves):
        return leaves[node]
    kind, rows = next(iter(node.items())) if isinstance(node, dict) and node else ("", None)
    if not isinstance(rows, list) or kind not in {"none", "dict", "list", "tuple"}:
        raise BadFile(f"its structure cannot be read at {shown.spec(node, 24)}")
    if kind == "none":
        return None
    if kind == "dict":
        return dict(_item(row, leaves) for row in rows)
    below = [_tree(row, leaves) for row in rows]
    return below if kind == "list" else tuple(below)


def _item(row: Any, leaves: list[Any]) -> tuple[Any, Any]:
    if not isinstance(row, list) or len(row) != 2 or type(row[0]) not in {str, int}:  # noqa: PLR2004
        raise BadFile(f"its structure cannot be read at {shown.spec(row, 24)}")
    return row[0], _tree(row[1], leaves)
