"""Apply: the function mapped by `jax.pmap`, for one structure of arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from ..batching.forms import SPLIT, resolved
from ..batching.outputs import Output, OutputCheck, Refusal
from ..batching.transform import Batched
from ..show import values
from ..trees.structures import MOST
from .known import kinds_of, value_of
from .pmap_call import Static, is_inside
from .returned import ReturnRefused


class OnDevices:
    """A function mapped over devices for one structure of arguments.

    Args:
        fun: The function; static arguments come to it as `Static`.
        structure: The structure of `(args, kwargs)`.
        axes: The axis of each leaf, None for a shared one, `SPLIT`, or a function of the leaf.
        donated: The leaves whose buffers are donated.
        check: The check of what the function returns.
        options: The further options of `jax.pmap`.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        structure: Any,
        axes: Sequence[Any],
        donated: Sequence[int],
        check: OutputCheck,
        options: dict[str, Any],
    ) -> None:
        self._fun = fun
        self._structure = structure
        self._axes = axes
        self._donated = frozenset(donated)
        self._check = check
        self._options = options
        self._looks = check.keeps_unmapped or _has_negative(check.out_axes)
        self._shared = [index for index, axis in enumerate(axes) if axis is None]
        is_plain = all(axis is None or (type(axis) is int and axis >= 0) for axis in axes)
        self._plain = tuple(axes) if is_plain and not self._looks else None
        self._known: dict[Any, Callable[..., Any]] = {}

    def __call__(self, leaves: list[Any]) -> Any:
        """Call the function on these leaves."""
        if jax.sharding.get_abstract_mesh().empty:
            handed, over = self.over(leaves)
            return over(*handed)
        with without_mesh():
            handed, over = self.over(leaves)
            return over(*handed)

    def over(self, leaves: list[Any]) -> tuple[list[Any], Any]:
        """What JAX is handed of these leaves, and the function of it."""
        if self._plain is not None and self._are_arrays(leaves):
            over = self._known.get(())
            if over is None:
                every = range(len(leaves))
                over = self._known[()] = self._pmap(every, self._plain, {}, self._check.out_axes)
            return leaves, over
        return self._chosen(leaves)

    def _are_arrays(self, leaves: list[Any]) -> bool:
        """Whether all shared leaves are arrays: then it is at once clear what is handed."""
        return all(isinstance(leaves[index], jax.Array) for index in self._shared)

    def _chosen(self, leaves: list[Any]) -> tuple[list[Any], Any]:
        """As `over`, where what the leaves are decides on what is handed, and how."""
        axes = [resolved(axis, leaf) for axis, leaf in zip(self._axes, leaves, strict=True)]
        leaves = self._with_keys_split(leaves, axes)
        axes = [_counted(axis, leaf) for axis, leaf in zip(axes, leaves, strict=True)]
        rows = enumerate(zip(axes, leaves, strict=True))
        carried = {
            index: leaf
            for index, (axis, leaf) in rows
            if axis is None and (isinstance(leaf, Static) or not _is_array(leaf))
        }
        every = [index for index in range(len(leaves)) if index not in carried]
        handed = [leaves[index] for index in every]
        key: Any = (tuple(axes), tuple(map(_as_key, carried.values())))
        if self._looks:
            key = (*key, kinds_of(handed))
        over = self._known.get(key)
        if over is None:
            out_axes = self._out_axes(leaves, axes, every, carried)
            over = self._pmap(every, [axes[index] for index in every], carried, out_axes)
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = over
        return handed, over

    def _with_keys_split(self, leaves: list[Any], axes: list[Any]) -> list[Any]:
        """The leaves with each key that is to be split turned into one for each example."""
        keys = [index for index, axis in enumerate(axes) if axis is SPLIT]
        if not keys:
            return leaves
        mapped = [index for index, axis in enumerate(axes) if type(axis) is int]
        sizes = [np.shape(leaves[index])[axes[index]] for index in mapped]
        here, of = jax.process_index(), jax.process_count()
        size = sizes[0] if sizes else self._options["axis_size"] // of
        leaves = leaves.copy()
        for index in keys:
            split = jax.random.split(leaves[index], size * of)
            leaves[index] = split[here * size : (here + 1) * size]  # as one process would have them
        return leaves

    def _pmap(
        self, every: Sequence[int], axes: Sequence[Any], carried: dict[int, Any], out_axes: Any
    ) -> Callable[..., Any]:
        body = self._body(every, carried)
        donated = tuple(place for place, index in enumerate(every) if index in self._donated)
        its = {"in_axes": tuple(axes), "out_axes": out_axes, "donate_argnums": donated}
        return jax.pmap(body, **its, **self._options)

    def _body(self, every: Sequence[int], carried: dict[int, Any]) -> Callable[..., Any]:
        """The function of the leaves that JAX is handed, in the place of the user's."""
        fun, structure, check = self._fun, self._structure, self._check
        count = len(every) + len(carried)

        def body(*tracers: Any) -> Any:
            leaves: list[Any] = [None] * count
            for index, leaf in carried.items():
                leaves[index] = leaf
            for index, tracer in zip(every, tracers, strict=True):
                leaves[index] = tracer
            args, kwargs = structure.unflatten(leaves)
            out = fun(*args, **kwargs)
            if not check.passes(out):
                _refuse(check.refusal(out, ()))
            return out

        signature = inspect.signature(body)
        functools.update_wrapper(body, fun, updated=())  # JAX names the user's function in errors
        vars(body)["__signature__"] = signature
        return body

    def _out_axes(
        self, leaves: list[Any], axes: list[Any], every: Sequence[int], carried: dict[int, Any]
    ) -> Any:
        """The out_axes as JAX can take them: none negative, and None for what does not vary."""
        if not self._looks:
            return self._check.out_axes
        if self._check.keeps_unmapped:
            _refuse(self.refusal(leaves, axes))
        over = self._pmap(every, [axes[index] for index in every], carried, 0)
        with without_mesh():
            out = jax.eval_shape(over, *(leaves[index] for index in every))
        binding = Output(self._check.out_axes, out).binding
        counted = [its.value and its.value % len(its.leaf.shape) for its in binding]
        return jax.tree.structure(out).unflatten(counted)

    def moved(self, leaves: Sequence[Any], devices: Sequence[Any]) -> list[Any] | None:
        """The leaves where pmap takes them, if some lie elsewhere; None if none do, or many do.

        It does not know Explicit layouts, nor those of other meshes. Of many processes, no one can
        move arrays alone.
        """
        axes = [resolved(axis, leaf) for axis, leaf in zip(self._axes, leaves, strict=True)]
        rows = list(zip(axes, leaves, strict=True))
        sizes = [np.shape(leaf)[axis] for axis, leaf in rows if isinstance(axis, int)]
        if not sizes or jax.process_count() > 1:
            return None
        mesh = Mesh(np.asarray(devices[: sizes[0]]), ("examples",))
        with without_mesh():
            its = [_moved(leaf, axis, mesh) if _is_placed(leaf) else leaf for axis, leaf in rows]
        same = all(new is old for new, old in zip(its, leaves, strict=True))
        return None if same else its

    def refusal(self, leaves: list[Any], axes: list[Any]) -> Refusal | None:
        """Why what the function returns is refused: what varies is seen when vmap traces it."""
        options = {"out_axes": 0, "axis_name": self._options["axis_name"], "axis_size": None}
        look = Batched(
            self._fun, self._structure, axes, self._check, {**options, "spmd_axis_name": None}
        )
        first = next(index for index, axis in enumerate(axes) if axis is not None)
        try:
            with without_mesh():
                return look.look(leaves, np.shape(leaves[first])[axes[first]]).refusal
        except Exception:  # noqa: BLE001  what vmap cannot trace, or a fault that JAX will tell
            return None


