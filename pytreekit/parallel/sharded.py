"""A function over shards: it plans, checks and calls, and tells every fault where JAX refuses."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

import jax

from ..faults import Fault
from ..show import values
from ..show.errors import SpecError, common_spec, raise_faults
from ..specs import arguments
from ..specs.hints import with_hints
from ..specs.ruled import is_rules
from ..specs.wrapping import BoundTo, Transformed
from ..trees import paths
from .devices import check_devices
from .grid import Grid, grid_of
from .known import KnownCalls
from .returned import Returned, ReturnRefused, refuse
from .shard_call import ShardCall
from .shard_check import check_shard_call
from .shard_plan import ShardPlan, plan_shards

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Q = ParamSpec("Q")


@dataclasses.dataclass(frozen=True)
class Split:
    """The options of `shard_map` as they are written."""

    fun: Callable[..., Any]
    mesh: Any
    in_specs: Any
    out_specs: Any
    axis_names: Any
    check_vma: bool


class Sharded(Transformed[P, R]):
    """A function mapped over shards, and checked: what `ptk.shard_map` returns.

    It is called as the function is, with whole arguments. Name, docstring and signature are the
    function's; in a class body it becomes a method; it copies and pickles as the function does.
    """

    def __init__(self, written: Split) -> None:
        super().__init__(written)
        self._name = values.function(written.fun)
        self._has_rules = _has_rules(written.out_specs)
        self._known = KnownCalls(by_value=self._has_rules)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function over shards.

        Raises:
            SpecError: If the arguments do not fit in_specs and the mesh, before the function is
                entered; or if what it returns does not fit out_specs.
        """
        __tracebackhide__ = True
        try:
            leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
        except ValueError:
            self._raise_faults(self._call(args, kwargs))  # a dict whose keys do not sort
            raise
        make = functools.partial(self._over_shards, args, kwargs, structure)
        try:
            return self._known.get(structure, leaves, make)(leaves)
        except ReturnRefused as refusal:
            refused = refusal
        self._raise_refused(refused)
        raise AssertionError

    def plan(self, *args: Any, outputs: Any = ..., **kwargs: Any) -> ShardPlan:
        """What a call would do with each leaf. Takes `jax.ShapeDtypeStruct`s as it does arrays.

        It needs no devices: the mesh may be an `AbstractMesh` or a dict of sizes, see `over`.

        Args:
            args: The arguments of the call.
            outputs: Whether to trace the function, for what it would do with each output; left out,
                nothing is traced. Where the function has a parameter of that name, the keyword is
                for that one, as in a call; so it is if it is neither True nor False.
            kwargs: The keywords of the call.

        Raises:
            SpecError: If the arguments do not fit in_specs and the mesh, or the outputs do not fit
                out_specs.
        """
        __tracebackhide__ = True
        is_flag = isinstance(outputs, bool)
        fun = self._written.fun
        if outputs is not ... and (
            not is_flag or arguments.takes_keyword(fun, "outputs", len(args))
        ):
            kwargs, outputs = {**kwargs, "outputs": outputs}, ...
        call = self._call(args, kwargs)
        self._raise_faults(call)
        plan = plan_shards(call, _grid(call))
        if outputs is not True:
            return plan
        try:
            return dataclasses.replace(plan, outputs=self._look(call, Returned.outputs))
        except ReturnRefused as refusal:
            refused = refusal
        self._raise_refused(refused)
        raise AssertionError

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """All that does not fit in a call. Raises nothing, traces nothing."""
        faults, _ = with_hints(self._call(args, kwargs), check_shard_call)
        return faults

    def over(self, mesh: Any) -> Sharded[P, R]:
        """The same function over another mesh.

        Args:
            mesh: A `Mesh`; an `AbstractMesh` or a dict of sizes, for plans that need no devices;
                or None for the mesh that `jax.set_mesh` has set.
        """
        return type(self)(dataclasses.replace(self._written, mesh=mesh))

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ShardCall:
        its = self._written
        grid, faults = grid_of(its.mesh, its.axis_names)
        return ShardCall(its.fun, args, kwargs, its.in_specs, its.out_specs, grid, tuple(faults))

    def _over_shards(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], structure: Any
    ) -> Callable[[list[Any]], Any]:
        """The function of a list of leaves over shards, for a call of a new kind."""
        __tracebackhide__ = True
        call = self._call(args, kwargs)
        self._raise_faults(call)
        grid, out_specs = _grid(call), self._written.out_specs
        if isinstance(self._written.mesh, Mapping):
            self._raise(check_devices(self._written.mesh))
        if self._has_rules:
            out_specs = self._look(call, Returned.specs)

        def body(leaves: list[Any]) -> Any:
            its_args, its_kwargs = structure.unflatten(leaves)
            out = self._written.fun(*its_args, **its_kwargs)
            refuse(Returned(out_specs, out, grid, self._written.check_vma))
            return out

        specs = {} if call.infers else {"in_specs": ([leaf.spec for leaf in call.leaves],)}
        return self._mapped(body, out_specs, grid, specs)

    def _mapped(
        self, body: Callable[..., Any], out_specs: Any, grid: Grid, specs: dict[str, Any]
    ) -> Callable[..., Any]:
        signature = inspect.signature(body)
        functools.update_wrapper(body, self._written.fun, updated=())  # for JAX's own errors
        vars(body)["__signature__"] = signature
        its = self._written
        mesh = None if its.mesh is None else grid.mesh
        options = {"mesh": mesh, "axis_names": its.axis_names, "check_vma": its.check_vma}
        return jax.shard_map(body, out_specs=out_specs, **specs, **options)

    def _look(self, call: ShardCall, take: Callable[[Returned], T]) -> T:
        """What `take` takes of what the function returns on one shard, from a trace of its own.

        Raises:
            ReturnRefused: If that does not fit out_specs.
            Exception: What the function raises.
        """
        grid, out_specs, check_vma = _grid(call), self._written.out_specs, self._written.check_vma
        taken: list[T] = []
        leaves, structure = jax.tree.flatten((call.args, dict(call.kwargs)))
        specs = [leaf.spec for leaf in call.leaves]
        handed = [index for index, spec in enumerate(specs) if spec is not None]

        def body(tracers: list[Any]) -> tuple[()]:
            its = leaves.copy()
            for index, tracer in zip(handed, tracers, strict=True):
                its[index] = tracer
            its_args, its_kwargs = structure.unflatten(its)
            out = self._written.fun(*its_args, **its_kwargs)
            returned = Returned(out_specs, out, grid, check_vma)
            refuse(returned)
            taken.append(take(returned))
            return ()

        over = self._mapped(body, (), grid, {"in_specs": ([specs[index] for index in handed],)})
        with _within(self._written.mesh, grid):
            jax.eval_shape(over, [leaves[index] for index in handed])
        return taken[0]

    def _raise_faults(self, call: ShardCall) -> None:
        __tracebackhide__ = True
        faults, repaired = with_hints(call, check_shard_call)
        new = None
        if repaired is not None and repaired.args is call.args and repaired.kwargs is call.kwargs:
            only_in = repaired.out_specs is call.out_specs
            new = repaired.in_specs if only_in else None
            if not only_in and repaired.in_specs is call.in_specs:
                new = repaired.out_specs
        self._raise(faults, new)

    def _raise(self, faults: Sequence[Fault], repaired: Any = None) -> None:
        __tracebackhide__ = True
        told = {"where": common_spec(faults), "when": "before tracing"}
        raise_faults(faults, f"shard_map({self._name})", **told, repaired=repaired)

    def _raise_refused(self, refusal: ReturnRefused) -> None:
        __tracebackhide__ = True
        raise SpecError(
            refusal.faults,
            doing=f"shard_map({self._name})",
            where="out_specs",
            when=f"when {self._name} returned",
            repaired=refusal.repaired,
        ) from None

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Sharded[P, R]: ...

    # `Callable`, not `Sharded`: ty and pyrefly do not split the ParamSpec of a class.
    @overload
    def __get__(
        self: Callable[Concatenate[T, Q], R], instance: T, owner: type | None = None
    ) -> ShardedMethod[Q, R]: ...

    # Of a static method, whose first parameter takes no instance: most checkers look past that.
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Sharded[P, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else ShardedMethod(self, instance)

    def __repr__(self) -> str:
        return f"<shard_map of {self._name}, in_specs={values.spec(self._written.in_specs)}>"


class ShardedMethod(BoundTo[P, R]):
    """A method over shards of one instance, which it passes as the first argument."""

    def plan(self, *args: Any, **kwargs: Any) -> ShardPlan:
        """As `Sharded.plan`, with the instance as the first argument."""
        return self.__func__.plan(self.__self__, *args, **kwargs)

    def over(self, mesh: Any) -> ShardedMethod[P, R]:
        """As `Sharded.over`, of the same instance."""
        return ShardedMethod(self.__func__.over(mesh), self.__self__)


def _grid(call: ShardCall) -> Grid:
    """The grid of a call without faults."""
    if call.grid is None:
        raise AssertionError
    return call.grid


def _within(mesh: Any, grid: Grid) -> Any:
    """A context in which the mesh of a plan can be traced over."""
    if mesh is None:
        return contextlib.nullcontext()
    return jax.sharding.use_abstract_mesh(grid.mesh.abstract_mesh)


def _has_rules(specs: Any) -> bool:
    try:
        its = paths.leaves_with_paths(specs)
    except ValueError:  # a dict whose keys do not sort
        return False
    return any(is_rules(value) for _, value in its)
