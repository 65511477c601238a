"""What a loss and its gradients take, for one example: operations on numbers, and bytes.

Counted from the shapes of a jaxpr, before anything runs. Products and convolutions count two
operations for each pair of numbers that they multiply, all else one for each number that it makes
or reads; a scan counts as often as it turns. What only moves numbers counts as nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from jax.extend.core import JaxprEqn, jaxprs_in_params

from .classify import Classified, Use
from .equations import source
from .program import aval
from .sites import is_rows, recognised
from .verdicts import UNUSED, Part, Verdict, verdicts

Number: TypeAlias = int | float

_MOVES = frozenset(
    {"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "rev", "copy", "name"}
)
_HELD = 0.3
"""How much is held of what is made. The rest is made again where it is used, by the compiler."""

_REMAT = frozenset({"remat2", "checkpoint"})


class Pass(NamedTuple):
    """What one evaluation of a loss takes.

    Attributes:
        flops: All operations.
        products: Those of matrix products and convolutions.
        bytes: What is made along the way.
        held: What of that is held for a backward pass.
        steps: How many operations on arrays there are.
        convolves: Whether there is a convolution.
    """

    flops: Number = 0
    products: Number = 0
    bytes: Number = 0
    held: Number = 0
    steps: Number = 0
    convolves: bool = False

    def plus(self, other: Pass) -> Pass:
        """Both, one after the other."""
        return Pass(
            self.flops + other.flops,
            self.products + other.products,
            self.bytes + other.bytes,
            self.held + other.held,
            self.steps + other.steps,
            self.convolves or other.convolves,
        )

    def times(self, count: Number) -> Pass:
        """The same so many times."""
        return Pass(
            count * self.flops,
            count * self.products,
            count * self.bytes,
            count * self.held,
            count * self.steps,
            self.convolves,
        )


class LeafWork(NamedTuple):
    """What the gradient with regard to a parameter takes, of one example.

    Attributes:
        how: `"ghost"`, `"itself"` or `"unused"`.
        why: What it is used in, or why it is not recognised.
        source: The line of source of the operation that decides on it, `""` if there is none.
        size: The bytes of the gradient.
        kept: The bytes of what stands for it: what goes in at its uses, and what comes back.
        spread: The bytes of the factors that are made of that, such as windows of an image.
        formed: The operations that form the gradient.
        normed: Those that take its norm without forming it.
        pairs: The bytes of products of pairs of positions.
        recognised: Whether all of its uses are.
        alone: Whether its norm can be taken on the spot.
        added: How often a gradient that is formed is added to, in the turns of a scan.
    """

    how: str
    why: str
    source: str
    size: Number
    kept: Number = 0
    spread: Number = 0
    formed: Number = 0
    normed: Number = 0
    pairs: Number = 0
    recognised: bool = False
    alone: bool = False
    added: Number = 0


class LossWork(NamedTuple):
    """What a loss and its gradient take, of one example.

    Attributes:
        forward: One evaluation.
        used: The operations of products with a parameter: their backward pass takes as many, and
            that of others twice as many.
        leaves: The parameters.
        effects: Whether the loss has effects, which two evaluations would have twice.
    """

    forward: Pass
    used: Number
    leaves: tuple[LeafWork, ...]
    effects: bool

    @property
    def backward(self) -> Number:
        """The operations of the backward pass, without gradients of parameters."""
        its = self.forward
        return its.flops + max(its.products - self.used, 0)


def worked_out(jaxpr: Any, found: Classified) -> LossWork:
    """What a loss takes.

    Args:
        jaxpr: The loss of one example, all inputs of which are parameters.
        found: The same, read.
    """
    leaves = tuple(
        _leaf(variable, verdict, uses, found)
        for variable, verdict, uses in zip(jaxpr.invars, verdicts(found), found.uses, strict=True)
    )
    used = sum(leaf.formed for leaf in leaves)
    return LossWork(work(jaxpr), used, leaves, bool(jaxpr.effects))


def work(jaxpr: Any) -> Pass:
    """What one evaluation of a jaxpr takes."""
    found = Pass()
    for equation in jaxpr.eqns:
        found = found.plus(_of(equation))
    return found


def _of(equation: JaxprEqn) -> Pass:
    name = equation.primitive.name
    inner = [work(its) for its in jaxprs_in_params(equation.params)]
    if inner:
        whole = inner[0]
        for its in inner[1:]:
            whole = whole.plus(its)
        if name == "scan":  # nothing is made again, and all turns are held
            return whole._replace(held=whole.held / _HELD).times(equation.params["length"])
        return whole._replace(held=_HELD * _bytes(equation.outvars)) if name in _REMAT else whole
    if name in _MOVES:
        return Pass()
    made = _bytes(equation.outvars)
    if name == "dot_general":
        flops = _of_product(equation)
        return Pass(flops, flops, made, _HELD * made, 1)
    if name == "conv_general_dilated":
        flops = _of_convolution(equation)
        return Pass(flops, flops, made, _HELD * made, 1, convolves=True)
    flops = max((_size(its) for its in (*equation.invars, *equation.outvars)), default=0)
    return Pass(flops, 0, made, _HELD * made, 1)


def _of_product(equation: JaxprEqn) -> Number:
    (summed, _), _ = equation.params["dimension_numbers"]
    shape = aval(equation.invars[0]).shape
    return 2.0 * _size(equation.outvars[0]) * math.prod(shape[at] for at in summed)


def _of_convolution(equation: JaxprEqn) -> Number:
    kernel = aval(equation.invars[1])
    out = kernel.shape[equation.params["dimension_numbers"].rhs_spec[0]]
    return 2.0 * _size(equation.outvars[0]) * kernel.size / max(out, 1)


def _leaf(variable: Any, verdict: Verdict, uses: Sequence[Use], found: Classified) -> LeafWork:
    its = aval(variable)
    size = float(its.size * its.dtype.itemsize)
    where = "" if verdict.how == UNUSED else _cause(uses)
    leaf = LeafWork(verdict.how, verdict.why, where, size, added=sum(map(_added, uses)))
    if not verdict.parts:
        return leaf
    taken = [use for part in verdict.parts for use in [uses[at] for at in part.uses]]
    sums = [sum(its) for its in zip(*map(_part, verdict.parts), strict=True)]
    kept = sum(_kept(use, found) for use in taken)
    alone = all(len(part.sites) == 1 for part in verdict.parts) and not any(
        level.dim is None for use in taken for level in use.held.levels
    )
    spread, formed, normed, pairs = sums
    return leaf._replace(kept=kept, spread=spread, formed=formed, normed=normed, pairs=pairs,
                         recognised=True, alone=alone)  # fmt: skip


def _added(use: Use) -> Number:
    """How often what a use gives is added to a gradient, within scans that have all of it."""
    turns = math.prod(its.turns for its in use.held.levels if its.dim is None)
    return turns if turns > 1 else 0


def _part(part: Part) -> tuple[Number, Number, Number, Number]:
    """`spread`, `formed`, `normed` and `pairs` of a part of a parameter."""
    groups, into, out = map(float, part.sizes)
    positions = float(part.positions)
    looked_up = all(map(is_rows, part.sites))
    wide = out if looked_up else into + out
    formed = positions * out if looked_up else 2 * positions * groups * into * out
    if positions == 1:
        return 4 * groups * wide, formed, 2 * groups * wide, 0.0
    pairs = groups * positions**2
    return 4 * groups * positions * wide, formed, 2 * pairs * wide, 8 * pairs


def _kept(use: Use, found: Classified) -> Number:
    """The bytes that are kept at a use: the other operands, and what comes back."""
    if use.step is None:
        return 0.0
    turns = math.prod(its.turns for its in use.held.levels)
    slots = [slot for at, slot in enumerate(use.step.inputs) if at != use.operand]
    avals = [found.avals[slot] for slot in (*slots, use.step.outputs[0])]
    return float(turns * sum(its.size * its.dtype.itemsize for its in avals))


def _cause(uses: Sequence[Use]) -> str:
    """Where the first use is that is not recognised, or else the first one."""
    unknown = [use for use in uses if recognised(use) is None]
    steps = [use.step for use in (unknown or uses) if use.step is not None]
    # Within functions of JAX that were traced before, nothing is known of that.
    return next(filter(None, (source(step.equation) for step in steps)), "")


def _size(atom: Any) -> int:
    return math.prod(getattr(aval(atom), "shape", ()))


def _bytes(atoms: Sequence[Any]) -> Number:
    return float(sum(_size(its) * _width(aval(its)) for its in atoms))


def _width(its: Any) -> int:
    return getattr(getattr(its, "dtype", None), "itemsize", 0)
