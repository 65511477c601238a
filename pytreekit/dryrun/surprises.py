"""What in a compiled step is hardly meant: findings, as faults with stable codes, and remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from ..faults import Fault
from ..sharding.resolve import axes_by_dimension
from ..show import values as shown
from ..show.sizes import in_bytes
from ..trees import paths
from .collectives import Found, repeats
from .flow import At, Use, depends_on, index, uses
from .hlo import Module
from .naming import axes_in, specs_of
from .programs import Program

MEANT = {
    "all_gather",
    "all_gather_invariant",
    "sharding_constraint",
    "reshard",
    "all_gather_reduced",
}
"""Operations of JAX that ask for an array as a whole."""

_UNSPLIT = {
    "cholesky",
    "custom-call",
    "fft",
    "gather",
    "pad",
    "reduce-window",
    "scatter",
    "sort",
    "triangular-solve",
}
"""What XLA did not split, though the array that it takes was split."""

SMALL = 4096
"""Bytes below which nobody minds that an array is gathered."""


def surprises(
    program: Program, module: Module, found: Sequence[Found], specs: Sequence[PartitionSpec]
) -> tuple[Fault, ...]:
    """All findings: arrays gathered or returned whole, axes without use, loops that send too often.

    Args:
        program: The step and its arguments.
        module: What it was compiled to.
        found: Its collectives.
        specs: How arrays in it are split, as far as that is known.
    """
    return (
        *_gathered(module, found),
        *_returned_whole(program, module),
        *_unused(program, found, specs),
        *_in_loops(module, found),
    )


def _place(found: Found) -> tuple[str, str]:
    """The argument that a collective sends, or else its line, and the array."""
    told = found.told
    return told.leaf or told.source or told.operation, ", ".join(told.arrays)


def _gathered(module: Module, found: Sequence[Found]) -> Iterator[Fault]:
    for one in found:
        told = one.told
        operation, _, _ = told.operation.partition(",")
        if told.kind != "all-gather" or operation in MEANT or told.bytes < SMALL:
            continue
        users = [use for use in uses(module, one.at) if _is_unsplit(module, use)]
        if users:
            place, array = _place(one)
            what = operation if operation != told.leaf else users[0].at.its.opcode
            by = f"; {told.source}" * (told.source not in {"", place})
            fact = f"is gathered whole on each device, {in_bytes(told.bytes)}, for {what}"
            note = (
                f"XLA cannot split {what} along {'+'.join(told.axes)}{by}: split another dimension "
                "there (jax.lax.with_sharding_constraint), or write it by jax.shard_map"
            )
            yield Fault("PTK751", place, "", "", array, "", fact=fact, note=note)


def _is_unsplit(module: Module, use: Use) -> bool:
    computation, its = use.at
    if its.opcode == "dynamic-slice":
        starts = (At(computation, computation.instructions[name]) for name in its.operands[1:])
        return any(depends_on(module, start, "partition-id") for start in starts)
    return its.opcode in _UNSPLIT and (its.opcode != "gather" or use.operand == 0)


def _returned_whole(program: Program, module: Module) -> Iterator[Fault]:
    """PTK752: what goes in split and comes out whole."""
    outputs = jax.tree.leaves_with_path(program.outputs)
    if len(outputs) != len(module.results):
        return
    into = _split_arguments(program)
    for (path, leaf), here in zip(outputs, module.results, strict=True):
        came = _came_from(path, leaf, into)
        if came is not None and here.shape == tuple(leaf.shape):
            name, spec = came
            fact = f"comes out whole on each device, though {name} goes in as {spec}"
            told = "the step returns", "outputs" + paths.text(path), shown.leaf(leaf), ""
            note = "say out_shardings of jax.jit, or plan.constrain what the step returns"
            yield Fault("PTK752", told[1], "", "", told[2], "", fact=fact, note=note)


def _split_arguments(program: Program) -> list[tuple[tuple[Any, ...], Any, str]]:
    """The arguments that are split: the path of each below its argument, its shape, its place."""
    leaves = [
        (path, leaf)
        for number, arg in enumerate(program.args)
        for path, leaf in jax.tree.leaves_with_path(arg)
    ]
    return [
        (path, leaf, name)
        for (path, leaf), name in zip(leaves, program.names, strict=True)
        if _is_split(getattr(leaf, "sharding", None))
    ]


def _is_split(sharding: Any) -> bool:
    if not isinstance(sharding, NamedSharding):
        return False
    sizes = sharding.mesh.shape
    return any(sizes[name] > 1 for names in axes_by_dimension(sharding.spec) for name in names)


def _came_from(
    path: tuple[Any, ...], leaf: Any, into: Sequence[tuple[tuple[Any, ...], Any, str]]
) -> tuple[str, Any] | None:
    """The split argument that an output is the new value of, by its path, shape and dtype."""
    for below, arg, name in into:
        is_same = (arg.shape, arg.dtype) == (leaf.shape, leaf.dtype)
        if below and is_same and path[len(path) - len(below) :] == below:
            return name, arg.sharding.spec
    return None


def _unused(
    program: Program, found: Sequence[Found], specs: Sequence[PartitionSpec]
) -> Iterator[Fault]:
    """PTK753: an axis of the mesh that splits no array, and that nothing is sent along."""
    used = {axis for one in found for axis in one.told.axes}
    shardings = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(program.args)]
    used |= axes_in([*specs, *specs_of(shardings)])
    for name, size in program.sizes.items():
        if size > 1 and name not in used:
            fact = f"splits no array: its {size} devices repeat the same work"
            note = "split the batch or the parameters over it too, or take it out of the mesh"
            place = f"mesh[{name!r}]"
            yield Fault("PTK753", place, "", "", f"{name}={size}", "", fact=fact, note=note)


def _in_loops(module: Module, found: Sequence[Found]) -> Iterator[Fault]:
    """PTK754: what a loop sends each time, though once would do."""
    for one in found:
        told = one.told
        place, array = _place(one)
        if repeats(module, one):
            why, note = "the same each time", "compute it before the loop, and close over it"
        elif told.kind == "all-reduce" and _is_summed_up(module, one):
            why = "added up by the loop"
            note = (
                "add up what each device has, and reduce it once after the loop: differentiate "
                "within jax.shard_map, the parameters cast by jax.lax.pcast(..., to='varying')"
            )
        else:
            continue
        fact = f"{told.kind} of {in_bytes(told.bytes)} in a loop, {told.times} times, {why}"
        by = f"{told.source}: " * (told.source not in {"", place})
        yield Fault("PTK754", place, "", "", array, "", fact=fact, note=by + note)


def _is_summed_up(module: Module, found: Found) -> bool:
    """Whether a loop does nothing with what it reduces but add it to its state."""
    if not found.runs.looped:
        return False
    ends = list(uses(module, found.at))
    return bool(ends) and all(
        _adds_to_state(module, use, found.at.computation.name) for use in ends
    )


def _adds_to_state(module: Module, use: Use, body: str) -> bool:
    """Whether something is added to an element of the state, which is then the new element."""
    while use.at.its.opcode == "dynamic-slice" and use.operand == 0:  # each device adds its slice
        further = list(uses(module, use.at))
        if len(further) != 1:
            return False
        use = further[0]
    if use.at.its.opcode != "add":
        return False
    (result, *more) = uses(module, use.at) or [None]
    if result is None or more or result.at.its.opcode != "tuple":
        return False
    return result.at.computation.name == body and _is_element(module, use, result.operand)


def _is_element(module: Module, use: Use, number: int) -> bool:
    """Whether the other operand of a sum is an element of a loop's state, used for nothing else.

    In a stack of layers with residuals what goes back through them is added to, and used as well.
    """
    computation, its = use.at
    names = [name for place, name in enumerate(its.operands) if place != use.operand]
    for name in names:
        at = _outside(module, At(computation, computation.instructions[name]))
        if at.its.opcode == "get-tuple-element" and index(at.its) == number:
            return all(other.at == use.at for other in uses(module, at))
    return False


def _outside(module: Module, at: At) -> At:
    """What a value is in the body of the loop: past fusions and copies."""
    for _ in range(100):
        computation, its = at
        if its.opcode == "parameter":
            callers = module.callers.get(computation.name, [])
            if len(callers) != 1 or callers[0][1].opcode != "fusion":
                return at
            outer, fusion = callers[0]
            at = At(outer, outer.instructions[fusion.operands[index(its)]])
        elif its.opcode in {"copy", "bitcast"}:
            at = At(computation, computation.instructions[its.operands[0]])
        else:
            return at
    return at
