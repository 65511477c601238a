"""A training step over devices: it plans, checks and calls, as one program for all of them."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from ..faults import Fault
from ..show import values
from ..show.errors import common_spec, raise_faults
from ..specs import arguments
from ..specs.hints import with_hints
from ..specs.wrapping import Transformed
from ..trees.structures import MOST
from .devices import check_devices, mesh_of, within
from .grid import Grid, grid_of
from .known import KnownCalls
from .laid_out import constrained, placed
from .returned import ReturnRefused
from .shard_plan import ShardPlan, plan_shards
from .step_call import BATCH, STATE, StepCall, check_step_call, split_first
from .step_return import check_new_state, check_step_return, spec_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Q = ParamSpec("Q")


@dataclasses.dataclass(frozen=True)
class Step:
    """The options of `data_parallel` as they are written."""

    fun: Callable[..., Any]
    mesh: Any
    batch: Any
    state: Any
    on_indivisible: str
    donate_state: bool


class DataParallel(Transformed[P, R]):
    """A training step over devices, and checked: what `ptk.data_parallel` returns.

    It is called as the step is. Name, docstring and signature are the step's; in a class body it
    becomes a method, compiled for each instance.
    """

    def __init__(self, written: Step) -> None:
        super().__init__(written)
        self._name = values.function(written.fun)
        self._known = KnownCalls()
        self._of: dict[int, DataParallel[..., Any]] = {}
        self._jitted = jax.jit(
            self._body, donate_argnums=(0,) if written.donate_state else (), keep_unused=True
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the step over devices.

        Raises:
            SpecError: If the arguments do not fit the mesh and the specs, before the step is
                entered; or if what it returns is no new state with metrics.
        """
        __tracebackhide__ = True
        its_args, its_kwargs, mesh = self._placed(args, kwargs)
        with within(mesh):
            try:
                return self._jitted(*its_args, **its_kwargs)
            except ReturnRefused as refusal:
                faults = refusal.faults
        self._raise(faults, f"when {self._name} returned")
        raise AssertionError

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As `lower` of what `jax.jit` returns: the call, lowered for its devices.

        Raises:
            SpecError: As a call does, before the step is entered.
        """
        __tracebackhide__ = True
        its_args, its_kwargs, mesh = self._placed(args, kwargs)
        with within(mesh):
            return self._jitted.lower(*its_args, **its_kwargs)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> ShardPlan:
        """How a call splits each leaf. Takes `jax.ShapeDtypeStruct`s as it does arrays.

        It needs no devices: the mesh may be an `AbstractMesh` or a dict of sizes.

        Raises:
            SpecError: If the arguments do not fit the mesh and the specs.
        """
        __tracebackhide__ = True
        call, grid = self._checked(*self._by_position(args, kwargs))
        return plan_shards(call, grid, "data_parallel")

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """All that does not fit in a call. Raises nothing, traces nothing."""
        its_args, its_kwargs = self._by_position(args, kwargs)
        faults, _ = with_hints(self._call(its_args, its_kwargs), check_step_call)
        return faults

    def _by_position(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A call with state and batch by position, where it has them."""
        rest = dict(kwargs)
        for index in range(len(args), 2):
            name = arguments.parameter_name(self._written.fun, index)
            if name not in rest:
                break
            args = (*args, rest.pop(name))
        return args, rest

    def _placed(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """The arguments where they are to be, and the mesh."""
        __tracebackhide__ = True
        args, kwargs = self._by_position(args, kwargs)
        try:
            leaves, structure = jax.tree.flatten((args, kwargs))
        except ValueError:
            self._checked(args, kwargs)  # a dict whose keys do not sort
            raise
        specs = self._known.get(structure, leaves, lambda: self._specs(args, kwargs))
        mesh, copied = mesh_of(self._written.mesh), 0
        if self._written.donate_state:
            copied = jax.tree.structure(args[0]).num_leaves
        return *structure.unflatten(placed(leaves, specs, mesh, copied)), mesh

    def _specs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[PartitionSpec]:
        """The spec of each leaf of a call of a new kind."""
        __tracebackhide__ = True
        call, _ = self._checked(args, kwargs)
        self._raise(check_devices(self._written.mesh))
        return [spec_of(leaf) for leaf in call.leaves]

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[StepCall, Grid]:
        __tracebackhide__ = True
        call = self._call(args, kwargs)
        faults, _ = with_hints(call, check_step_call)
        self._raise(faults)
        if call.grid is None:
            raise AssertionError
        return call, call.grid

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepCall:
        its = self._written
        grid, faults = grid_of(its.mesh, frozenset())
        batch = its.batch
        if batch is None:
            batch = split_first(args[1:2], list(grid.axes.sizes) if grid else [])
            batch = batch[0] if batch else None
        specs = (its.state, batch)
        return StepCall(
            its.fun, args, kwargs, specs, PartitionSpec(), grid, tuple(faults), its.on_indivisible
        )

    def _body(self, *args: Any, **kwargs: Any) -> Any:
        """The step, and where its results are to be."""
        out = self._written.fun(*args, **kwargs)
        call = self._call(args, kwargs)
        mesh, grid = jax.sharding.get_abstract_mesh(), call.grid
        before = [leaf for leaf in call.leaves if leaf.position == 0]
        faults = check_step_return(out, args[0], call.bindings[0].name)
        if grid is not None and not faults:
            faults = check_new_state(out[0], before, grid.axes)
        if faults:
            raise ReturnRefused(tuple(faults), None)
        leaves, structure = jax.tree.flatten(out[0])
        rows = zip(leaves, before, strict=True)
        new = [constrained(jnp.asarray(leaf), spec_of(old), mesh) for leaf, old in rows]
        whole = PartitionSpec()
        metrics = jax.tree.map(lambda its: constrained(jnp.asarray(its), whole, mesh), out[1])
        return structure.unflatten(new), metrics

    def _raise(self, faults: Sequence[Fault], when: str = "before tracing") -> None:
        __tracebackhide__ = True
        where = common_spec(faults)
        where = where if where in {STATE, BATCH, "mesh"} else ""
        raise_faults(faults, f"data_parallel({self._name})", where=where, when=when)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> DataParallel[P, R]: ...

    # `Callable`, not `DataParallel`: ty and pyrefly do not split the ParamSpec of a class.
    @overload
    def __get__(
        self: Callable[Concatenate[T, Q], R], instance: T, owner: type | None = None
    ) -> DataParallel[Q, R]: ...

    # Of a static method, whose first parameter takes no instance: most checkers look past that.
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> DataParallel[P, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        key = id(instance)
        if key not in self._of:  # each lookup of a method asks: what was compiled must be found
            while len(self._of) >= MOST:
                del self._of[next(iter(self._of))]
            step = types.MethodType(self._written.fun, instance)
            self._of[key] = type(self)(dataclasses.replace(self._written, fun=step))
        return self._of[key]

    def __repr__(self) -> str:
        return f"<data_parallel of {self._name}>"
