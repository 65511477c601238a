"""A mapped function whose in_axes are inferred for each call."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ParamSpec, TypeVar

import jax

from ..faults import Fault
from ..show.errors import raise_faults
from ..trees.structures import MOST
from .annotations import Declared, declared
from .infer import inferred
from .plan import VmapPlan
from .vmapped import Vmapped
from .watch import kinds_of

P = ParamSpec("P")
R = TypeVar("R")


class Inferring(Vmapped[P, R]):
    """What `ptk.vmap(in_axes="infer")` returns: for each kind of call, a function with in_axes."""

    @functools.cached_property
    def _declared(self) -> Declared | None:
        return declared(self._written.fun)  # though calls may not be held against it

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, mapped over the axes that are inferred.

        Raises:
            SpecError: If there are none, or none that could be chosen; else as `Vmapped`.
        """
        __tracebackhide__ = True
        return self._with_axes(args, kwargs)(*args, **kwargs)

    def plan(self, *args: Any, outputs: Any = ..., **kwargs: Any) -> VmapPlan:
        """As `Vmapped.plan`, under the axes that are inferred."""
        __tracebackhide__ = True
        its_own = outputs is not ... and self._takes_outputs(len(args), outputs)
        passed = {**kwargs, "outputs": outputs} if its_own else kwargs
        return self._with_axes(args, passed).plan(*args, outputs=outputs, **kwargs)

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """All that does not fit in a call, or why no axes can be inferred. Raises nothing."""
        found = inferred(self._call(args, kwargs))
        return found.faults or self._mapped(found.in_axes).check(*args, **kwargs)

    def _with_axes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Vmapped[P, R]:
        """The function with the axes that are inferred for a call."""
        __tracebackhide__ = True
        leaves, structure = jax.tree.flatten((args, dict(kwargs)))
        known = self._known.get(structure)
        if known is None:
            known = {}
            self._known.put(structure, known)
        kinds = tuple(kinds_of(leaves))
        if kinds not in known:
            found = inferred(self._call(args, kwargs))
            raise_faults(
                found.faults, doing=f"vmap({self._name})", where="in_axes", when="before tracing"
            )
            if len(known) >= MOST:
                known.clear()
            known[kinds] = self._mapped(found.in_axes)
        return known[kinds]

    def _mapped(self, in_axes: Any) -> Vmapped[P, R]:
        written = dataclasses.replace(self._written, in_axes=in_axes)
        return Vmapped(written, self._axis_size, checks=self._checks)
