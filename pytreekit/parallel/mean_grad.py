"""The mean loss of examples on many devices, and its gradient: one reduction, in its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from ..batching.manual import varying_over
from ..faults import Fault
from ..gradients import argnums
from ..gradients.loss import Loss
from ..gradients.mapped_loss import MappedLoss
from ..gradients.norms import accumulator
from ..show import values
from ..show.errors import common_spec, raise_faults
from ..specs import arguments
from ..specs.hints import with_hints
from ..specs.wrapping import Transformed
from .devices import check_devices, mesh_of, within
from .grid import grid_of
from .known import KnownCalls
from .laid_out import constrained, placed
from .mean_call import WHOLE, MeanCall, check_mean_call
from .shard_call import ShardLeaf
from .shard_plan import ShardPlan, plan_shards

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Mean:
    """The options of `data_parallel_grad` as they are written."""

    fun: Callable[..., Any]
    mesh: Any
    axis: Any
    batch: Any
    has_aux: bool
    on_indivisible: str


class MeanGrad(Transformed[P, Any]):
    """A loss of one example, over devices: what `ptk.data_parallel_grad` returns.

    It is called as the loss is, with batches in the place of one example.
    """

    def __init__(self, written: Mean) -> None:
        super().__init__(written)
        self._name = values.function(written.fun)
        doing = "data_parallel_grad"
        loss = Loss(written.fun, argnums.read(0), has_aux=written.has_aux, doing=doing)
        self._loss = MappedLoss(loss)
        self._known = KnownCalls()
        self._jitted = jax.jit(self._body, keep_unused=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The mean of the loss over all examples, and its gradient.

        Raises:
            SpecError: If the arguments do not fit the mesh and the specs, before the loss is
                entered; or if the loss returns no scalar.
        """
        __tracebackhide__ = True
        its_args, its_kwargs = self._by_position(args, kwargs)
        try:
            leaves, structure = jax.tree.flatten((its_args, its_kwargs))
        except ValueError:
            self._checked(its_args, its_kwargs)  # a dict whose keys do not sort
            raise
        specs = self._known.get(structure, leaves, lambda: self._specs(its_args, its_kwargs))
        mesh = mesh_of(self._written.mesh)
        its_args, its_kwargs = structure.unflatten(placed(leaves, specs, mesh))
        with within(mesh):
            return self._jitted(*its_args, **its_kwargs)

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> ShardPlan:
        """How a call splits each leaf. Takes `jax.ShapeDtypeStruct`s as it does arrays.

        It needs no devices: the mesh may be an `AbstractMesh` or a dict of sizes.

        Raises:
            SpecError: If the arguments do not fit the mesh and the specs.
        """
        __tracebackhide__ = True
        call = self._checked(*self._by_position(args, kwargs))
        if call.grid is None:
            raise AssertionError
        return plan_shards(call, call.grid, "data_parallel_grad")

    def check(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Fault, ...]:
        """All that does not fit in a call. Raises nothing, traces nothing."""
        return self._faults(self._call(*self._by_position(args, kwargs)))

    def _by_position(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A call with the parameters by position."""
        name = arguments.parameter_name(self._written.fun, 0)
        if args or name not in kwargs:
            return args, dict(kwargs)
        rest = dict(kwargs)
        return (rest.pop(name),), rest

    def _specs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[PartitionSpec]:
        """Where each leaf of a call of a new kind is to be; what is padded first is whole."""
        __tracebackhide__ = True
        call = self._checked(args, kwargs)
        self._raise(check_devices(self._written.mesh))
        ragged = _examples(call) % call.parts
        return [WHOLE if ragged else leaf.spec or WHOLE for leaf in call.leaves]

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> MeanCall:
        __tracebackhide__ = True
        call = self._call(args, kwargs)
        self._raise(self._faults(call))
        return call

    def _faults(self, call: MeanCall) -> tuple[Fault, ...]:
        faults, _ = with_hints(call, lambda its: check_mean_call(its, self._loss))
        return faults

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> MeanCall:
        its = self._written
        wanted = (its.axis,) if isinstance(its.axis, str) else tuple(its.axis or ())
        grid, faults = grid_of(its.mesh, frozenset(wanted))
        faults = [
            dataclasses.replace(fault, spec_path="axis", wanted=values.spec(its.axis))
            if fault.spec_path == "axis_names"
            else fault
            for fault in faults
        ]
        axis = wanted or tuple(grid.axes.sizes if grid else ())
        batch = PartitionSpec(axis) if its.batch is None else its.batch
        if isinstance(batch, dict):
            first = arguments.parameter_name(its.fun, 0)
            batch = type(batch)({first: WHOLE, **batch})
        return MeanCall(
            its.fun, args, kwargs, WHOLE, WHOLE, grid, tuple(faults), batch, axis,
            its.on_indivisible,
        )  # fmt: skip

    def _body(self, *args: Any, **kwargs: Any) -> Any:
        """The whole of it, as one program for all devices."""
        call, mesh = self._call(args, kwargs), jax.sharding.get_abstract_mesh()
        leaves, structure = jax.tree.flatten((args, kwargs))
        size, specs = _examples(call), [leaf.spec or WHOLE for leaf in call.leaves]
        missing = -size % call.parts
        rows = zip(leaves, call.leaves, strict=True)
        leaves = [_padded(leaf, call.example_dim(its), missing) for leaf, its in rows]
        leaves = [constrained(leaf, spec, mesh) for leaf, spec in zip(leaves, specs, strict=True)]
        on_each = self._on_each(call, structure, size if missing else None, size)
        out_specs = (WHOLE, PartitionSpec(call.axis), WHOLE)
        over = jax.shard_map(on_each, in_specs=(specs,), out_specs=out_specs)
        value, aux, gradients = over(leaves)
        gradient = self._loss.loss.gradient_of(
            self._loss.loss.floats(args, kwargs).gradient(gradients)
        )
        if not self._written.has_aux:
            return value, gradient
        if missing:
            aux = jax.tree.map(lambda its: constrained(its, WHOLE, mesh)[:size], aux)
        return (value, aux), gradient

    def _on_each(
        self, call: MeanCall, structure: Any, real: int | None, size: int
    ) -> Callable[[list[Any]], Any]:
        """What a device does with its examples, of which some may be no real ones."""
        loss, axis = call.mapped(self._loss), call.axis

        def on_each(leaves: list[Any]) -> Any:
            args, kwargs = structure.unflatten(leaves)
            floats = loss.loss.floats(args, kwargs)

            def total(its: list[Any]) -> tuple[Any, Any]:
                new = loss.loss.replaced(args, kwargs, floats.with_leaves(its))
                losses, aux = loss.values(count=len(args))(*new[0], **new[1])
                losses = losses.astype(accumulator(losses.dtype))
                if real is not None:
                    first = jax.lax.axis_index(axis) * len(losses)
                    losses = jnp.where(first + jnp.arange(len(losses)) < real, losses, 0)
                return losses.sum() / size, aux

            # JAX would add up the gradients of what is the same on every device by itself.
            own = [varying_over(jnp.asarray(leaf), frozenset(axis)) for leaf in floats.leaves]
            (value, aux), gradients = jax.value_and_grad(total, has_aux=True)(own)
            value, gradients = jax.lax.psum((value, gradients), axis)
            return value, aux, gradients

        return on_each

    def _raise(self, faults: Sequence[Fault]) -> None:
        __tracebackhide__ = True
        told = {"where": common_spec(faults), "when": "before tracing"}
        raise_faults(faults, self._loss.loss.told, **told)

    def __repr__(self) -> str:
        return f"<data_parallel_grad of {self._name}>"


def _examples(call: MeanCall) -> int:
    """How many examples a call without faults has."""
    return next(its.aval.shape[call.example_dim(its)] for its in _mapped(call))


def _mapped(call: MeanCall) -> list[ShardLeaf]:
    return [leaf for leaf in call.leaves if call.example_dim(leaf) is not None]


def _padded(leaf: Any, dim: int | None, missing: int) -> Any:
    """A leaf with its last example again: a loss is as finite there as it is on a real one."""
    if dim is None or not missing:
        return leaf
    leaf = jnp.asarray(leaf)
    last = jax.lax.slice_in_dim(leaf, leaf.shape[dim] - 1, leaf.shape[dim], axis=dim)
    return jnp.concatenate([leaf, *[last] * missing], axis=dim)
