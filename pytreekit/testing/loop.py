"""`assert_matches_loop`: a mapped function beside the loop that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..batching.forms import SPLIT
from ..batching.plan import VmapPlan
from ..batching.vmap import vmap
from ..compat import is_batched_sparse
from ..faults import Fault
from ..show import assertions
from ..show.errors import raise_faults
from ..specs import by_name
from ..trees import paths
from ..trees.diff import differences
from ..trees.difference import TreeDiff, under
from .values import Tolerance, check_values, gaps, pairs

BOTH = ("vmap", "the loop")


def assert_matches_loop(
    fun: Callable[..., Any],
    in_axes: Any,
    *args: Any,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    axis_size: int | None = None,
    **kwargs: Any,
) -> None:
    """Assert that `ptk.vmap(fun, in_axes)` computes what a Python loop over the examples computes.

    The loop calls `fun` without any transformation, with each mapped leaf at index i of its axis,
    and with key i of `jax.random.split(key, N)` for a key under `ptk.SPLIT`. So it finds functions
    that keep state, such as NumPy's random numbers; and those that get the whole batch by a rule of
    their own, `jax.custom_batching.custom_vmap` or the `vmap_method` of `jax.pure_callback`, and
    make something else of it.

    Args:
        fun: A function of one example. Without collectives, since a loop has no axis name.
        in_axes: As `ptk.vmap` takes it, in any form.
        args: The arguments of the call. Of a batch without examples there is nothing to compare.
        rtol: By how much inexact values may differ, relative to those of the loop. Half precision
            needs more than the default.
        atol: By how much they may differ in any case. Integers, booleans and keys must be equal;
            NaN equals NaN.
        axis_size: The number of examples, where no argument tells it.
        kwargs: The keywords of the call; those named as a parameter above are not passed on.

    Raises:
        AssertionError: If structure, shapes, dtypes or values differ. It names the first example
            and the first leaf in it, and by how much that differs.
        SpecError: If the arguments do not fit in_axes; PTK001, if they are abstract or traced.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> from pytreekit.testing import assert_matches_loop
        >>> def scale(x, key):
        ...     return {"y": x * jax.random.normal(key)}
        >>> assert_matches_loop(scale, (0, ptk.SPLIT), jnp.ones((4, 3)), jax.random.key(0))
        >>> counter = iter(range(100))
        >>> try:
        ...     assert_matches_loop(lambda x: {"y": x + next(counter)}, 0, jnp.zeros((4, 3)))
        ... except AssertionError as error:
        ...     print(error)
        vmap(<lambda>) differs from a loop over its examples, first at example 0
        <BLANKLINE>
          out['y']   f32[3]   3 of 3 values differ, by 1 at most
              vmap has 0, the loop has 1 at [0]
    """
    __tracebackhide__ = True
    mapped = vmap(fun, in_axes, axis_size=axis_size)
    plan = mapped.plan(*args, **kwargs)
    raise_faults(_check_arguments(fun, args, kwargs), doing="assert_matches_loop")
    together = _arrays(mapped(*args, **kwargs))
    head = f"vmap({plan.function}) differs from a loop over its examples, first at example"
    for number, (its_args, its_kwargs) in enumerate(_examples(plan, args, kwargs)):
        looped = _arrays(fun(*its_args, **its_kwargs))
        one = jax.tree.map(lambda leaf, number=number: leaf[number], together)
        _compare(f"{head} {number}", one, looped, Tolerance(rtol, atol))


def _check_arguments(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Fault]:
    named = by_name.named(fun, args, kwargs).items()
    return check_values(
        (name, path, leaf) for name, tree in named for path, leaf in paths.leaves_with_paths(tree)
    )


def _compare(head: str, one: Any, looped: Any, tolerance: Tolerance) -> None:
    """Raise if what came out for one example differs: all of the structure, or the first value."""
    __tracebackhide__ = True
    found = TreeDiff(tuple(under("out", differences(one, looped))), BOTH)
    if found:
        raise AssertionError(assertions.text(head, str(found)))
    for gap in gaps(pairs(one, looped), tolerance, "out"):
        raise AssertionError(assertions.gaps(head, [gap], BOTH))


def _examples(
    plan: VmapPlan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of each example, by the plan."""
    leaves, structure = jax.tree.flatten((args, dict(kwargs)), is_leaf=is_batched_sparse)
    size = int(plan.axis_size)
    parts = [
        _parts(leaf, planned.axis, size) for leaf, planned in zip(leaves, plan.leaves, strict=True)
    ]
    for number in range(size):
        yield structure.unflatten([part(number) for part in parts])


def _parts(leaf: Any, axis: Any, size: int) -> Callable[[int], Any]:
    """What each example gets of a leaf."""
    if axis is None:
        return lambda number: leaf
    if axis is SPLIT:
        leaf, axis = jax.random.split(leaf, size), 0
    whole = leaf if is_batched_sparse(leaf) else _array(leaf)
    return lambda number: whole[(*(slice(None),) * axis, number)]


def _arrays(out: Any) -> Any:
    """An output with arrays for leaves, as `jax.vmap` makes them: a function may return numbers."""
    return jax.tree.map(_array, out, is_leaf=is_batched_sparse)


def _array(leaf: Any) -> jax.Array:
    if is_batched_sparse(leaf):
        return leaf.todense()
    return leaf[...] if isinstance(leaf, jax.Ref) else jnp.asarray(leaf)
