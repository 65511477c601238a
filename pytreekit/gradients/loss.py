"""A loss of one example, differentiated: its value, what else it returns, and its gradient."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..batching.manual import summed_over, varying_axes
from ..faults import Fault
from ..show import values
from ..show.errors import SpecError, raise_faults
from .apart import check_effects, check_unbound
from .argnums import Argnums
from .floats import Floats
from .ghost.classify import classified
from .ghost.instrument import differentiated
from .ghost.trace import is_trace
from .ghost.verdicts import Verdict
from .ghost.work import LossWork, worked_out
from .norms import square_sum
from .where import chosen

GRADIENTS, TRACES, NORMS = "gradients", "traces", "norms"
"""What is wanted of an example: gradients, what sums of them are made of, or only their norms."""


class Example(NamedTuple):
    """What comes of one example.

    Attributes:
        value: The loss.
        aux: What else it returns, None if that was not asked for.
        gradients: The gradient with regard to each differentiated leaf, or what stands for it.
        floats: These leaves.
        real: Whether the example counts, None where there is no mask.
        verdicts: What was done with each leaf, where traces were asked for.
    """

    value: Any
    aux: Any
    gradients: list[Any]
    floats: Floats
    real: Any
    verdicts: Sequence[Verdict] = ()

    def squares(self) -> list[Array]:
        """The sum of the squares of the gradient with regard to each leaf.

        Inside `jax.shard_map`, where the gradient varies over devices and the loss does not, each
        of them has a part of the parameter: its squares are those of all parts.
        """
        whole = varying_axes(self.value)
        return [
            leaf.square()
            if is_trace(leaf)
            else summed_over(square_sum(leaf), varying_axes(leaf) - whole)
            for leaf in self.gradients
        ]


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss and how it is differentiated.

    Attributes:
        fun: The loss of one example.
        argnums: What is differentiated.
        has_aux: Whether it returns a pair of the loss and something else.
        where: Which leaves are differentiated, None for all that can be.
        mask: The keyword of the mask, which the loss does not see; None where there is none.
        doing: What messages call that which differentiates it.
    """

    fun: Callable[..., Any]
    argnums: Argnums
    has_aux: bool = False
    where: Any = None
    mask: str | None = None
    doing: str = "per_example_grad"

    @property
    def told(self) -> str:
        """What is being done, as messages begin: `per_example_grad(loss)`."""
        return f"{self.doing}({values.function(self.fun)})"

    def trees(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """What is differentiated of a call, which must pass all of it."""
        return tuple(
            args[place] if isinstance(place, int) else kwargs[str(place)]
            for place in self.argnums.places(self.fun, args, kwargs)
        )

    def floats(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Floats:
        """The differentiated leaves of a call."""
        trees = self.trees(args, kwargs)
        if self.where is None:
            return Floats(trees)
        names = self.argnums.names(self.fun)
        return Floats(trees, chosen(self.where, trees, names, single=self.argnums.single))

    def replaced(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], trees: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A call with others in the place of the differentiated arguments."""
        new_args, new_kwargs = list(args), dict(kwargs)
        for place, tree in zip(self.argnums.places(self.fun, args, kwargs), trees, strict=True):
            if isinstance(place, int):
                new_args[place] = tree
            else:
                new_kwargs[str(place)] = tree
        return tuple(new_args), new_kwargs

    def gradient_of(self, trees: tuple[Any, ...]) -> Any:
        """A gradient as `jax.grad` returns it: a tuple only if argnums was one."""
        return trees[0] if self.argnums.single else trees

    def value(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """The loss of one example, and what else it returns.

        Raises:
            SpecError: PTK403, as soon as the loss has returned anything but a real scalar; PTK408
                for a collective over examples, PTK409 for a callback in an order.
        """
        try:
            out = self.fun(*args, **kwargs)
        except NameError as error:
            self.refuse(check_unbound(error))
            raise
        except ValueError:  # JAX maps no callback that is ordered
            self.refuse(self._ordered(args, kwargs))
            raise
        value, aux = out if self.has_aux and _is_pair(out) else (out, None)
        faults = [] if self.has_aux and not _is_pair(out) else _check_scalar(value)
        if self.has_aux and not _is_pair(out):
            fact = "with has_aux=True the loss must return a pair: the loss, and what else"
            faults = [Fault("PTK403", "out", "", "", values.leaf_or_tree(out), "", fact=fact)]
        if faults:
            when = f"when {values.function(self.fun)} returned"
            raise SpecError(faults, doing=self.told, when=when) from None
        return value, aux

    def example(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, want: str = GRADIENTS
    ) -> Example:
        """One example, differentiated. The keyword of the mask is taken out of `kwargs`.

        Args:
            args: The positional arguments of the call.
            kwargs: Its keywords.
            want: `GRADIENTS`; or `TRACES` or `NORMS`, to leave a `Trace` or a `Square` where a
                gradient need not be formed.
        """
        real = kwargs.pop(self.mask) if self.mask is not None else None
        floats = self.floats(args, kwargs)

        def of_floats(leaves: list[Any]) -> tuple[Any, Any]:
            return self.value(*self.replaced(args, kwargs, floats.with_leaves(leaves)))

        if want != GRADIENTS:
            only_norms = want == NORMS
            found = differentiated(
                of_floats, floats.leaves, only_norms=only_norms, judge=self.judge
            )
            return Example(found.value, found.aux, found.gradients, floats, real, found.verdicts)
        (value, aux), gradients = jax.value_and_grad(of_floats, has_aux=True)(floats.leaves)
        return Example(value, aux, gradients, floats, real)

    def _ordered(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Fault]:
        """PTK409 of a loss that failed."""
        try:
            return check_effects(jax.make_jaxpr(lambda: self.fun(*args, **kwargs))())
        except Exception:  # noqa: BLE001  it fails of itself, and that is told
            return []

    def judge(self, jaxpr: Any) -> None:
        """Look at a loss that was traced for one example.

        Raises:
            SpecError: PTK409.
        """
        self.refuse(check_effects(jaxpr))

    def refuse(self, faults: Sequence[Fault]) -> None:
        """Raise what is wrong with the loss, if there is anything.

        Raises:
            SpecError: If there is.
        """
        when = f"when {values.function(self.fun)} was traced"
        raise_faults(faults, doing=self.told, when=when)

    def read(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[LossWork, Sequence[Fault]]:
        """What the loss of an example takes, and PTK409, from its jaxpr."""
        given = {name: value for name, value in kwargs.items() if name != self.mask}
        floats = self.floats(args, given)

        def of_floats(leaves: list[Any]) -> tuple[Any, Any]:
            return self.value(*self.replaced(args, given, floats.with_leaves(leaves)))

        closed = jax.make_jaxpr(of_floats)([jnp.asarray(leaf) for leaf in floats.leaves])
        found = classified(closed.jaxpr, closed.consts)
        return worked_out(closed.jaxpr, found), check_effects(closed.jaxpr)

    def mapped_as(
        self, finish: Callable[[Example], Any], *, want: str = GRADIENTS
    ) -> Callable[..., Any]:
        """A function with the parameters of the loss, and of the mask, to be mapped."""

        def one(*args: Any, **kwargs: Any) -> Any:
            return finish(self.example(args, kwargs, want=want))

        return self.dressed(one)

    def dressed(self, one: Callable[..., Any]) -> Any:
        """A function that to checks and messages is the loss, with the mask as a parameter."""
        functools.update_wrapper(one, self.fun, updated=())
        one.__name__ = values.function(self.fun)
        try:
            signature = inspect.signature(self.fun)
        except (TypeError, ValueError):  # builtins have none
            return one
        if self.mask is not None:
            own = list(signature.parameters.values())
            last = [its for its in own if its.kind is inspect.Parameter.VAR_KEYWORD]
            mask = inspect.Parameter(self.mask, inspect.Parameter.KEYWORD_ONLY)
            rest = [its for its in own if its not in last]
            signature = signature.replace(parameters=[*rest, mask, *last])
        vars(one)["__signature__"] = signature
        return one


def _is_pair(out: Any) -> bool:
    return isinstance(out, tuple) and len(out) == 2  # noqa: PLR2004  as jax.grad has it


def _check_scalar(value: Any) -> list[Fault]:
    aval = values.typeof(value)
    if aval is None or aval.shape != ():
        fact = "the loss of one example must be a scalar"
    elif not jnp.issubdtype(aval.dtype, np.floating):
        fact = "the loss of one example must be a real float"
    else:
        return []
    return [Fault("PTK403", "out", "", "", values.leaf_or_tree(value), "", fact=fact)]
