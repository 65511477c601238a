"""A step and the shapes that it takes, laid out on a mesh: all that compiling needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from ..faults import Fault
from ..sharding.check import check_shardings
from ..sharding.meshes import axes_of
from ..sharding.plans.sharding_plan import ShardingPlan
from ..show import values as shown
from ..show.errors import SpecError, raise_faults
from ..trees import paths
from ..trees.leaves import is_array
from .lowering import lowered


class Request(NamedTuple):
    """A step with its arguments, before it is traced.

    Attributes:
        name: What messages call the step.
        step: The step, as `jax.jit` returns it.
        is_spread: Whether arguments without a sharding are whole on each device.
        args: Its arguments, those that a plan is of with its shardings.
        names: The path of each leaf of these, `params['w']`.
        mesh: The mesh.
    """

    name: str
    step: Any
    is_spread: bool
    args: tuple[Any, ...]
    names: tuple[str, ...]
    mesh: Mesh | AbstractMesh

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis of the mesh."""
        return dict(zip(self.mesh.axis_names, self.mesh.axis_sizes, strict=True))


class Program(NamedTuple):
    """A step with its arguments, traced.

    Attributes:
        name: What messages call the step.
        args: Its arguments: `jax.ShapeDtypeStruct`s with shardings, and what is no array.
        names: The path of each leaf of these, `params['w']`.
        mesh: The mesh.
        outputs: What it returns, as shapes.
        specs: All that it says itself of how arrays are split.
        ready: What is compiled: a `jax.stages.Lowered`, or what is `Carried` to another process.
    """

    name: str
    args: tuple[Any, ...]
    names: tuple[str, ...]
    mesh: Mesh | AbstractMesh
    outputs: Any
    specs: Collection[PartitionSpec]
    ready: Any

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis of the mesh."""
        return dict(zip(self.mesh.axis_names, self.mesh.axis_sizes, strict=True))

    @property
    def platform(self) -> str:
        """What it is compiled for."""
        return self.mesh.devices.flat[0].platform if isinstance(self.mesh, Mesh) else "cpu"


def request(
    step: Callable[..., Any],
    args: Sequence[Any],
    plans: Sequence[ShardingPlan],
    mesh: Any,
    doing: str,
) -> Request:
    """A step and its arguments, laid out and checked; nothing is traced.

    Args:
        step: The step.
        args: Its arguments.
        plans: Plans of some of them.
        mesh: The mesh.
        doing: What is being done.

    Raises:
        SpecError: PTK001, if a plan is of something else; PTK104, if an argument is no JAX type;
            PTK301 to PTK304, if it does not fit its sharding.
    """
    is_jitted = isinstance(step, jax.stages.Wrapped)
    its = axes_of(mesh, doing).mesh
    raise_faults([*_none(args), *_unused(plans, args), *_other_mesh(plans, its)], doing=doing)
    filled = tuple(_planned(arg, plans) for arg in args)
    laid_out = over(filled, its, is_spread=True)
    names = _names(step, len(args))
    foreign = () if is_jitted else _foreign(laid_out, names)  # it may have static arguments
    raise_faults([*foreign, *_unfit(laid_out, names)], doing=doing, when="before tracing")
    told = tuple(
        names[number] + paths.text(path)
        for number, arg in enumerate(laid_out)
        for path, _ in jax.tree.leaves_with_path(arg)
    )
    jitted: Any = step if is_jitted else jax.jit(step)
    return Request(shown.function(step), jitted, not is_jitted, filled, told, its)


def program(its: Request, doing: str) -> Program:
    """A step, traced.

    Args:
        its: The step and its arguments.
        doing: What is being done.

    Raises:
        SpecError: PTK701, if it cannot be taken to another process, and has to be.
    """
    made = lowered(
        its.step,
        lambda mesh, is_spread: over(its.args, mesh, is_spread=is_spread),
        its.mesh,
        its.name,
        doing,
        is_spread=its.is_spread,
    )
    return Program(its.name, made.args, its.names, its.mesh, *made[1:])


def over(args: Sequence[Any], mesh: Mesh | AbstractMesh, *, is_spread: bool) -> tuple[Any, ...]:
    """Arguments as shapes on a mesh.

    Args:
        args: The arguments.
        mesh: The mesh.
        is_spread: Whether those without a sharding are whole on each device.
    """
    return tuple(jax.tree.map(lambda leaf: _laid_out(leaf, mesh, is_spread), arg) for arg in args)


def _planned(arg: Any, plans: Sequence[ShardingPlan]) -> Any:
    """An argument as a plan lays it out: one of its own shapes, or the optimizer state of these."""
    if any(_sharding(leaf) is not None for leaf in jax.tree.leaves(arg)):
        return arg
    for plan in plans:
        if _same(plan.abstract(), arg):
            return plan.abstract()
    for plan in plans:
        state = _as_state(plan, arg)
        if state is not None:
            return state
    return arg


def _as_state(plan: ShardingPlan, arg: Any) -> Any:
    """An argument as the state of an optimizer of a plan's arrays; None if it is none."""
    shapes = {leaf.shape for leaf in plan.leaves if leaf.shape}
    if not any(getattr(leaf, "shape", None) in shapes for leaf in jax.tree.leaves(arg)):
        return None
    if jax.tree_util.treedef_is_leaf(jax.tree.structure(arg)):
        return None
    try:
        return plan.for_state(arg).abstract()
    except SpecError:  # it is something else: its arrays have no place in the plan
        return None


