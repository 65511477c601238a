"""Apply: the function batched by `jax.vmap`, for one structure of arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..faults import Fault
from ..trees.structures import MOST
from .chunks import Chunks, Fold
from .forms import SPLIT, can_be_sliced, is_axis, resolved
from .outputs import OutputCheck, Refusal
from .shardings import mesh_axes
from .stand_in import with_stand_in
from .underway import Running, underway
from .varying import varying

Judge = Callable[[Any], Iterable[Fault]]


class OutputRefused(Exception):  # noqa: N818  it never leaves this package
    """What the function returned does not fit out_axes; `Running.refusal` says why."""


class Batched:
    """A function batched for one structure of arguments.

    Args:
        fun: The function.
        structure: The structure of `(args, kwargs)`.
        axes: The axis of each leaf, None for a shared one, `SPLIT` for a key to be split.
        check: The check of what the function returns.
        options: The further options of `jax.vmap`.
        chunk_size: How many examples to map at once, None for all.
        remat: Whether gradients compute chunks again.
        sparse: Whether the leaves are to be those of `is_batched_sparse`.
        keep_axis: Whether the function gets each example as a batch of one.
        fold: What is made of the outputs, None to return them as they are.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        structure: Any,
        axes: Sequence[Any],
        check: OutputCheck,
        options: dict[str, Any],
        *,
        chunk_size: int | None = None,
        remat: bool = False,
        sparse: bool = False,
        keep_axis: bool = False,
        fold: Fold | None = None,
    ) -> None:
        self.sparse = sparse
        self.watch: Any = None  # set where annotations speak of the leaves
        self._fun = fun
        self._structure = structure
        self._keys = [index for index, axis in enumerate(axes) if axis is SPLIT]
        self._axes = [0 if axis is SPLIT else axis for axis in axes]
        self._chunk_size = chunk_size
        self._remat = remat
        self._keep_axis = keep_axis
        self._fold = fold
        self._check = check
        self._options = options
        self._all = range(len(axes))
        self._mapped = [index for index, axis in enumerate(axes) if axis is not None]
        self._shares = bool(self._mapped) and len(self._mapped) < len(axes)
        self._over_mapped = self._vmap(self._mapped)
        self._sized: dict[tuple[tuple[int, ...], int], Callable[..., Any]] = {}

    def __call__(self, running: Running) -> Any:
        """Call the function on the leaves of `running`."""
        if self._keys:
            running.leaves = self._with_keys_split(running.leaves)
        if running.good is not None:
            axes = [(index, self._axes[index]) for index in self._mapped]
            running.leaves = with_stand_in(running.leaves, axes, running.good)
        leaves = running.leaves
        handed, over = self._mapped, self._over_mapped
        if self._shares and self._in_mesh(leaves[handed[0]]):
            handed, over = self._all, self._over_all
        if self._chunk_size is not None:
            size = self._size(leaves)
            if size > self._chunk_size:
                return self._in_chunks(running, handed, size, self._chunk_size)
        out = _called(running, over, [leaves[index] for index in handed])
        return out if self._fold is None else self._fold.reduce(out)

    def _with_keys_split(self, leaves: list[Any]) -> list[Any]:
        """The leaves with each key that is to be split turned into one for each example."""
        size = self._size(leaves)
        leaves = leaves.copy()
        for index in self._keys:
            leaves[index] = jax.random.split(leaves[index], size)
        return leaves

    def _size(self, leaves: Sequence[Any]) -> Any:
        """The size of the batch; leaves that do not agree on it are refused."""
        mapped = [index for index in self._mapped if index not in self._keys]
        sizes = [np.shape(leaves[index])[self._axes[index]] for index in mapped]
        given = self._options["axis_size"]
        size = sizes[0] if sizes else given  # a given one may be 3.0, which is no size of a key
        if any(its != size for its in sizes) or given not in (None, size):
            raise ValueError("mapped axes have different sizes")
        return size

    def _in_chunks(
        self, running: Running, handed: Sequence[int], size: Any, chunk_size: int
    ) -> Any:
        """Call the function on one chunk after the other."""
        leaves = running.leaves

        def run(slices: list[Any], count: Any) -> Any:
            its = iter(slices)
            given = [next(its) if index in mapped else leaves[index] for index in handed]
            return _called(running, self._over_chunk(tuple(handed), count), given)

        mapped = frozenset(self._mapped)
        for leaf in (leaves[index] for index in self._mapped):
            if isinstance(leaf, jax.ShapeDtypeStruct) or not can_be_sliced(leaf):
                raise TypeError(f"chunks cannot be taken of a {type(leaf).__name__}")
        chunks = Chunks(
            [self._axes[index] for index in self._mapped],
            size,
            chunk_size,
            peel=self._check.keeps_unmapped,
            remat=self._remat,
        )
        sliced = [leaves[index] for index in self._mapped]
        if self._fold is not None:
            return chunks.fold(run, sliced, self._fold)

        def axes_of(out: Any) -> list[Any]:
            running.refusal = self._check.refusal_of_chunk(out)
            if running.refusal is not None:
                raise OutputRefused
            return self._check.axes(out)

        return chunks.run(run, sliced, axes_of)

    def _over_chunk(self, handed: tuple[int, ...], count: Any) -> Callable[..., Any]:
        """The function batched over so many examples, with the batch in front of what varies."""
        known = self._sized.get((handed, count))
        if known is None:
            in_front = jax.tree.map(lambda _: 0, self._options["out_axes"])
            known = self._vmap(handed, out_axes=in_front, axis_size=count)
            self._sized[handed, count] = known
        return known

    def look(self, leaves: list[Any], size: Any, judge: Judge | None = None) -> Running:
        """Trace the function to see its outputs: `.outputs`, or `.refusal`; leaves may be abstract.

        Raises:
            Exception: What the function raises.
        """
        leaves = leaves.copy()
        for index in self._keys:
            split = functools.partial(jax.random.split, num=size)
            leaves[index] = jax.eval_shape(split, leaves[index])
        abstract = (index for index in self._all if isinstance(leaves[index], jax.ShapeDtypeStruct))
        handed = sorted({*self._mapped, *abstract})
        running = Running(leaves)
        running.size = size
        running.judge = judge or running.judge
        over = self._vmap(handed, look=True, out_axes=0, axis_size=size)
        with contextlib.suppress(OutputRefused):
            _called(running, jax.eval_shape, over, [leaves[index] for index in handed])
        return running

    def refusal(self, leaves: list[Any]) -> Refusal | None:
        """Why JAX refuses what the function returned: traced again, to see what varies."""
        split = Batched(self._fun, self._structure, self._axes, self._check, self._options)
        try:
            return split.look(leaves, self._size(leaves)).refusal
        except Exception:  # noqa: BLE001  a function that cannot be run twice: JAX's error must do
            return None

    def _in_mesh(self, leaf: Any) -> bool:
        """Whether a leaf is mapped over a mesh axis: then JAX must see the shared ones too."""
        spmd = self._options["spmd_axis_name"] is not None
        return spmd or mesh_axes(leaf, self._axes[self._mapped[0]]) is not None

    @functools.cached_property
    def _over_all(self) -> Callable[..., Any]:
        return self._vmap(self._all)

    def _vmap(
        self, handed: Sequence[int], *, look: bool = False, **options: Any
    ) -> Callable[..., Any]:
        """The function of a list of the leaves that JAX is handed, batched."""
        axes = [self._axes[index] for index in handed]
        alike = axes[0] if len(set(axes)) == 1 else axes
        return jax.vmap(
            self._body(handed, look=look), in_axes=(alike,), **(self._options | options)
        )

    def _body(self, handed: Sequence[int], *, look: bool) -> Callable[..., Any]:
        """The function of the leaves that JAX is handed, in the place of the user's."""
        fun, unflatten, check = self._fun, self._structure.unflatten, self._check
        axes = [self._axes[index] for index in handed]
        kept = set(self._mapped).difference(self._keys) if self._keep_axis else set[int]()

        def body(tracers: list[Any]) -> Any:
            running = underway.calls[-1]
            leaves = running.leaves.copy()  # what holds tracers must not outlive the trace
            for index, tracer in zip(handed, tracers, strict=True):
                leaves[index] = _of_one(tracer, self._axes[index]) if index in kept else tracer
            args, kwargs = unflatten(leaves)
            running.axes, running.tracers = axes, tracers
            running.entered, running.returned = True, False
            try:
                out = fun(*args, **kwargs)
            finally:
                running.tracers = running.axes = running.handed = ()
            running.returned = True
            if look or not check.passes(out):
                varies = varying(out)
                running.refusal = check.refusal(out, varies)
                if running.refusal is not None:
                    raise OutputRefused
                if look:
                    running.outputs = check.planned(out, varies, running.size)
                    running.misfits = tuple(running.judge(out))
            return out

        signature = inspect.signature(body)
        functools.update_wrapper(body, fun, updated=())  # JAX names the user's function in errors
        body.__signature__ = signature
        return body


