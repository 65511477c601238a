"""One example differentiated: gradients where they are small, traces where they are recognised.

A zero is added to what comes out where a parameter is recognised. The gradient with regard to that
zero is what comes back there, so that one backward pass gives all traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .classify import Classified, classified
from .program import Step, aval
from .sites import ITSELF, Verdict, verdicts
from .trace import Trace


class Differentiated(NamedTuple):
    """What comes of one example.

    Attributes:
        value: The loss.
        aux: What else it returns.
        gradients: For each parameter its gradient, or a trace of it.
        verdicts: What was done with each parameter.
    """

    value: Any
    aux: Any
    gradients: list[Any]
    verdicts: list[Verdict]


def differentiated(
    fun: Callable[[list[Any]], tuple[Any, Any]], leaves: Sequence[Any]
) -> Differentiated:
    """The loss of one example, and its gradient.

    Args:
        fun: Returns the loss and what else there is, from the parameters.
        leaves: The parameters.
    """
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    closed, shapes = jax.make_jaxpr(fun, return_shape=True)(leaves)
    structure = jax.tree.structure(shapes)
    found = classified(closed.jaxpr, closed.consts)
    judged = verdicts(found)
    sites = {its.site.number: its.site for its in judged if its.site is not None}
    itself = [leaf for leaf, its in zip(leaves, judged, strict=True) if its.how == ITSELF]

    def of(probes: dict[int, Any], own: list[Any]) -> tuple[Any, Any]:
        mine, given = iter(own), {}

        def probed(number: int) -> Callable[[Step, list[Any]], Any]:
            def instead(step: Step, values: list[Any]) -> Any:
                given[number] = values[1 - sites[number].operand]
                return step.done(values)[0] + probes[number]

            return instead

        pairs = zip(leaves, judged, strict=True)
        values = [next(mine) if its.how == ITSELF else leaf for leaf, its in pairs]
        out = found.program.run(values, {number: probed(number) for number in sites})
        value, aux = jax.tree.unflatten(structure, out)
        return value, (aux, given)

    probes = {number: _zeros(found, number) for number in sites}
    both = jax.value_and_grad(of, argnums=(0, 1), has_aux=True)
    (value, (aux, given)), (back, own) = both(probes, itself)
    mine = iter(own)
    gradients = [
        Trace(its.site, given[its.site.number], back[its.site.number])
        if its.site is not None
        else next(mine)
        if its.how == ITSELF
        else jnp.zeros_like(leaf)
        for leaf, its in zip(leaves, judged, strict=True)
    ]
    return Differentiated(value, aux, gradients, judged)


def _zeros(found: Classified, number: int) -> Any:
    [out] = found.program.steps[number].equation.outvars
    return jnp.zeros(aval(out).shape, aval(out).dtype)