def _same(one: Any, other: Any) -> bool:
    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(_shape(a) == _shape(b) for a, b in pairs)


def _shape(leaf: Any) -> Any:
    return getattr(leaf, "shape", None), str(getattr(leaf, "dtype", ""))


def _sharding(leaf: Any) -> NamedSharding | None:
    """The sharding that a shape has; None for what has none."""
    its = getattr(leaf, "sharding", None)
    return its if isinstance(its, NamedSharding) else None


def mesh_of(mesh: Any, plan: Any, args: Any) -> Any:
    """The mesh that is asked for: the one given, or of a plan, or of arguments, or that is set.

    Args:
        mesh: What is given as the mesh, None for nothing.
        plan: What is given as a plan, or several; what is no plan has no mesh.
        args: The arguments.
    """
    if mesh is not None:
        return mesh
    leaves = [its for its in (_sharding(leaf) for leaf in jax.tree.leaves(args)) if its is not None]
    known = [its.mesh for its in as_plans(plan) if isinstance(its, ShardingPlan)]
    known += [its.mesh for its in leaves]
    set_ = jax.sharding.get_mesh()
    return next(iter(known), None if set_.empty else set_)


def as_plans(plan: Any) -> tuple[Any, ...]:
    """What is given as a plan, as several: none, one, or more."""
    if plan is None:
        return ()
    return tuple(plan) if isinstance(plan, list | tuple) else (plan,)


def _laid_out(leaf: Any, mesh: Mesh | AbstractMesh, spread: bool) -> Any:  # noqa: FBT001
    """An array as a shape on the mesh; all else as it is."""
    if not isinstance(leaf, jax.ShapeDtypeStruct) and not is_array(leaf):
        return leaf
    its = _sharding(leaf)
    spec = its.spec if its is not None else PartitionSpec() if spread else None
    aval = shown.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    sharding = None if spec is None else NamedSharding(mesh, spec)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)


def _none(args: Sequence[Any]) -> Iterator[Fault]:
    """PTK001: nothing that could lie on the devices."""
    if not jax.tree.leaves(args):
        fact = "must have arguments, there is no array among these"
        yield Fault("PTK001", "step", "", "", "", "", fact=fact)


def _unused(plans: Sequence[ShardingPlan], args: Sequence[Any]) -> Iterator[Fault]:
    """PTK001: a plan of something else."""
    for plan in plans:
        if not any(_same(plan.abstract(), arg) or _as_state(plan, arg) for arg in args):
            fact = "is of no argument: none has its arrays"
            yield Fault("PTK001", "plan", "", "", "", "", fact=fact)


def _other_mesh(plans: Sequence[ShardingPlan], mesh: Mesh | AbstractMesh) -> Iterator[Fault]:
    """PTK001: a mesh of other axes or sizes than a plan was made for."""
    for plan in plans:
        if dict(plan.mesh.shape) != dict(mesh.shape):
            fact = f"must be that of the plan, which has {dict(plan.mesh.shape)}"
            yield Fault("PTK001", "mesh", "", "", "", "", fact=fact)


def _foreign(args: Sequence[Any], names: Sequence[str]) -> Iterator[Fault]:
    """PTK104: what no function that is traced takes."""
    for name, arg in zip(names, args, strict=True):
        for path, leaf in jax.tree.leaves_with_path(arg):
            if not isinstance(leaf, jax.ShapeDtypeStruct) and shown.typeof(leaf) is None:
                fact = f"{shown.kind(leaf)} is no JAX type, it cannot be traced"
                note = "bind it first, with functools.partial"
                yield Fault("PTK104", name, paths.text(path), "", "", "", fact=fact, note=note)


def _unfit(args: Sequence[Any], names: Sequence[str]) -> Iterator[Fault]:
    """What JAX would refuse of the arguments and their shardings."""
    for name, arg in zip(names, args, strict=True):
        for fault in check_shardings(arg, jax.tree.map(_sharding, arg)):
            yield Fault(
                fault.code,
                name,
                fault.path,
                f"{name}{fault.path}.sharding",
                fault.found,
                fault.wanted,
                fact=fault.fact,
                note=fault.note,
            )


def _names(step: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of the parameters of a step, for messages."""
    given = tuple(f"args[{number}]" for number in range(count))
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):
        return given
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    named = tuple(one.name for one in parameters if one.kind in kinds)[:count]
    return named + given[len(named) :]
