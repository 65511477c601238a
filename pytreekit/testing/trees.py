"""`assert_trees_match`: two trees that are to be alike in everything."""

from __future__ import annotations

from typing import Any

from ..show import assertions
from ..show import values as text
from ..show.errors import raise_faults
from ..trees.diff import diff
from .values import Tolerance, check_values, gaps, pairs


def assert_trees_match(
    a: Any, b: Any, *, rtol: float = 1e-6, atol: float = 0.0, names: Any = ("a", "b")
) -> None:
    """Assert that two trees match: structure, static data, shapes, dtypes, and then the values.

    Args:
        a: Any pytree.
        b: Another. A `jax.ShapeDtypeStruct`, in either, matches any values.
        rtol: By how much inexact values may differ, relative to those of `b`.
        atol: By how much they may differ in any case. Integers, booleans and keys must be equal;
            NaN equals NaN.
        names: What the text calls the two: a pair of strings.

    Raises:
        AssertionError: If they do not match: with every difference that `ptk.diff` finds, or if
            there is none, with every leaf whose values differ.
        SpecError: PTK001, if a leaf has no values, since it is traced; and what `ptk.diff` raises.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from pytreekit.testing import assert_trees_match
        >>> tree = {"w": jnp.ones((2, 3)), "b": jnp.zeros(3)}
        >>> assert_trees_match(tree, {"w": jnp.ones((2, 3)), "b": jnp.zeros(3)})
        >>> assert_trees_match(tree, jax.eval_shape(lambda: tree))
        >>> try:
        ...     assert_trees_match(tree, {"w": jnp.ones((2, 3)), "b": jnp.zeros(3).at[1].set(0.5)})
        ... except AssertionError as error:
        ...     print(error)
        the values of a and b differ in 1 leaf
        <BLANKLINE>
          ['b']   f32[3]   1 of 3 values differs, by 0.5
              a has 0, b has 0.5 at [1]
    """
    __tracebackhide__ = True
    found = diff(a, b, names=names)
    if found:
        raise AssertionError(str(found))
    one, other = names
    both = pairs(a, b)
    rows = [(one, pair.path, pair.one) for pair in both]
    rows += [(other, pair.path, pair.other) for pair in both]
    raise_faults(check_values(rows), doing="assert_trees_match")
    told = list(gaps(both, Tolerance(rtol, atol)))
    if told:
        number = text.count(len(told), "leaf", "leaves")
        fact = f"the values of {one} and {other} differ in {number}"
        raise AssertionError(assertions.gaps(fact, told, (one, other)))
