"""A function over devices: it plans, checks and calls, and tells every fault where JAX refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, overload

import jax

from ..batching.outputs import OutputCheck
from ..batching.plan import VmapPlan, plan_call
from ..batching.written import Written
from ..faults import Fault
from ..show import values
from ..show.errors import SpecError, common_spec, raise_faults
from ..specs.hints import with_hints
from ..specs.wrapping import BoundTo, Transformed
from ..trees.structures import StructureCache
from .on_devices import OnDevices, without_mesh
from .pmap_call import PmapCall, Static, check_pmap_call, with_statics
from .returned import ReturnRefused

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Q = ParamSpec("Q")


class Placed(NamedTuple):
    """The options of `pmap` that say where a function runs, and what is static."""

    static: tuple[int, ...]
    donated: tuple[int, ...]
    devices: tuple[Any, ...] | None
    backend: str | None
    axis_size: int | None


class Pmapped(Transformed[P, R]):
    """A function mapped over devices, and checked: what `ptk.pmap` returns.

    It is called as the function is, with an example for each device. Name, docstring and signature
    are the function's; in a class body it becomes a method; it pickles as the function does.
    """

    def __init__(self, written: Written, placed: Placed) -> None:
        super().__init__(written, placed=placed)
        self._placed = placed
        self._name = values.function(written.fun)
        self._doing = f"{written.doing}({self._name})"
        self._fun = with_statics(written.fun) if placed.static else written.fun
        self._outputs = OutputCheck(written.out_axes)
        self._known = StructureCache()
        self._options = {
            "axis_name": written.axis_name,
            "devices": placed.devices,
            "backend": placed.backend,
            "axis_size": placed.axis_size,
        }

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function over devices.

        Raises:
            SpecError: If the arguments do not fit in_axes and the devices, before the function is
                entered; or if what it returns does not fit out_axes.
        """
        __tracebackhide__ = True
        its: Any = self._with_static(args) if self._placed.static else args
        try:
            leaves, structure = jax.tree_util.tree_flatten((its, kwargs))
        except ValueError:
            self._raise_faults(self._call(its, kwargs))  # a dict whose keys do not sort
            raise
        over = self._known.get(structure) or self._over_devices(structure, its, kwargs)
        try:
            return over(leaves)
        except Exception as error:  # noqa: BLE001  raised again, unless it can be told better
            refused = error
        self._raise_faults(self._call(its, kwargs))
        self._raise_refused(refused)
        moved = over.moved(leaves, self._devices())
        if moved is None:
            raise refused
        try:
            return over(moved)
        except ReturnRefused as refusal:
            refused = refusal
        self._raise_refused(refused)
        raise refused

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As `lower` of what `jax.pmap` returns: the call, lowered for its devices.

        Raises:
            SpecError: As a call does.
        """
        __tracebackhide__ = True
        its: Any = self._with_static(args) if self._placed.static else args
        self._raise_faults(self._call(its, kwargs))
        leaves, structure = jax.tree_util.tree_flatten((its, kwargs))
        over = self._known.get(structure) or self._over_devices(structure, its, kwargs)
        with without_mesh():
            handed, pmapped = over.over(leaves)
            return pmapped.lower(*handed)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> VmapPlan:
        """What a call would do with each leaf. Takes `jax.ShapeDtypeStruct`s as it does arrays.

        Raises:
            SpecError: If the arguments do not fit in_axes and the devices.
        """
        __tracebackhide__ = True
        call = self._call(self._with_static(args), kwargs)
        self._raise_faults(call)
        return dataclasses.replace(plan_call(call), transform="pmap")

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """All that does not fit in a call. Raises nothing, traces nothing."""
        try:
            call = self._call(self._with_static(args), kwargs)
        except SpecError as error:
            return error.faults
        faults, _ = with_hints(call, check_pmap_call)
        return faults

    def _devices(self) -> Sequence[Any]:
        """The devices of this process that a call may use."""
        if self._placed.devices is None:
            return jax.local_devices(backend=self._placed.backend)
        here = jax.process_index()
        return [its for its in self._placed.devices if its.process_index == here]

    def _static(self, count: int) -> list[int]:
        """The places of static arguments, counted from the front.

        Raises:
            SpecError: PTK507, if the call has no such argument by position.
        """
        __tracebackhide__ = True
        beyond = [place for place in self._placed.static if not -count <= place < count]
        passed = values.count(count, "argument")
        self._raise(
            [
                Fault(
                    "PTK507", "", "", "static_broadcasted_argnums", "", str(place),
                    fact=f"there is no argument {place}, the call has {passed} by position",
                )
                for place in beyond
            ]
        )  # fmt: skip
        return [place % count for place in self._placed.static]

    def _with_static(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        static = self._static(len(args)) if self._placed.static else ()
        return tuple(Static(arg) if place in static else arg for place, arg in enumerate(args))

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> PmapCall:
        axes = self._written.in_axes
        if self._placed.static and isinstance(axes, tuple):
            static = [isinstance(arg, Static) for arg in args[len(axes) :]]
            axes = axes[: len(args)]  # as JAX, which looks at no more than it needs
            axes += (None,) * (static.index(False) if False in static else len(static))
        one_process = jax.process_count() == 1
        return PmapCall(
            fun=self._written.fun,
            in_axes=axes,
            args=args,
            kwargs=kwargs,
            axis_size=self._placed.axis_size if one_process else None,
            devices=len(self._devices()),
        )

    def _over_devices(
        self, structure: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> OnDevices:
        """The function over devices for a structure that is new."""
        __tracebackhide__ = True
        call = self._call(args, kwargs)
        axes = call.axes()
        if (
            call.mismatched
            or len(axes) != structure.num_leaves
            or not any(axis is not None for axis in axes)
        ):
            self._raise_faults(call)
        donated = set(self._placed.donated)
        positions = [
            place
            for place, binding in enumerate(call.bindings)
            for _ in range(jax.tree.structure(binding.tree).num_leaves)
        ]
        count = len(args)  # JAX donates no keywords
        given = [index for index, its in enumerate(positions) if its in donated and its < count]
        over = OnDevices(self._fun, structure, axes, given, self._outputs, self._options)
        self._known.put(structure, over)
        return over

    def _raise_faults(self, call: PmapCall) -> None:
        __tracebackhide__ = True
        faults, repaired = with_hints(call, check_pmap_call)
        self._raise(faults, repaired.repaired_axes(call) if repaired else None)

    def _raise(self, faults: Sequence[Fault], repaired: Any = None) -> None:
        __tracebackhide__ = True
        told = {"where": common_spec(faults), "when": "before tracing"}
        raise_faults(faults, self._doing, **told, repaired=repaired)

    def _raise_refused(self, refusal: Exception) -> None:
        __tracebackhide__ = True
        if isinstance(refusal, ReturnRefused):
            raise SpecError(
                refusal.faults,
                doing=self._doing,
                where="out_axes",
                when=f"when {self._name} returned",
                repaired=refusal.repaired,
            ) from None

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Pmapped[P, R]: ...

    # `Callable`, not `Pmapped`: ty and pyrefly do not split the ParamSpec of a class.
    @overload
    def __get__(
        self: Callable[Concatenate[T, Q], R], instance: T, owner: type | None = None
    ) -> PmappedMethod[Q, R]: ...

    # Of a static method, whose first parameter takes no instance: most checkers look past that.
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Pmapped[P, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else PmappedMethod(self, instance)

    def __repr__(self) -> str:
        return f"<pmap of {self._name}, in_axes={values.spec(self._written.in_axes)}>"


class PmappedMethod(BoundTo[P, R]):
    """A method over devices of one instance, which it passes as the first argument."""

    def plan(self, *args: Any, **kwargs: Any) -> VmapPlan:
        """As `Pmapped.plan`, with the instance as the first argument."""
        return self.__func__.plan(self.__self__, *args, **kwargs)