def without_mesh() -> Any:
    """A context without the mesh that `jax.set_mesh` has set: pmap makes its own."""
    if jax.sharding.get_abstract_mesh().empty or is_inside():
        return contextlib.nullcontext()
    try:
        jax.sharding.get_mesh()
    except ValueError:  # a function is being traced: its devices are its caller's
        return jax.sharding.use_abstract_mesh(AbstractMesh((), ()))
    return jax.set_mesh(Mesh(np.empty((), dtype=object), ()))


def _moved(leaf: jax.Array, axis: Any, mesh: Mesh) -> jax.Array:
    """An array that lies somewhere, where pmap over the devices of a mesh takes it."""
    if axis is SPLIT:
        return _uncommitted(leaf)
    counted = _counted(axis, leaf)
    spec = PartitionSpec() if counted is None else PartitionSpec(*[None] * counted, "examples")
    there = NamedSharding(mesh, spec)
    is_there = leaf.sharding.is_equivalent_to(there, leaf.ndim) and not _is_explicit(leaf)
    return leaf if is_there else jax.device_put(leaf, there)


def _uncommitted(key: jax.Array) -> jax.Array:
    """A key that lies nowhere on purpose, so that what it is split into may lie anywhere."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return jnp.asarray(np.asarray(key))
    data = jnp.asarray(np.asarray(jax.random.key_data(key)))
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(key))


def _is_explicit(leaf: jax.Array) -> bool:
    """Whether the layout of an array is part of its type."""
    return AxisType.Explicit in jax.typeof(leaf).sharding.mesh.axis_types


def _is_placed(leaf: Any) -> bool:
    """Whether a leaf is an array that was put somewhere on purpose."""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) and leaf.committed


def _refuse(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise ReturnRefused(refusal.faults, refusal.repaired)


def _has_negative(axes: Any) -> bool:
    return any(axis < 0 for axis in jax.tree.leaves(axes))


def _counted(axis: Any, leaf: Any) -> int | None:
    """An axis counted from the front."""
    if axis is SPLIT:
        return 0
    rank = np.ndim(leaf) if isinstance(axis, int) and axis < 0 else 0
    return axis % rank if rank and -rank <= axis else axis


def _is_array(leaf: Any) -> bool:
    """Whether JAX takes a leaf for an array."""
    return isinstance(leaf, jax.Array | bool | int | float) or values.typeof(leaf) is not None


def _as_key(leaf: Any) -> Any:
    """What a leaf that JAX never sees is told from others by."""
    if isinstance(leaf, Static):
        return leaf
    return value_of(leaf)
