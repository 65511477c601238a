"""`ptk.diff`: two trees side by side, and everything in which they differ."""

from __future__ import annotations

from typing import Any

from ..faults import Fault
from ..show.errors import raise_faults
from . import leaves, nodes, paths
from .difference import Difference, TreeDiff
from .paths import KeyPath
from .sorts import check_sorts


def diff(a: Any, b: Any, *, names: Any = ("a", "b")) -> TreeDiff:
    """Everything in which two trees differ, by path: structure, static data, shapes and dtypes.

    Told are keys that one of them lacks, types of nodes, numbers of children, static data, types of
    leaves, and the shapes and dtypes of arrays. Values of arrays and numbers are not compared;
    other leaves, such as strings and functions, must be equal. A mismatch does not end the walk:
    it goes on with the children that both nodes have. To `diff` an array is an array, of JAX, of
    NumPy or a `jax.ShapeDtypeStruct`, so that a tree can be held against its `jax.eval_shape`.

    Args:
        a: Any pytree.
        b: Another.
        names: What the text calls the two: a pair of strings.

    Returns:
        The differences in flattening order: iterate for each, with `kind`, `path`, `a` and `b`. It
        is false where there is none. As text, equal differences are told once, and at most ten of
        them.

    Raises:
        SpecError: PTK001, if `names` is no pair of strings; PTK104, if JAX cannot flatten a tree,
            since the keys of a dict in it do not sort.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> old = {"w": jnp.ones((3, 4)), "b": jnp.ones(3)}
        >>> new = {"w": jnp.ones((3, 4), jnp.bfloat16), "scale": jnp.ones(3)}
        >>> found = ptk.diff(old, new, names=("old", "new"))
        >>> [(one.kind, one.path) for one in found]
        [('keys', "['b']"), ('keys', "['scale']"), ('dtype', "['w']")]
        >>> print(found)
        3 differences between old and new
        <BLANKLINE>
          keys    ['b']   only in old: f32[3]
          keys    ['scale']   only in new: f32[3]
          dtype   ['w']   old has f32[3,4]; new has bf16[3,4]
    """
    pair = isinstance(names, tuple | list) and [type(name) for name in names] == [str, str]
    if not pair:
        fact = "must be two strings"
        raise_faults([Fault("PTK001", "names", "", "", "", "", fact=fact)], doing="diff")
    raise_faults([*check_sorts(a, names[0]), *check_sorts(b, names[1])], doing="diff")
    return TreeDiff(tuple(differences(a, b)), (names[0], names[1]))


def differences(a: Any, b: Any) -> list[Difference]:
    """Everything in which two trees differ. Without recursion: trees may be deep."""
    found: list[Difference] = []
    pending: list[tuple[KeyPath, Any, Any]] = [((), a, b)]
    while pending:
        path, one, other = pending.pop()
        if one is other:
            continue
        one_is_leaf, other_is_leaf = paths.is_leaf(one), paths.is_leaf(other)
        if one_is_leaf and other_is_leaf:
            found += leaves.leaf_differences(path, one, other)
            continue
        if one_is_leaf or other_is_leaf:
            found += nodes.node_differences(path, one, other)
            continue
        shared = nodes.matched_children(one, other)
        if shared is None:
            found += nodes.node_differences(path, one, other)
            shared = nodes.shared_children(one, other)
        pending.extend(((*path, key), child, its) for key, child, its in reversed(shared))
    return found
