"""A loss mapped over the examples of a batch: its axes, its checks, and `ptk.vmap` of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from ..batching.annotations import Declared, declared
from ..batching.call import Call
from ..batching.chunks import Fold
from ..batching.infer import inferred
from ..batching.manual import in_shard_map, varying_axes, varying_over
from ..batching.vmapped import Vmapped
from ..batching.written import Written, check_written
from ..faults import Fault
from ..show import values
from ..show.errors import SpecError, common_spec, raise_faults
from ..specs.finding import Finding
from ..specs.hints import with_hints
from ..specs.rest import marked
from ..specs.ruled import is_rules
from ..specs.wrapping import copied
from .apart import check_collectives
from .argnums import check_argnums
from .check import More, check_differentiated, check_mask_name, nothing_more
from .ghost.work import LossWork
from .loss import GRADIENTS, Example, Loss

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = Mapping[str, Any]

EXAMPLES = "examples"
"""The in_axes that share what is differentiated and map all else over axis 0."""


@dataclasses.dataclass(frozen=True)
class MappedLoss:
    """A loss and the axes that it is mapped over.

    Attributes:
        loss: The loss.
        in_axes: `EXAMPLES`, or axes as for `ptk.vmap`.
        keep_batch_dim: Whether the loss gets each example as a batch of one.
        more: What else is checked of a call.
    """

    loss: Loss
    in_axes: Any = EXAMPLES
    keep_batch_dim: bool = False
    more: More = nothing_more

    def vmapped(
        self,
        finish: Callable[[Example], Any],
        chunk_size: int | None = None,
        *,
        count: int = 0,
        fold: Fold | None = None,
        want: str = GRADIENTS,
    ) -> Vmapped[..., Any]:
        """What comes of each example, mapped.

        Args:
            finish: Makes of an example what is to be returned of it.
            chunk_size: How many examples are mapped at once.
            count: The number of positional arguments, which axes by position depend on.
            fold: What is made of the outputs of many examples.
            want: What is wanted of each example, as for `Loss.example`.
        """
        one = self.loss.mapped_as(finish, want=want)
        return Vmapped(self.written(one, chunk_size, count=count, fold=fold))

    def values(self, chunk_size: int | None = None, *, count: int = 0) -> Vmapped[..., Any]:
        """The loss of each example, and what else it returns."""
        return Vmapped(self.written(self._of_one, chunk_size, count=count))

    def read(self, args: Args, kwargs: Kwargs) -> tuple[LossWork, Sequence[Fault]]:
        """What the loss of one example of a call takes, and what is wrong with it."""
        found: list[tuple[LossWork, Sequence[Fault]]] = []

        def one(*args: Any, **kwargs: Any) -> Any:
            found[:] = [self.loss.read(args, kwargs)]
            return jnp.zeros(())

        over = Vmapped(self.written(self.loss.dressed(one), count=len(args)))
        over.plan(*args, outputs=True, **kwargs)
        return found[0]

    @functools.cached_property
    def _of_one(self) -> Callable[..., Any]:
        """The loss itself, of one example, which does not see the mask."""
        loss = self.loss

        def one(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop(loss.mask or "", None)
            return loss.value(args, kwargs)

        return loss.dressed(one)

    def __reduce__(self) -> Any:  # without what is cached, which names itself after the loss
        return type(self), (self.loss, self.in_axes, self.keep_batch_dim, self.more)

    def written(
        self,
        fun: Callable[..., Any],
        chunk_size: Any = None,
        *,
        count: int = 0,
        fold: Fold | None = None,
    ) -> Written:
        """The options of the mapping, as for `ptk.vmap`."""
        return Written(
            fun,
            self._axes(count),
            0,
            chunk_size=chunk_size,
            doing=self.loss.doing,
            keep_axis=self.keep_batch_dim,
            fold=fold,
        )

    def check_written(self, chunk_size: Any) -> tuple[Fault, ...]:
        """What is wrong with in_axes and chunk_size before any call."""
        faults, _ = with_hints(self.written(self._of_one, chunk_size), check_written)
        return faults

    @property
    def _shares_by_default(self) -> bool:
        return isinstance(self.in_axes, str) and self.in_axes == EXAMPLES

    def _axes(self, count: int) -> Any:
        loss, axes = self.loss, self.in_axes
        if self._shares_by_default:
            names = loss.argnums.names(loss.fun)
            if not all(names):
                return tuple(None if at in loss.argnums.which else 0 for at in range(count))
            return marked({**dict.fromkeys(names, None), ...: 0})
        if loss.mask is not None and isinstance(axes, dict) and loss.mask not in axes:
            return type(axes)({**axes, loss.mask: 0})
        if loss.mask is not None and is_rules(axes):
            return axes | type(axes)([(f"/{loss.mask}", 0)])
        return axes

    def resolved(self, args: Args, kwargs: Kwargs) -> MappedLoss:
        """The same with axes that are inferred for a call, if in_axes says that they are to be.

        Raises:
            SpecError: PTK605, if they cannot be.
        """
        __tracebackhide__ = True
        if not isinstance(self.in_axes, str) or self._shares_by_default:
            return self
        rest = {name: value for name, value in kwargs.items() if name != self.loss.mask}
        found = inferred(Call(self._of_one, args, rest, {}, declared=self._declared))
        when = "before tracing"
        raise_faults(found.faults, doing=self.loss.told, where="in_axes", when=when)
        return dataclasses.replace(self, in_axes=found.in_axes)

    def checked(self, args: Args, kwargs: Kwargs, *, look: bool = False) -> Call:
        """A call without fault; with `look`, also in what the loss returns for its shapes.

        Raises:
            SpecError: If it has one.
        """
        __tracebackhide__ = True
        call = self.call(args, kwargs)
        faults, repaired = with_hints(call, self._check)
        if faults or look:
            faults = self._with_value(args, kwargs, faults)
        if faults:
            raise_faults(
                faults,
                doing=self.loss.told,
                where=common_spec(faults),
                when="before tracing",
                repaired=repaired.repaired_axes(call) if repaired else None,
            )
        return call

    def faults(self, args: Args, kwargs: Kwargs) -> tuple[Fault, ...]:
        """All that is wrong with a call."""
        try:
            mapped = self.resolved(args, kwargs)
        except SpecError as error:  # there are no axes to be inferred
            return error.faults
        if mapped is not self:
            return mapped.faults(args, kwargs)
        faults, _ = with_hints(self.call(args, kwargs), self._check)
        return self._with_value(args, kwargs, faults)

    def call(self, args: Args, kwargs: Kwargs) -> Call:
        """A call of the mapped loss, which may be faulty."""
        axes, keep = self._axes(len(args)), self.keep_batch_dim
        return Call(self._of_one, args, kwargs, axes, keep_axis=keep, declared=self._declared)

    @functools.cached_property
    def _declared(self) -> Declared | None:
        """What annotations say of one example; those of a batch of one say something else."""
        found = None if self.keep_batch_dim else declared(self.loss.fun)
        mask = frozenset([self.loss.mask] if self.loss.mask else [])
        return found and found._replace(returns=..., names=found.names | mask)

    def names(self, call: Call) -> list[str]:
        """What messages call the arguments that are differentiated."""
        places = self.loss.argnums.places(self.loss.fun, call.args, call.kwargs)
        return [call.passed[its].name if isinstance(its, int) else str(its) for its in places]

    def _check(self, call: Call) -> list[Finding]:
        found = check_differentiated(self.loss, call, self.more)
        return [_told(finding, by_default=self._shares_by_default) for finding in found]

    def _with_value(
        self, args: Args, kwargs: Kwargs, faults: tuple[Fault, ...]
    ) -> tuple[Fault, ...]:
        """The faults of a call with PTK403, unless the loss cannot be entered for them.

        They may be why the loss fails; then its error is told with the last of them.
        """
        if not all(fault.code.startswith("PTK4") for fault in faults) or "PTK401" in {
            fault.code for fault in faults
        }:
            return faults
        try:
            self.values(count=len(args)).plan(*args, outputs=True, **kwargs)
        except SpecError as error:
            return faults + error.faults
        except Exception as error:
            if not faults:
                raise
            *others, last = faults
            note = f"the loss raises {values.error(error)}"
            told = f"{last.note}; {note}" if last.note else note
            return (*others, dataclasses.replace(last, note=told))
        return faults

    def varying(self, args: Args, kwargs: Kwargs) -> tuple[Args, dict[str, Any]]:
        """A call whose differentiated leaves differ over the devices where the loss does.

        Inside `jax.shard_map`, JAX would sum the gradient of each example over these devices, and
        so over other examples, before anything is done with it.

        Raises:
            SpecError: PTK408, if the loss takes in examples on other devices.
        """
        if not in_shard_map():
            return args, dict(kwargs)
        mapped = self.values(count=len(args))
        closed, (value, _) = jax.make_jaxpr(lambda: mapped(*args, **kwargs), return_shape=True)()
        axes = varying_axes(value)
        self.loss.refuse(check_collectives(closed.jaxpr, axes))
        floats = self.loss.floats(args, kwargs)
        leaves = [varying_over(jnp.asarray(leaf), axes) for leaf in floats.leaves]
        return self.loss.replaced(args, kwargs, floats.with_leaves(leaves))


def _told(finding: Finding, *, by_default: bool) -> Finding:
    """What the checks of `ptk.vmap` find, told of a loss: with the axes as the user wrote them."""
    fault, repairs = finding
    if fault.code == "PTK103":
        fault, repairs = dataclasses.replace(fault, fact="no argument is mapped"), ()
    if by_default:
        written = {"spec_path": "in_axes", "wanted": repr(EXAMPLES)}
        if fault.code == "PTK103" or (
            fault.spec_path.startswith("in_axes[") and fault.wanted == "0"
        ):
            fault = dataclasses.replace(fault, **written)
        entry = f"in_axes = {EXAMPLES!r}"
        if not fault.code.startswith("PTK6"):  # those have an annotation there
            beside = tuple(place._replace(entry=entry) for place in fault.beside)
            fault = dataclasses.replace(fault, beside=beside)
    return Finding(fault, repairs)


def copied_axes(in_axes: Any) -> Any:
    """A copy of in_axes: later changes to it have no effect."""
    if isinstance(in_axes, str):
        return in_axes
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    try:
        return copied(marked(in_axes))
    except ValueError:  # a dict whose keys do not sort: told as a fault
        return in_axes


def wrapped(mapped: MappedLoss, chunk_size: Any, wrong: Sequence[Fault] = ()) -> MappedLoss:
    """A mapped loss whose options have no fault, with a copy of its axes.

    Args:
        mapped: The mapped loss, with its options as they were written.
        chunk_size: How many examples are to be differentiated at once.
        wrong: What is wrong with further options.

    Raises:
        SpecError: If there is a fault in them.
    """
    __tracebackhide__ = True
    loss = mapped.loss
    if not callable(loss.fun):
        fact = f"the loss must be callable, this is a {type(loss.fun).__name__}"
        faults = [Fault("PTK001", "loss", "", "", "", "", fact=fact)]
        raise_faults(faults, doing=loss.doing)
    own = [*check_argnums(loss.fun, loss.argnums), *check_mask_name(loss)]
    mapped = dataclasses.replace(mapped, in_axes=copied_axes(mapped.in_axes))
    axes = () if own else mapped.check_written(chunk_size)
    raise_faults([*own, *axes, *wrong], doing=loss.told, when="on wrapping")
    return mapped