def _called(running: Running, over: Callable[..., Any], *handed: Any) -> Any:
    """Call what is batched while `running` is under way; the last of `handed` is JAX's leaves."""
    running.handed = handed[-1]
    calls = underway.calls
    calls.append(running)
    try:
        return over(*handed)
    finally:
        calls.pop()


def _of_one(example: Any, axis: int) -> Any:
    """An example as a batch of one, on the axis where the whole batch has it."""
    return jnp.expand_dims(example, axis % (jnp.ndim(example) + 1))


class ByLeaf:
    """A function batched for one structure, where what the leaves are decides on their axes.

    Args:
        axes: The axis of each leaf, or a function that gives it.
        batched: Makes the function batched for axes that are resolved.
        sparse: As in `Batched`.
    """

    def __init__(
        self,
        axes: Sequence[Any],
        batched: Callable[[Sequence[Any]], Batched],
        *,
        sparse: bool = False,
    ) -> None:
        self.sparse = sparse
        self.watch: Any = None  # set where annotations speak of the leaves
        self._axes = axes
        self._batched = functools.lru_cache(MOST)(batched)

    def __call__(self, running: Running) -> Any:
        """Call the function on the leaves of `running`."""
        return self._of(running.leaves)(running)

    def look(self, leaves: list[Any], size: Any, judge: Judge | None = None) -> Running:
        """As `Batched.look`."""
        return self._of(leaves).look(leaves, size, judge)

    def refusal(self, leaves: list[Any]) -> Refusal | None:
        """As `Batched.refusal`."""
        return self._of(leaves).refusal(leaves)

    def _of(self, leaves: Sequence[Any]) -> Batched:
        rows = zip(self._axes, leaves, strict=True)
        axes = tuple(resolved(axis, leaf) for axis, leaf in rows)
        if not all(is_axis(axis) or axis is SPLIT for axis in axes):
            raise TypeError("an axis must be an int or None")  # True is 1 to the cache
        return self._batched(axes)
