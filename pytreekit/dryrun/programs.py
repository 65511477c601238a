"""A step and the shapes that it takes, laid out on a mesh: all that compiling needs."""

from __future__ import annotations

import functools
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
from .unwrapping import Call, held, jitted, unwrapped


class Request(NamedTuple):
    """A step with its arguments, before it is traced.

    Attributes:
        name: What messages call the step.
        call: The step, as `jax.jit` returns it, and its arguments, those that a plan is of with its
            shardings.
        is_spread: Whether arguments without a sharding are whole on each device. What a user has
            jitted may have shardings of its own for them.
        names: The path of each leaf of the arguments, `params['w']`.
        mesh: The mesh.
    """

    name: str
    call: Call
    is_spread: bool
    names: tuple[str, ...]
    mesh: Mesh | AbstractMesh


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
    call = unwrapped(step, args)
    its = axes_of(mesh, doing).mesh
    wrong = [*_held(call.step), *_none(call.every), *_unused(plans, call.every)]
    raise_faults([*wrong, *_other_mesh(plans, its)], doing=doing)
    filled = call.with_every([_planned(arg, plans) for arg in call.every])
    laid_out = over(filled, its, is_spread=True).every
    names = (*_names(call.step, len(call.args)), *call.keywords)
    foreign = () if call.is_jitted else _foreign(laid_out, names)  # it may have static arguments
    raise_faults([*foreign, *_unfit(laid_out, names)], doing=doing, when="before tracing")
    told = tuple(
        names[number] + paths.text(path)
        for number, arg in enumerate(laid_out)
        for path, _ in jax.tree.leaves_with_path(arg)
    )
    ready = filled if call.is_jitted else filled._replace(step=jitted(call.step))
    return Request(shown.function(step), ready, not call.is_jitted, told, its)


def program(its: Request, doing: str) -> Program:
    """A step, traced.

    Args:
        its: The step and its arguments.
        doing: What is being done.

    Raises:
        SpecError: PTK701, if it cannot be taken to another process, and has to be.
    """
    lay_out = functools.partial(over, its.call)
    made = lowered(lay_out, its.mesh, its.name, doing, is_spread=its.is_spread)
    return Program(its.name, made.call.every, its.names, its.mesh, *made[1:])


def over(call: Call, mesh: Mesh | AbstractMesh, *, is_spread: bool) -> Call:
    """A call with its arguments as shapes on a mesh.

    Args:
        call: The call.
        mesh: The mesh.
        is_spread: Whether those without a sharding are whole on each device.
    """
    lay_out = functools.partial(_laid_out, mesh=mesh, is_spread=is_spread)
    return call.with_every([jax.tree.map(lay_out, arg) for arg in call.every])


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


def mesh_of(mesh: Any, plan: Any, step: Any, args: Sequence[Any]) -> Any:
    """The mesh that is asked for: the one given, or of a plan, or of arguments, or that is set.

    Args:
        mesh: What is given as the mesh, None for nothing.
        plan: What is given as a plan, or several; what is no plan has no mesh.
        step: The step.
        args: Its arguments.
    """
    if mesh is not None:
        return mesh
    every = jax.tree.leaves(unwrapped(step, args).every)
    leaves = [its for its in (_sharding(leaf) for leaf in every) if its is not None]
    known = [its.mesh for its in as_plans(plan) if isinstance(its, ShardingPlan)]
    known += [its.mesh for its in leaves]
    are_set = jax.sharding.get_mesh(), jax.sharding.get_abstract_mesh()
    return next((its for its in (*known, *are_set) if not its.empty), None)


def as_plans(plan: Any) -> tuple[Any, ...]:
    """What is given as a plan, as several: none, one, or more."""
    if plan is None:
        return ()
    return tuple(plan) if isinstance(plan, list | tuple) else (plan,)


def _laid_out(leaf: Any, *, mesh: Mesh | AbstractMesh, is_spread: bool) -> Any:
    """An array as a shape on the mesh; all else as it is."""
    if not isinstance(leaf, jax.ShapeDtypeStruct) and not is_array(leaf):
        return leaf
    its = _sharding(leaf)
    spec = its.spec if its is not None else PartitionSpec() if is_spread else None
    aval = shown.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    sharding = None if spec is None else NamedSharding(mesh, spec)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)


def _none(args: Sequence[Any]) -> Iterator[Fault]:
    """PTK001: nothing that could lie on the devices."""
    if not jax.tree.leaves(args):
        fact = "must have arguments, there is no array among these"
        yield Fault("PTK001", "step", "", "", "", "", fact=fact)


def _held(step: Any) -> Iterator[Fault]:
    """PTK001: a step that is to compute with shapes, which have no values."""
    for shape in held(step):
        fact = "holds the shape of an array, which has no values: pass it as an argument"
        yield Fault("PTK001", "step", "", "", shown.leaf(shape), "", fact=fact)


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
                apart = "take it apart with ptk.partition, and ptk.combine it in the step"
                note = apart if path else "bind it first, with functools.partial"
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
