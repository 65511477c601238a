"""What is made of several parameters, joined, added or multiplied, and then goes into a product.

`x @ concatenate([u, v], 1)` is `concatenate([x @ u, x @ v], 1)`, and `x @ (w + a @ b)` is
`x @ w + (x @ a) @ b`: said so, each parameter goes into a product of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import JaxprEqn

from .program import Step, aval

JOIN, SUM, DIFFERENCE, MULTIPLE, PRODUCT, TRANSPOSE = (
    "concatenate", "add", "sub", "mul", "dot_general", "transpose",
)  # fmt: skip


class Dims(NamedTuple):
    """Which dimensions of what goes in, and of what it is multiplied with, belong together.

    Attributes:
        summed: Those that are summed over.
        batched: Those that are batched.
    """

    summed: tuple[tuple[int, ...], tuple[int, ...]]
    batched: tuple[tuple[int, ...], tuple[int, ...]]


def is_composed(equation: JaxprEqn, is_param: Sequence[bool], is_made: Sequence[bool]) -> bool:
    """Whether an operation makes something of parameters that can be taken apart again.

    Args:
        equation: The operation.
        is_param: For each operand, whether it is a parameter.
        is_made: For each operand, whether it is made of some.
    """
    name = equation.primitive.name
    own = [one or other for one, other in zip(is_param, is_made, strict=True)]
    if not jnp.issubdtype(aval(equation.outvars[0]).dtype, np.floating):
        return False
    if name == JOIN:
        return all(own)
    if name in {SUM, DIFFERENCE}:  # of a parameter and anything, as of a bias, says nothing
        shapes = {tuple(aval(atom).shape) for atom in equation.invars}
        return any(is_made) and len(shapes) == 1
    if name == MULTIPLE:
        return sum(own) == 1 and any(
            not its and aval(atom).shape == ()
            for its, atom in zip(own, equation.invars, strict=True)
        )
    if name == PRODUCT:
        return all(own) and _is_thin(equation)
    return name == TRANSPOSE and any(is_made)


def _is_thin(equation: JaxprEqn) -> bool:
    """Whether two factors take fewer numbers than their product."""
    one, other = (aval(atom).shape for atom in equation.invars)
    (summed, _), batched = equation.params["dimension_numbers"]
    if len(one) != 2 or len(other) != 2 or len(summed) != 1 or any(batched):  # noqa: PLR2004
        return False
    return math.prod(one) + math.prod(other) < math.prod(aval(equation.outvars[0]).shape)


def apart(
    equation: JaxprEqn, operand: int, made: Mapping[int, Step], slot: int
) -> tuple[Any, list[Any], list[int]] | None:
    """A product with something that is made of parameters, as one of products with each of them.

    Args:
        equation: The product.
        operand: Which of its operands is made of parameters.
        made: What is made of parameters, by slot, and how.
        slot: That of the operand.

    Returns:
        A jaxpr with its constants, and the slots of its inputs after the other operand; None if
        the product cannot be said so.
    """
    numbers, taken = equation.params["dimension_numbers"], 1 - operand
    dims = Dims(*((its[taken], its[operand]) for its in numbers))
    if equation.params.get("out_sharding") is not None:
        return None
    if not _fits(made, slot, dims.summed[1], dims.batched[1]):
        return None
    leaves = _leaves(made, slot)
    options = {name: equation.params[name] for name in ("precision", "preferred_element_type")}

    def fun(given: Array, *values: Array) -> Array:
        product = _Product(made, dict(zip(leaves, values, strict=True)), options)
        found = product.of(given, slot, dims)
        if operand == 1:
            return found
        # What the first operand leaves over comes first.
        batch = len(dims.batched[0])
        own = given.ndim - len(dims.summed[0])
        rest = range(own, found.ndim)
        return found.transpose((*range(batch), *rest, *range(batch, own)))

    atoms = {its: atom for step in made.values() for its, atom in _atoms(step)}
    avals = [aval(equation.invars[taken]), *(aval(atoms[leaf]) for leaf in leaves)]
    closed = jax.make_jaxpr(fun)(*(jax.ShapeDtypeStruct(its.shape, its.dtype) for its in avals))
    return closed.jaxpr, closed.consts, leaves


def _atoms(step: Step) -> list[tuple[int, Any]]:
    return list(zip(step.inputs, step.equation.invars, strict=True))


def _leaves(made: Mapping[int, Step], slot: int) -> list[int]:
    if slot not in made:
        return [slot]
    found = [its for inner in made[slot].inputs for its in _leaves(made, inner)]
    return list(dict.fromkeys(found))


def _fits(
    made: Mapping[int, Step], slot: int, summed: Sequence[int], batched: Sequence[int]
) -> bool:
    """Whether a product with something can be taken apart: those with products only along one."""
    if slot not in made:
        return True
    step = made[slot]
    if step.name == PRODUCT:
        inner = all(its not in made for its in step.inputs)
        return inner and len(summed) == 1 and not batched
    if step.name == TRANSPOSE:
        order = step.equation.params["permutation"]
        summed, batched = [order[at] for at in summed], [order[at] for at in batched]
    return all(_fits(made, its, summed, batched) for its in step.inputs)


class _Product(NamedTuple):
    """Multiplies with what is made of parameters, one parameter at a time.

    Attributes:
        made: How it is made, by slot.
        values: The parameters, by slot.
        options: Those of the product.
    """

    made: Mapping[int, Step]
    values: Mapping[int, Array]
    options: Mapping[str, Any]

    def of(self, given: Array, slot: int, dims: Dims) -> Array:
        """A product: what is batched, what is left of what goes in, and then of the other."""
        if slot not in self.made:
            return lax.dot_general(given, self.values[slot], dims, **self.options)
        step = self.made[slot]
        return _WAYS[step.name](self, given, step, dims)

    def joined(self, given: Array, step: Step, dims: Dims) -> Array:
        """With each part, of all that goes in or of a part of that."""
        axis = step.equation.params["dimension"]
        sizes = [aval(atom).shape[axis] for atom in step.equation.invars]
        for pairs in dims:
            if axis in pairs[1]:
                along = pairs[0][pairs[1].index(axis)]
                parts = jnp.split(given, np.cumsum(sizes)[:-1].tolist(), along)
                break
        else:
            parts = [given] * len(sizes)
        found = [self.of(*its, dims) for its in zip(parts, step.inputs, strict=True)]
        if axis in dims.summed[1]:
            return sum(found[1:], found[0])
        if axis in dims.batched[1]:
            return jnp.concatenate(found, dims.batched[1].index(axis))
        count = len(aval(step.equation.outvars[0]).shape)
        left = [at for at in range(count) if at not in (*dims.summed[1], *dims.batched[1])]
        return jnp.concatenate(found, left.index(axis) - len(left))

    def added(self, given: Array, step: Step, dims: Dims) -> Array:
        """With each, added or taken off."""
        one, other = (self.of(given, its, dims) for its in step.inputs)
        return one + other if step.name == SUM else one - other

    def multiple(self, given: Array, step: Step, dims: Dims) -> Array:
        """With what is multiplied by a number."""
        avals = [aval(atom) for atom in step.equation.invars]
        number = next(at for at, its in enumerate(avals) if its.shape == ())
        found = self.of(given, step.inputs[1 - number], dims)
        return found * self.values[step.inputs[number]].astype(found.dtype)

    def in_turn(self, given: Array, step: Step, dims: Dims) -> Array:
        """With one factor after the other, the one first with which it shares a dimension."""
        (inner, _) = step.equation.params["dimension_numbers"]
        [at] = dims.summed[1]
        first, second = step.inputs[at], step.inputs[1 - at]
        [between], [beyond] = inner[at], inner[1 - at]
        none: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        found = self.of(given, first, Dims((dims.summed[0], (1 - between,)), none))
        return self.of(found, second, Dims(((found.ndim - 1,), (beyond,)), none))

    def transposed(self, given: Array, step: Step, dims: Dims) -> Array:
        """With what it is before that."""
        order = step.equation.params["permutation"]
        before = Dims(*((its[0], tuple(order[at] for at in its[1])) for its in dims))
        found = self.of(given, step.inputs[0], before)
        taken = (*before.summed[1], *before.batched[1])
        had = [at for at in range(len(order)) if at not in taken]
        start = found.ndim - len(had)
        wanted = [start + had.index(at) for at in order if at not in taken]
        return found.transpose((*range(start), *wanted))


_Way = Callable[[_Product, Array, Step, Dims], Array]
_WAYS: Mapping[str, _Way] = {
    JOIN: _Product.joined,
    SUM: _Product.added,
    DIFFERENCE: _Product.added,
    MULTIPLE: _Product.multiple,
    PRODUCT: _Product.in_turn,
    TRANSPOSE: _Product.transposed,
}
