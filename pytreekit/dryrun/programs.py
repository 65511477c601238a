"""A step and the shapes that it takes, laid out on a mesh: all that compiling needs."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
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


class Program(NamedTuple):
    """A step with its arguments.

    Attributes:
        name: What messages call the step.
        step: The step, as `jax.jit` returns it.
        args: Its arguments: `jax.ShapeDtypeStruct`s with shardings, and what is no array.
        names: The path of each leaf of these, `params['w']`.
        mesh: The mesh.
        outputs: What it returns, as shapes.
    """

    name: str
    step: Any
    args: tuple[Any, ...]
    names: tuple[str, ...]
    mesh: Mesh | AbstractMesh
    outputs: Any

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis of the mesh."""
        return dict(zip(self.mesh.axis_names, self.mesh.axis_sizes, strict=True))


def program(
    step: Callable[..., Any],
    args: Sequence[Any],
    plans: Sequence[ShardingPlan],
    mesh: Any,
    doing: str,
) -> Program:
    """A step and its arguments, laid out.

    Args:
        step: The step.
        args: Its arguments.
        plans: Plans of some of them.
        mesh: The mesh, None for that of a plan or of the arguments.
        doing: What is being done.

    Raises:
        SpecError: PTK001, if an argument is of a wrong kind, or there is no mesh; PTK104, if it is
            no JAX type; PTK301 to PTK304, if it does not fit its sharding.
    """
    if not callable(step):
        fact = f"must be callable, this is {shown.kind(step)}"
        raise_faults([Fault("PTK001", "step", "", "", "", "", fact=fact)], doing=doing)
    is_jitted = hasattr(step, "lower") and hasattr(step, "trace")
    filled = [_planned(arg, plans) for arg in args]
    its = _mesh(filled, plans, mesh, doing)
    raise_faults([*_none(args), *_unused(plans, args), *_other_mesh(plans, its)], doing=doing)

    def over(spread: bool) -> tuple[Any, ...]:  # noqa: FBT001
        return tuple(jax.tree.map(lambda leaf: _laid_out(leaf, its, spread), arg) for arg in filled)

    # What a jitted step has of shardings is for the arguments that have none.
    laid_out = over(spread=not (is_jitted and _has_shardings(step, over(spread=False))))
    names = _names(step, len(args))
    foreign = () if is_jitted else _foreign(laid_out, names)  # it may have static arguments
    raise_faults([*foreign, *_unfit(laid_out, names)], doing=doing, when="before tracing")
    jitted: Any = step if is_jitted else jax.jit(step)
    told = tuple(
        names[number] + paths.text(path)
        for number, arg in enumerate(laid_out)
        for path, _ in jax.tree.leaves_with_path(arg)
    )
    outputs = jitted.trace(*laid_out).out_info
    return Program(shown.function(step), jitted, laid_out, told, its, outputs)


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


def _mesh(
    args: Sequence[Any], plans: Sequence[ShardingPlan], mesh: Any, doing: str
) -> Mesh | AbstractMesh:
    """The mesh: the one given, or that of the plan, or of the arguments, or the one that is set."""
    if mesh is None:
        leaves = [leaf for arg in args for leaf in jax.tree.leaves(arg)]
        known = [its.mesh for leaf in leaves if (its := _sharding(leaf)) is not None]
        mesh = next(itertools.chain((plan.mesh for plan in plans), known), None)
    return axes_of(mesh, doing).mesh


def _laid_out(leaf: Any, mesh: Mesh | AbstractMesh, spread: bool) -> Any:  # noqa: FBT001
    """An array as a shape on the mesh; all else as it is."""
    if not isinstance(leaf, jax.ShapeDtypeStruct) and not is_array(leaf):
        return leaf
    its = _sharding(leaf)
    spec = its.spec if its is not None else PartitionSpec() if spread else None
    aval = shown.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    sharding = None if spec is None else NamedSharding(mesh, spec)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)


def _has_shardings(jitted: Any, args: Sequence[Any]) -> bool:
    """Whether a jitted step, or an argument, says over how many devices it goes."""
    if any(_sharding(leaf) is not None for leaf in jax.tree.leaves(args)):
        return True
    text = jitted.trace(*args).lower(lowering_platforms=("cpu",)).as_text()
    found = re.search(r"num_partitions = (\d+)", text)
    return found is not None and int(found[1]) > 1


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
