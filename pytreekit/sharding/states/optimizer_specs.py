"""`ptk.optimizer_specs`: the specs of an optimizer's state, from those of the parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax

from ...faults import Fault
from ...show import values as shown
from ...show.errors import raise_faults
from ...specs.rules import Rules
from ...trees.sorts import check_sorts
from ..assigning import assign
from ..entries import BadSpec
from ..meshes import Axes
from ..options import Options, options_of
from ..plan import SpecPlan
from ..reading import template
from ..sources import value_key
from .found import Given, Params, StateSpecs
from .reading import explain, overlay_of
from .rules import NAME, StateRules
from .settling import Init, settle
from .unexplained import Unexplained


def optimizer_specs(
    state: Any, params: Any, specs: Any, *, init: Any = None, rules: Any = None, mesh: Any = None
) -> Any:
    """The specs of an optimizer's state, from those of the parameters.

    A state has trees of the structure of the parameters in it: moments, averages, copies. They are
    found by structure, wherever they lie, so that any optimizer will do, and so will a whole
    training state: chains, masks, partitions, `TrainState`, nnx optimizers, filtered modules,
    states that were restored as dicts. The spec of each leaf then follows from its shape: that of
    its parameter, without the entries of dimensions that it has lost, with None for one that it
    has gained. Scalars, keys and what has up to 64 elements are whole where they are of no
    parameter. Nothing is guessed: what does not follow is a fault.

    Args:
        state: The state, or a tree that has it in it: of arrays, or of shapes, as
            `jax.eval_shape(tx.init, params)` gives them.
        params: The parameters.
        specs: Their specs: a tree, or a prefix of one, or what `ptk.partition_plan` makes. None
            stands for `P()`.
        init: What made the state: the optimizer, or its `init`. Where dimensions of a parameter are
            equal, a shape does not tell which of them is lost; then `init` is asked for the shapes
            that it makes of others. It is traced, not run.
        rules: `ptk.Rules`, or a list of pairs for it, with specs as in `ptk.partition_specs`: they
            win over all. A default is for what is not explained.
        mesh: A `Mesh`, an `AbstractMesh`, or a dict of axis names and sizes; by default that of the
            plan, or the one that `jax.set_mesh` has set. Without any, sizes are not checked.

    Returns:
        A tree of the structure of `state`, with a `PartitionSpec` for each leaf.

    Raises:
        SpecError: PTK308, if the shape of a leaf can be read in several ways; PTK309, if it follows
            from no parameter; PTK301 to PTK304, and PTK306, if specs or rules are wrong; PTK104, if
            JAX cannot flatten the state; PTK001, for what is of the wrong kind.

    Examples:
        >>> import jax, jax.numpy as jnp, optax
        >>> import pytreekit as ptk
        >>> params = {"w": jax.ShapeDtypeStruct((512, 512), jnp.float32)}
        >>> specs = {"w": jax.P("fsdp", "model")}
        >>> tx = optax.adafactor(1e-3)  # has the means of rows and of columns
        >>> state = jax.eval_shape(tx.init, params)
        >>> its = ptk.optimizer_specs(state, params, specs, init=tx)[0]
        >>> its.v_row, its.v_col, its.count
        ({'w': P('fsdp',)}, {'w': P('model',)}, P())
    """
    its = {"init": init, "rules": rules, "mesh": mesh}
    return specs_of_state(state, params, specs, doing="optimizer_specs", **its).tree


def specs_of_state(
    state: Any,
    params: Any,
    specs: Any,
    *,
    init: Any = None,
    rules: Any = None,
    mesh: Any = None,
    doing: str,
) -> StateSpecs:
    """What `optimizer_specs` does, with the reason for each spec.

    Raises:
        SpecError: As `optimizer_specs` does.
    """
    makes = _init(init, doing)
    raise_faults(check_sorts(state, NAME), doing=doing)
    if isinstance(specs, SpecPlan):
        mesh = specs.mesh or None if mesh is None else mesh
        specs = specs.specs
    rules = rules if rules is None or isinstance(rules, Rules) else Rules(rules)
    options = _options(mesh, specs, rules, doing)
    its = _params(params, specs, options, doing)
    said = None if rules is None else StateRules(state, rules, options)
    found = explain(state, its, overlay_of(its), options, said)
    failure = settle(found, state, makes)
    if said is not None:
        _by_default(found, said)
    left = Unexplained(found, state, has_init=init is not None, failure=failure)
    faults = [*(said.faults if said else ()), *left.faults()]
    raise_faults(faults, doing=doing, when="before placing")
    return found


def _init(init: Any, doing: str) -> Init | None:
    """The function that makes the state: `init` itself, or that of an optimizer."""
    made = getattr(init, "init", init)
    if made is None or callable(made):
        return made
    fact = f"init must be a function, or an optimizer that has one, this is {shown.kind(init)}"
    raise_faults(
        [Fault("PTK001", "", "", "init", "", shown.spec(init, 24), fact=fact)], doing=doing
    )
    return None


def _options(mesh: Any, specs: Any, rules: Rules | None, doing: str) -> Options:
    """The mesh; without one, all names are taken for its axes, and every size divides."""
    if mesh is not None or not jax.sharding.get_abstract_mesh().empty:
        return options_of(mesh, None, "error", "error", doing)
    raise_faults(check_sorts(specs, "specs"), doing=doing)
    said = {value_key(value): value for value in jax.tree.leaves(specs)}
    values = [*said.values(), *(rules.values if rules else ()), rules.default if rules else None]
    return Options(Axes(dict.fromkeys(_names(values), 1)))


def _names(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        try:
            asked = template(value)
        except BadSpec:  # told where it is read
            continue
        yield from (its.name for entry in asked.entries for choice in entry for its in choice)


def _params(params: Any, specs: Any, options: Options, doing: str) -> Params:
    found = assign(params, specs, options, None, doing, spec_name="specs")
    faults = [
        dataclasses.replace(fault, argument="params") if fault.argument == "tree" else fault
        for fault in found.faults
    ]
    raise_faults(faults, doing=doing, where="specs", when="before placing")
    ends = found.source.ends
    return Params(params, ends.structure, ends.leaves, found.specs, lambda index: ends.paths[index])


def _by_default(found: StateSpecs, rules: StateRules) -> None:
    """Give what is not explained what the default of the rules says, if they have one."""
    for its in list(found.open):
        given = rules.of(its.leaf, default=True)
        if given is not None:
            found.open.remove(its)
            found.given[its.leaf], found.bonds[its.leaf] = Given(*given), None
