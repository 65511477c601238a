"""One example differentiated: gradients where they are small, traces where they are recognised."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..norms import accumulator, total
from .classify import Classified, Use, classified
from .program import Taps
from .taps import Norm, Probe
from .trace import Square, Trace
from .verdicts import GHOST, ITSELF, Part, Verdict, verdicts


class Differentiated(NamedTuple):
    """What comes of one example.

    Attributes:
        value: The loss.
        aux: What else it returns.
        gradients: For each parameter its gradient, or what stands in its place.
        verdicts: What was done with each parameter.
    """

    value: Any
    aux: Any
    gradients: list[Any]
    verdicts: list[Verdict]


def differentiated(
    fun: Callable[[list[Any]], tuple[Any, Any]],
    leaves: Sequence[Any],
    *,
    only_norms: bool = False,
    judge: Callable[[Any], None] = lambda jaxpr: None,
) -> Differentiated:
    """The loss of one example, and its gradient.

    Args:
        fun: Returns the loss and what else there is, from the parameters.
        leaves: The parameters.
        only_norms: Whether the norms of the gradients are all that is wanted of them.
        judge: Looks at the jaxpr of `fun`, and raises if it is not to be differentiated.
    """
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    closed, shapes = jax.make_jaxpr(fun, return_shape=True)(leaves)
    judge(closed.jaxpr)
    structure = jax.tree.structure(shapes)
    found = classified(closed.jaxpr, closed.consts)
    judged = verdicts(found)
    ways = _ways(found, judged, only_norms=only_norms)
    own = [at for at, its in enumerate(judged) if its.how == ITSELF and not its.parts]

    def of(data: dict[int, Any], its: list[Any]) -> tuple[Any, Any]:
        values = list(leaves)
        for at, leaf in zip(own, its, strict=True):
            values[at] = leaf
        out, kept = found.program.run(values, Taps(ways.taps, data))
        value, aux = jax.tree.unflatten(structure, out)
        return value, (aux, kept)

    both = jax.value_and_grad(of, argnums=(0, 1), has_aux=True)
    (value, (aux, kept)), (back, itself) = both(_data(found, ways), [leaves[at] for at in own])
    of_itself = dict(zip(own, itself, strict=True))
    gradients = []
    for at, (leaf, its) in enumerate(zip(leaves, judged, strict=True)):
        if at in of_itself:
            gradients.append(of_itself[at])
        elif not its.parts:
            gradients.append(jnp.zeros_like(leaf))
        elif at in ways.normed:
            uses = [found.uses[at][use] for part in its.parts for use in part.uses]
            gradients.append(Square(total([back[_key(use)] for use in uses])))
        else:
            trace = Trace(its.parts, leaf.shape, _kept(its.parts, found.uses[at], kept, back))
            gradients.append(trace if its.how == GHOST or only_norms else trace.formed())
    return Differentiated(value, aux, gradients, judged)


class _Ways(NamedTuple):
    """How traces are taken: the taps by slots, the scans around each, and what is only normed."""

    taps: dict[int, Any]
    levels: dict[int, tuple[int, ...]]
    normed: set[int]


def _ways(found: Classified, judged: Sequence[Verdict], *, only_norms: bool) -> _Ways:
    """The taps for all parameters that are recognised."""
    pairs = enumerate(zip(judged, found.uses, strict=True))
    sites = [
        (leaf, part, use) for leaf, (its, uses) in pairs
        for part in its.parts for use in [uses[at] for at in part.uses]
    ]  # fmt: skip
    taken: dict[int, set[int]] = {}
    for _, _, use in sites:
        taken.setdefault(_key(use), set()).add(use.operand)
    normed = {
        leaf
        for leaf, its in itertools.groupby(sites, lambda its: its[0])
        if only_norms and all(_is_alone(part, use, taken) for _, part, use in its)
    }
    ways = _Ways({}, {}, normed)
    for leaf, part, use in sites:
        key = _key(use)
        ways.levels[key] = tuple(its.turns for its in use.held.levels)
        if leaf in normed:
            ways.taps[key] = Norm(part, use.operand)
            continue
        count = len(_step(use).inputs)
        others = {at for at in range(count) for its in taken[key] if at != its}
        ways.taps[key] = Probe(tuple(sorted(others)))
    return ways


def _is_alone(part: Part, use: Use, taken: dict[int, set[int]]) -> bool:
    """Whether the norm of a part is that of one use, in one turn of each scan."""
    in_turns = any(level.dim is None for level in use.held.levels)
    return len(part.sites) == 1 and not in_turns and len(taken[_key(use)]) == 1


def _step(use: Use) -> Any:
    assert use.step is not None  # what is recognised is a step
    return use.step


def _key(use: Use) -> int:
    return _step(use).outputs[0]


def _data(found: Classified, ways: _Ways) -> dict[int, Any]:
    """The zeros that taps take."""
    data = {}
    for key, tap in ways.taps.items():
        its = found.avals[key]
        wide = accumulator(its.dtype)
        shape = (*ways.levels[key], *its.shape)
        data[key] = jnp.zeros(shape, its.dtype) if tap.stacks else jnp.zeros((), wide)
    return data


def _kept(
    parts: Sequence[Part], uses: Sequence[Use], kept: dict[int, Any], back: dict[int, Any]
) -> list[list[tuple[Any, Any]]]:
    """What each site of each part is made up of."""

    def of(use: Use) -> tuple[Any, Any]:
        inputs = enumerate(_step(use).inputs)
        return [kept[slot] for at, slot in inputs if at != use.operand], back[_key(use)]

    return [[of(uses[at]) for at in part.uses] for part in parts]
