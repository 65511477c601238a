"""All that can be told of a call over shards before tracing: mesh, structure, specs, shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from jax.sharding import PartitionSpec

from ..faults import Fault
from ..sharding.check import spec_problems
from ..sharding.mending import renamed
from ..sharding.remarks import Problem
from ..sharding.resolve import names_of
from ..show import values
from ..specs.arguments import positional_names
from ..specs.arity import check_arity
from ..specs.bind import check_sorts
from ..specs.called import Advice, InArgument, NewSpec
from ..specs.finding import Finding, Replace, Revalue
from ..specs.names import check_names, unknown_names
from ..specs.rest import Rest
from ..specs.ruled import is_rules
from ..trees import paths
from .grid import Grid
from .layouts import check_layout
from .shard_call import INFER, ShardCall, ShardLeaf, WriteOut, is_whole, needed


def check_shard_call(call: ShardCall) -> list[Finding]:
    """What is wrong with a call: every fault of every argument, in the order of the arguments."""
    found = [Finding(fault) for fault in call.faults]
    container = _check_container(call)
    if container or (call.kwargs and not (call.is_by_name or call.is_by_rule)):
        return [*found, *container, *_check_keywords(call), *check_out_specs(call)]
    if call.infers:
        found += _check_inferred(call)
    found += check_arity(call)
    if call.is_by_name:
        found += _unknown(call)
        found += check_names(call)
    return [*found, *check_arguments(call), *check_out_specs(call)]


def _check_container(call: ShardCall) -> list[Finding]:
    """What in_specs are: one spec, a tuple, a dict by name, or rules."""
    specs = call.in_specs
    single = specs is None or specs is INFER or isinstance(specs, PartitionSpec)
    if single or type(specs) in (tuple, dict, Rest) or is_rules(specs):
        return []
    fact = f"in_specs is {values.kind(specs)}, not a tuple with an entry for each argument"
    fault = Fault("PTK202", "", "", "in_specs", "", values.spec(specs), fact=fact)
    if isinstance(specs, list | tuple):
        return [Finding(fault, (NewSpec(tuple(specs)), NewSpec((specs,))))]
    wrong = f"in_specs must be PartitionSpecs, this is {values.kind(specs)}"
    fault = dataclasses.replace(fault, code="PTK001", fact=wrong)
    return [Finding(fault, tuple(map(NewSpec, _meant(specs))))]


def _check_keywords(call: ShardCall) -> list[Finding]:
    """PTK504: beside specs by position, arguments are by position, too."""
    if call.is_by_name or call.is_by_rule:
        return []

    order = positional_names(call.fun, len(call.args) + len(call.kwargs))[len(call.args) :]

    def moved(call: Any) -> Any:
        args = (*call.args, *(call.kwargs[name] for name in order))
        return dataclasses.replace(call, args=args, kwargs={})

    repairs = ()
    if set(order) == call.kwargs.keys():
        repairs = (Advice(f"pass {values.listing(order)} by position", moved),)
    return [
        Finding(
            Fault(
                "PTK504", name, "", "in_specs", values.leaf_or_tree(call.kwargs[name]),
                values.spec(call.in_specs), fact="is passed by keyword",
                note="only in_specs by name speak of keywords",
            ),
            repairs,
        )
        for name in call.kwargs
    ]  # fmt: skip


def _check_inferred(call: ShardCall) -> list[Finding]:
    """PTK502: only layouts on Explicit axes are part of a type."""
    grid = call.grid
    if grid is None or grid.is_explicit:
        return []
    kinds = values.listing([f"{name} is {grid.types[name].name}" for name in sorted(grid.names)])
    fact = "in_specs are missing, and can be inferred on Explicit mesh axes alone"
    return [Finding(Fault("PTK502", "", "", "in_specs", "", "", fact=fact, note=kinds))]


def _unknown(call: ShardCall) -> Iterator[Finding]:
    for fault, specs in unknown_names(call.fun, call.in_specs, "in_specs"):
        yield Finding(fault, tuple(map(NewSpec, specs)))


def check_arguments(call: ShardCall) -> list[Finding]:
    """What is wrong with each argument: its structure, its specs, and its leaves."""
    order = {binding.name: position for position, binding in enumerate(call.bindings)}
    found = [*_mismatches(call), *_check_entries(call)]
    for leaf in call.leaves:
        found += _check_leaf(call, leaf)
    return sorted(found, key=lambda its: order.get(its.fault.argument, -1))


def _mismatches(call: ShardCall) -> Iterator[Finding]:
    for position, binding in enumerate(call.bindings):
        for fault, repairs in needed(binding, is_whole):
            yield Finding(fault, tuple(InArgument(position, its) for its in repairs))


def _check_entries(call: ShardCall) -> Iterator[Finding]:
    """What is wrong with a spec itself, told at the subtree that it governs."""
    for position, binding in enumerate(call.bindings):
        for entry in binding.entries:
            if binding.text(entry.path) is not None:
                continue  # a rule's value is read for each leaf
            problems = entry_problems(entry.value, call.grid)
            if not paths.count_leaves(entry.subtree):
                problems = [its for its in problems if its.code != "PTK304"]  # JAX looks at no leaf
            place = paths.text(entry.path)
            for its in problems:
                fault = Fault(
                    its.code, binding.name, place, binding.place(entry.path),
                    values.leaf_or_tree(entry.subtree), values.spec(entry.value),
                    fact=its.fact, note=its.note,
                )  # fmt: skip
                written = [Replace(entry.path, new) for new in _instead(entry.value, its)]
                yield Finding(fault, tuple(InArgument(position, new) for new in written))


def entry_problems(value: Any, grid: Grid | None, *, static: bool = True) -> list[Problem]:
    """What is wrong with one spec, whatever it is for."""
    if value is INFER or (value is None and static):
        return []
    if not isinstance(value, PartitionSpec):
        wanted = "a PartitionSpec or None" if static else "a PartitionSpec"
        return [Problem("PTK001", f"a spec must be {wanted}, this is {values.kind(value)}")]
    plain = PartitionSpec(*value.partitions)  # what else it has is JAX's to judge
    problems = list(spec_problems(plain, (0,) * len(plain), grid.axes if grid else None))
    if grid is None or any(its.code == "PTK001" for its in problems):
        return problems
    outside = filter(None, map(grid.unknown, dict.fromkeys(names_of(plain))))
    return list(dict.fromkeys([*problems, *outside]))


def _instead(value: Any, problem: Problem) -> Iterator[Any]:
    if problem.instead:
        yield renamed(value, *problem.instead)
    if not isinstance(value, PartitionSpec):
        yield from _meant(value)


def _meant(value: Any) -> Iterator[PartitionSpec]:
    """The specs that something else might stand for."""
    if isinstance(value, str) and len(value.split()) == 1:
        yield PartitionSpec(value)


def _check_leaf(call: ShardCall, leaf: ShardLeaf) -> list[Finding]:
    if leaf.problems:
        its = leaf.problems
        return [Finding(leaf.fault(one.code, fact=one.fact, note=one.note)) for one in its]
    if leaf.spec is None or not (isinstance(leaf.spec, PartitionSpec) or leaf.spec is INFER):
        return []
    as_it_is = InArgument(leaf.position, Revalue(leaf.bound.path, None))
    if leaf.aval is None:
        fact = f"a {type(leaf.bound.leaf).__name__} is no JAX type, it cannot be split"
        return [Finding(leaf.fault("PTK104", fact=fact), (as_it_is,))]
    plain = PartitionSpec(*leaf.spec.partitions)
    if call.grid is None or entry_problems(plain, call.grid):
        return []
    problems = spec_problems(plain, leaf.aval.shape, call.grid.axes)
    if not problems:
        return check_layout(call, leaf)
    return [
        Finding(
            leaf.fault(one.code, fact=one.fact, note=one.note),
            tuple(
                InArgument(leaf.position, Revalue(leaf.bound.path, new))
                for new in shorter(plain, len(leaf.aval.shape))
                if one.code == "PTK302"
            ),
        )
        for one in problems
    ]


def shorter(spec: PartitionSpec, rank: int) -> list[PartitionSpec]:
    """Specs of as many entries as there are dimensions: the last of a longer one, or none."""
    last = spec.partitions[len(spec) - rank :] if rank else ()
    return list(dict.fromkeys([PartitionSpec(*last), PartitionSpec()]))


def check_out_specs(call: ShardCall) -> list[Finding]:
    """What is wrong with out_specs themselves."""
    unsortable = check_sorts(call.out_specs, Fault("PTK104", "", "", "out_specs", "", ""))
    if unsortable:
        return unsortable
    found = []
    for path, value in paths.leaves_with_paths(call.out_specs):
        if is_rules(value):
            continue
        for its in entry_problems(value, call.grid, static=False):
            fault = Fault(
                its.code, "", "", "out_specs" + paths.text(path), "", values.spec(value),
                fact=its.fact, note=its.note,
            )  # fmt: skip
            new = _instead(value, its)
            found.append(Finding(fault, tuple(WriteOut(path, its) for its in new)))
    return found
