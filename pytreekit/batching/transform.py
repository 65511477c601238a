"""Apply: the function batched by `jax.vmap`, for one structure of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .outputs import OutputCheck, Refusal
from .shardings import mesh_axes
from .underway import Running, underway
from .varying import varying


class OutputRefused(Exception):  # noqa: N818  it never leaves this package
    """What the function returned does not fit out_axes; `Running.refusal` says why."""


class Batched:
    """A function batched for one structure of arguments.

    Args:
        fun: The function.
        structure: The structure of `(args, kwargs)`.
        axes: The axis of each leaf, None for a shared one.
        check: The check of what the function returns.
        options: The further options of `jax.vmap`.
        sparse: Whether the leaves are to be those of `is_batched_sparse`.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        structure: Any,
        axes: Sequence[int | None],
        check: OutputCheck,
        options: dict[str, Any],
        *,
        sparse: bool = False,
    ) -> None:
        self.sparse = sparse
        self._fun = fun
        self._structure = structure
        self._axes = axes
        self._check = check
        self._options = options
        self._all = range(len(axes))
        self._mapped = [index for index, axis in enumerate(axes) if axis is not None]
        self._shares = bool(self._mapped) and len(self._mapped) < len(axes)
        self._over_mapped = self._vmap(self._mapped)

    def __call__(self, running: Running) -> Any:
        """Call the function on the leaves of `running`."""
        leaves = running.leaves
        handed, over = self._mapped, self._over_mapped
        if self._shares and self._in_mesh(leaves[handed[0]]):
            handed, over = self._all, self._over_all
        running.handed = [leaves[index] for index in handed]
        calls = underway.calls
        calls.append(running)
        try:
            return over(running.handed)
        finally:
            calls.pop()

    def refusal(self, leaves: list[Any]) -> Refusal | None:
        """Why JAX refuses what the function returned: traced again, to see what varies."""
        running = Running(leaves)
        over = self._vmap(self._mapped, look=True, out_axes=0)
        running.handed = [running.leaves[index] for index in self._mapped]
        underway.calls.append(running)
        try:
            jax.eval_shape(over, running.handed)
        except OutputRefused:
            return running.refusal
        except Exception:  # noqa: BLE001  a function that cannot be run twice: JAX's error must do
            return None
        finally:
            underway.calls.pop()
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

        def body(tracers: list[Any]) -> Any:
            running = underway.calls[-1]
            leaves = running.leaves.copy()  # what holds tracers must not outlive the trace
            for index, tracer in zip(handed, tracers, strict=True):
                leaves[index] = tracer
            args, kwargs = unflatten(leaves)
            running.axes, running.tracers = axes, tracers
            running.entered = True
            try:
                out = fun(*args, **kwargs)
            finally:
                running.tracers = running.axes = running.handed = ()
            running.returned = True
            if look or not check.passes(out):
                running.refusal = check.refusal(out, varying(out))
                if running.refusal is not None:
                    raise OutputRefused
            return out

        signature = inspect.signature(body)
        functools.update_wrapper(body, fun, updated=())  # JAX names the user's function in errors
        body.__signature__ = signature
        return body
