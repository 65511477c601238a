"""Hypothesis strategies for calls of a function over shards, sound ones and damaged ones."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

SHAPES = ((), (8,), (3,), (8, 4), (4, 8), (8, 3), (2, 8, 4), (8, 8))
MESHES = {
    "one": ((1,), ("x",)),
    "two": ((2,), ("x",)),
    "eight": ((8,), ("x",)),
    "square": ((2, 2), ("x", "y")),
    "wide": ((2, 4), ("x", "y")),
}
WEIRD = ("relu", 3, 1.5, {1, 2}, object())
NO_SPECS = ("x", ("x", None), 0, NamedSharding, P(...), P(P.UNCONSTRAINED))
RECIPES = ("same", "same", "total", "summed", "first", "constant", "nothing", "text")


@functools.cache
def mesh_of(name: str, kind: AxisType) -> AbstractMesh:
    """A mesh without devices."""
    sizes, names = MESHES[name]
    return AbstractMesh(sizes, names, axis_types=(kind,) * len(names))


@dataclasses.dataclass
class Drawn:
    """One call: the options, the arguments, and what the function returns."""

    options: dict[str, Any]
    args: tuple[Any, ...]
    recipes: Any

    def fun(self, *args: Any) -> Any:
        """The user's function."""
        flat = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, jax.Array)]
        axes = self.options["mesh"].axis_names

        def cook(recipe: Any) -> Any:
            what, place = recipe
            leaf = flat[place % len(flat)] if flat else jnp.ones(())
            made: dict[str, Callable[[], Any]] = {
                "same": lambda: leaf,
                "total": leaf.sum,
                "summed": lambda: jax.lax.psum(leaf, axes[0]),
                "first": lambda: leaf[:1] if leaf.ndim else leaf,
                "constant": lambda: 1.5,
                "nothing": lambda: None,
                "text": lambda: "tag",
            }
            return made[what]()

        return jax.tree.map(cook, self.recipes, is_leaf=_is_recipe)


def _is_recipe(node: Any) -> bool:
    return isinstance(node, tuple) and len(node) == 2 and node[0] in RECIPES


@st.composite
def specs(draw: Any, names: tuple[str, ...], shape: tuple[int, ...], sizes: dict[str, int]) -> P:
    """A spec, mostly one that fits a shape."""
    free = list(draw(st.permutations(names)))
    entries: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        its = free[: draw(st.sampled_from((0, 1, 1, 2)))]
        parts = 1
        kept = []
        for name in its:
            if size % (parts * sizes[name]) == 0:
                kept.append(name)
                parts *= sizes[name]
        free = [name for name in free if name not in kept]
        entries.append((kept[0] if len(kept) == 1 else tuple(kept)) if kept else None)
    return P(*entries)


def _other_node(node: Any) -> Any:
    if isinstance(node, dict):
        return {**node, "extra": P()} if len(node) < 2 else dict(list(node.items())[1:])
    return list(node) if isinstance(node, tuple) else tuple(node)


@st.composite
def damaged(draw: Any, tree: Any, rank_of: str) -> Any:
    """A tree of specs with one thing wrong, or different, in it."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda node: node is None)
    if not leaves:
        return tree
    place = draw(st.integers(0, len(leaves) - 1))
    kinds = ("unknown", "long", "odd", "none", "whole", "node", "one", "twice")
    kind = draw(st.sampled_from(kinds))
    old = leaves[place] if isinstance(leaves[place], P) else P()
    new = {
        "unknown": P("modle"),
        "long": P(*old.partitions, None, None, rank_of),
        "odd": draw(st.sampled_from(NO_SPECS)),
        "none": None,
        "whole": P(),
        "one": P(rank_of),
        "twice": P(rank_of, rank_of),
    }
    if kind == "node":
        return _other_node(tree) if isinstance(tree, dict | tuple | list) else (tree,)
    return structure.unflatten([*leaves[:place], new[kind], *leaves[place + 1 :]])


class Trees:
    """Draws trees of arguments, and of specs that fit them."""

    def __init__(self, draw: Any, mesh: AbstractMesh, manual: tuple[str, ...]) -> None:
        self.draw, self.mesh, self.manual = draw, mesh, manual
        self.sizes = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
        self.explicit = AxisType.Explicit in mesh.axis_types

    def leaf(self) -> tuple[Any, Any]:
        draw = self.draw
        if not draw(st.integers(0, 9)):
            return draw(st.sampled_from(WEIRD)), None
        shape = draw(st.sampled_from(SHAPES))
        spec = draw(specs(self.manual, shape, self.sizes))
        if not self.explicit:
            return jax.ShapeDtypeStruct(shape, jnp.float32), spec
        laid_out = spec
        if not draw(st.integers(0, 4)):
            laid_out = draw(specs(self.mesh.axis_names, shape, self.sizes))
        sharding = NamedSharding(self.mesh, laid_out)
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding), spec

    def tree(self, depth: int = 0) -> tuple[Any, Any]:
        draw = self.draw
        kind = draw(st.sampled_from(("leaf", "leaf", "dict", "tuple", "list", "none")))
        if kind == "none":
            return None, draw(st.sampled_from((None, P())))
        if kind == "leaf" or depth == 2:
            return self.leaf()
        rows = [self.tree(depth + 1) for _ in range(draw(st.integers(1, 2)))]
        args, its = [row[0] for row in rows], [row[1] for row in rows]
        if kind == "dict":
            return dict(zip("ab", args, strict=False)), dict(zip("ab", its, strict=False))
        return (args, its) if kind == "list" else (tuple(args), tuple(its))


@st.composite
def calls(draw: Any, *, explicit: bool = False) -> Drawn:
    """A call, sound or with up to two faults."""
    name = draw(st.sampled_from(sorted(MESHES)))
    mesh = mesh_of(name, AxisType.Explicit if explicit else AxisType.Auto)
    names = mesh.axis_names
    manual = names if draw(st.integers(0, 3)) else names[:1]
    trees = Trees(draw, mesh, manual)
    rows = [trees.tree() for _ in range(draw(st.integers(1, 3)))]
    args, in_specs = tuple(r[0] for r in rows), tuple(r[1] for r in rows)
    count = draw(st.integers(1, 3))
    recipes = [(draw(st.sampled_from(RECIPES)), draw(st.integers(0, 3))) for _ in range(count)]
    out_specs: Any = [draw(st.sampled_from((P(), P(manual[0]), P(manual), None))) for _ in recipes]
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        if draw(st.booleans()):
            in_specs = draw(damaged(in_specs, manual[0]))
        else:
            out_specs = draw(damaged(out_specs, manual[0]))
    options = {
        "mesh": mesh,
        "in_specs": draw(st.sampled_from((in_specs, in_specs, in_specs, P(), None))),
        "out_specs": out_specs,
        "check_vma": draw(st.booleans()),
        "axis_names": frozenset(manual) if manual != names else frozenset(),
    }
    return Drawn(options, args, recipes)
