"""A mapped function: it plans, checks and calls, and tells every fault where JAX refuses."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, overload

import jax

from ..compat import is_batched_sparse
from ..faults import Fault
from ..show import values
from ..show.errors import SpecError, SpecWarning
from ..specs import arguments
from ..specs.hints import with_hints
from ..specs.wrapping import BoundTo, Transformed
from ..trees.structures import StructureCache
from .annotations import Declared, declared
from .call import Call
from .check import check_call
from .forms import is_function
from .outputs import OutputCheck, Refusal
from .plan import VmapPlan, plan_call
from .silent import doubts, may_doubt
from .transform import Batched, ByLeaf, Running
from .typed import check_returned
from .watch import Watch
from .written import Written

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Q = ParamSpec("Q")


class Vmapped(Transformed[P, R]):
    """A function mapped over a batch axis, and checked: what `ptk.vmap` returns.

    It is called as the function is, with batched arguments. Name, docstring and signature are the
    function's; in a class body it becomes a method; it copies and pickles as the function does.
    To type checkers it takes and returns what the function does.
    """

    def __init__(self, written: Written, axis_size: Any = None, *, checks: bool = True) -> None:
        super().__init__(written, axis_size=axis_size, checks=checks)
        self._axis_size = axis_size
        self._checks = checks
        self._options = {
            "out_axes": written.out_axes,
            "axis_name": written.axis_name,
            "axis_size": axis_size,
            "spmd_axis_name": written.spmd_axis_name,
        }
        self._name = values.function(written.fun)
        self._doing = f"{written.doing}({self._name})"
        self._outputs = OutputCheck(written.out_axes)
        self._known = StructureCache()
        self._warned: set[str] = set()
        self._unchecked: Callable[..., Any] | None = None
        if not checks and written.is_plain:
            self._unchecked = jax.vmap(written.fun, written.in_axes, **self._options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the mapped function.

        Raises:
            SpecError: If the arguments do not fit in_axes, before the function is entered; or if
                what it returns does not fit out_axes.
        """
        __tracebackhide__ = True
        if self._unchecked is not None:
            return self._unchecked(*args, **kwargs)
        return self.called(args, kwargs)

    def called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], good: Any = None) -> Any:
        """Call the mapped function with one good example in the place of each that is not good.

        Args:
            args: The positional arguments.
            kwargs: The keywords.
            good: Which examples are good, `bool[batch]`; None for all.
        """
        __tracebackhide__ = True
        try:
            leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
        except ValueError:
            self._raise_faults(self._call(args, kwargs))  # a dict whose keys do not sort
            raise
        batched = self._known.get(structure) or self._batched(structure, args, kwargs)
        running = Running(_leaves(args, kwargs) if batched.sparse else leaves, good)
        if batched.watch:
            batched.watch(running.leaves, lambda: self._raise_faults(self._call(args, kwargs)))
        try:
            return batched(running)
        except Exception as error:
            if running.entered and not running.returned:
                raise  # the function's own
            refused = error
        if running.returned:
            self._raise_refusal(running, batched)
        else:
            self._raise_faults(self._call(args, kwargs))
        raise refused

    def plan(self, *args: Any, outputs: Any = ..., **kwargs: Any) -> VmapPlan:
        """What a call would do with each leaf. Takes `jax.ShapeDtypeStruct`s as it does arrays.

        Args:
            args: The arguments of the call.
            outputs: Whether to trace the function, for what it would do with each output; left out,
                nothing is traced. Where the function has a parameter of that name, the keyword is
                for that one, as in a call; so it is if it is neither True nor False. To have both,
                pass the argument by position.
            kwargs: The keywords of the call.

        Raises:
            SpecError: If the arguments do not fit in_axes, or the outputs do not fit out_axes.
        """
        __tracebackhide__ = True
        if outputs is not ... and self._takes_outputs(len(args), outputs):
            kwargs, outputs = {**kwargs, "outputs": outputs}, ...
        call = self._call(args, kwargs)
        self._raise_faults(call)
        plan = plan_call(call)
        if outputs is not True:
            return plan
        structure = jax.tree.structure((args, kwargs))
        batched = self._known.get(structure) or self._batched(structure, args, kwargs)
        judge = functools.partial(check_returned, call)
        running = batched.look(_leaves(args, kwargs), plan.axis_size, judge)
        if running.refusal is not None:
            self._raise_refused(running.refusal)
        if running.misfits:
            self._raise_refused(Refusal(running.misfits, None), where="")
        return dataclasses.replace(plan, outputs=running.outputs)

    def _takes_outputs(self, count: int, outputs: Any) -> bool:
        """Whether the keyword `outputs` of `plan` is for the function."""
        is_flag = isinstance(outputs, bool)
        return not is_flag or arguments.takes_keyword(self._written.fun, "outputs", count)

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """All that does not fit in_axes in a call. Raises nothing, traces nothing."""
        faults, _ = with_hints(self._call(args, kwargs), check_call)
        return faults

    def in_chunks(self, chunk_size: int | None) -> Vmapped[P, R]:
        """The same function mapped in chunks of another size, or at once for None."""
        written = dataclasses.replace(self._written, chunk_size=chunk_size)
        return type(self)(written, self._axis_size, checks=self._checks)

    @functools.cached_property
    def _declared(self) -> Declared | None:
        return declared(self._written.fun) if self._written.check_types else None

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        written = self._written
        return Call(
            fun=written.fun,
            in_axes=written.in_axes,
            args=args,
            kwargs=kwargs,
            axis_size=self._axis_size,
            spmd_axis_name=written.spmd_axis_name,
            chunk_size=written.chunk_size,
            keep_axis=written.keep_axis,
            declared=self._declared,
            broadcasts=self._outputs.broadcasts,
        )

    def _batched(
        self, structure: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Batched | ByLeaf:
        """The function batched for a structure that is new."""
        __tracebackhide__ = True
        call = self._call(args, kwargs)
        axes = call.axes()
        if call.mismatched or not any(axis is not None for axis in axes):
            self._raise_faults(call)  # also of a size that JAX would only refuse in the output
        taken = True
        if self._checks and may_doubt(call, self._written.axis_name, axes, _leaves(args, kwargs)):
            taken = self._warn(call)
        own = jax.tree.structure((args, kwargs), is_leaf=is_batched_sparse)
        sparse = own.num_leaves != structure.num_leaves

        def batch(axes: Sequence[Any]) -> Batched:
            return Batched(
                self._written.fun, own, axes, self._outputs, self._options,
                chunk_size=self._written.chunk_size, remat=self._written.remat, sparse=sparse,
                keep_axis=self._written.keep_axis, fold=self._written.fold,
            )  # fmt: skip

        by_leaf = any(map(is_function, axes))
        batched = ByLeaf(axes, batch, sparse=sparse) if by_leaf else batch(axes)
        if call.declared is not None:
            batched.watch = Watch(call)
        if taken:  # else the next call of this structure is still to be warned of
            self._known.put(structure, batched)
        return batched

    def _warn(self, call: Call) -> bool:
        """Warn of each doubt whose code was not warned of before, if JAX takes the call."""
        if check_call(call):
            return False
        for code, its in itertools.groupby(
            doubts(call, self._written.axis_name), lambda doubt: doubt.code
        ):
            if code not in self._warned:
                warning = SpecWarning(its, doing=self._doing)
                warnings.warn(warning, stacklevel=_levels())
                self._warned.add(code)  # not if it was made an error: that stays one
        return True

    def _raise_faults(self, call: Call) -> None:
        __tracebackhide__ = True
        faults, repaired = with_hints(call, check_call)
        if faults:
            raise SpecError(
                faults,
                doing=self._doing,
                where="" if all(its.code.startswith("PTK6") for its in faults) else "in_axes",
                when="before tracing",
                repaired=repaired.repaired_axes(call) if repaired else None,
            ) from None

    def _raise_refusal(self, running: Running, batched: Batched | ByLeaf) -> None:
        __tracebackhide__ = True
        refusal = running.refusal
        if refusal is None and self._outputs.keeps_unmapped:
            refusal = batched.refusal(running.leaves)
        if refusal is not None:
            self._raise_refused(refusal)

    def _raise_refused(self, refusal: Refusal, where: str = "out_axes") -> None:
        __tracebackhide__ = True
        raise SpecError(
            refusal.faults,
            doing=self._doing,
            where=where,
            when=f"when {self._name} returned",
            repaired=refusal.repaired,
        ) from None

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Vmapped[P, R]: ...

    # `Callable`, not `Vmapped`: ty and pyrefly do not split the ParamSpec of a class.
    @overload
    def __get__(
        self: Callable[Concatenate[T, Q], R], instance: T, owner: type | None = None
    ) -> VmappedMethod[Q, R]: ...

    # Of a static method, whose first parameter takes no instance: most checkers look past that.
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Vmapped[P, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else VmappedMethod(self, instance)

    def __repr__(self) -> str:
        return f"<vmap of {self._name}, in_axes={values.spec(self._written.in_axes)}>"


class VmappedMethod(BoundTo[P, R]):
    """A mapped method of one instance, which it passes as the first argument.

    Two that bind one function to one instance are equal, as bound methods are: to `jax.jit`, too.
    """

    def plan(self, *args: Any, **kwargs: Any) -> VmapPlan:
        """As `Vmapped.plan`, with the instance as the first argument."""
        return self.__func__.plan(self.__self__, *args, **kwargs)

    def in_chunks(self, chunk_size: int | None) -> VmappedMethod[P, R]:
        """As `Vmapped.in_chunks`, of the same instance."""
        return VmappedMethod(self.__func__.in_chunks(chunk_size), self.__self__)


Mapped: TypeAlias = Vmapped[..., Any] | VmappedMethod[..., Any]
"""What `ptk.vmap` returns, and a method of it."""


def check_mapped(fun: Any, name: str) -> list[Fault]:
    """PTK001: an argument called `name` must be a mapped function."""
    if isinstance(fun, Vmapped | VmappedMethod):
        return []
    fact = f"must be mapped by ptk.vmap, this is a {type(fun).__name__}"
    return [Fault("PTK001", name, "", "", "", "", fact=fact)]


def _leaves(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    return jax.tree.leaves((args, dict(kwargs)), is_leaf=is_batched_sparse)


def _levels() -> int:
    """How many calls up from the caller of this function the code of the user is."""
    own = (__name__, BoundTo.__module__)
    frame, levels = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__") in own:
        frame, levels = frame.f_back, levels + 1
    return levels
