"""One example differentiated: gradients where they are small, traces where they are recognised."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..norms import total
from .classify import Classified, Use, classified
from .program import Taps
from .sites import is_rows
from .taps import Back, Probe
from .trace import Square, Trace, gradient, square_of, terms_of
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
        else:
            came = _Came(found.uses[at], ways, kept, back)
            gradients.append(came.gradient(its, leaf.shape, only_norms=only_norms))
    return Differentiated(value, aux, gradients, judged)


class _Ways(NamedTuple):
    """How traces are taken: the taps by slots, and where each is."""

    taps: dict[int, Any]
    uses: dict[int, Use]


def _ways(found: Classified, judged: Sequence[Verdict], *, only_norms: bool) -> _Ways:
    """The taps for all parameters that are recognised."""
    sites = [
        (its.how, part, use) for its, uses in zip(judged, found.uses, strict=True)
        for part in its.parts for use in [uses[at] for at in part.uses]
    ]  # fmt: skip
    taken: dict[int, set[int]] = {}
    for _, _, use in sites:
        taken.setdefault(_key(use), set()).add(use.operand)
    ways = _Ways({}, {})
    for how, part, use in sites:
        key = _key(use)
        ways.uses[key] = use
        alone = _is_alone(part, use, taken)
        at_hand = use.held.levels and how == GHOST and not is_rows(part.sites[0])
        if alone and (only_norms or at_hand):
            ways.taps[key] = Back(part, use.operand, keeps=not only_norms)
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
        use, its = ways.uses[key], found.avals[key]
        its = jax.ShapeDtypeStruct(its.shape, its.dtype)
        if isinstance(tap, Back):
            inputs = enumerate(_step(use).inputs)
            others = [found.avals[slot] for at, slot in inputs if at != use.operand]
            given = [jax.ShapeDtypeStruct(other.shape, other.dtype) for other in others]
            its = jax.eval_shape(tap.taken, given, its)
        turns = tuple(its.turns for its in use.held.levels) if tap.stacks else ()
        data[key] = jax.tree.map(functools.partial(_zeros, turns), its)
    return data


def _zeros(turns: tuple[int, ...], its: Any) -> Any:
    return jnp.zeros((*turns, *its.shape), its.dtype)


class _Came(NamedTuple):
    """What came of the taps of one parameter.

    Attributes:
        uses: Its uses.
        ways: The taps.
        kept: What went in there, by slot.
        back: What came back there, by slot.
    """

    uses: Sequence[Use]
    ways: _Ways
    kept: dict[int, Any]
    back: dict[int, Any]

    def gradient(self, verdict: Verdict, shape: tuple[int, ...], *, only_norms: bool) -> Any:
        """The gradient with regard to the parameter, or what stands in its place."""
        parts = verdict.parts
        if verdict.how != GHOST and not only_norms:
            return gradient(parts, [terms_of(part, self._kept(part)) for part in parts], shape)
        guarded = tuple(isinstance(self._tap(part), Back) for part in parts)
        taken = [
            self._handed_on(part) if its else self._made(part)
            for part, its in zip(parts, guarded, strict=True)
        ]
        squared = total([square for square, _ in taken])
        if only_norms:
            return Square(squared)
        return Trace(parts, shape, guarded, [kept for _, kept in taken], squared)

    def _tap(self, part: Part) -> Any:
        return self.ways.taps[_key(self.uses[part.uses[0]])]

    def _handed_on(self, part: Part) -> tuple[Any, Any]:
        """The square of the norm of a part, and its factors, as its tap hands them on."""
        square, factors = self.back[_key(self.uses[part.uses[0]])]
        in_a_row = jax.tree.map(lambda its: its.reshape(-1, *its.shape[-2:]), factors)
        return jnp.sum(square), in_a_row

    def _made(self, part: Part) -> tuple[Any, Any]:
        """The square of the norm of a part, and what its factors are made of."""
        kept = self._kept(part)
        return square_of(part, terms_of(part, kept)), kept

    def _kept(self, part: Part) -> list[tuple[list[Any], Any]]:
        return [self._of(self.uses[at]) for at in part.uses]

    def _of(self, use: Use) -> tuple[list[Any], Any]:
        inputs = enumerate(_step(use).inputs)
        return [self.kept[slot] for at, slot in inputs if at != use.operand], self.back[_key(use)]
