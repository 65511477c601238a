"""`ptk.partition` and `ptk.axes_like`: what a predicate or a mask says of each leaf of a tree."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..faults import Fault
from ..show import values
from ..show.errors import raise_faults
from ..trees.leaves import is_array, type_told
from .bind import Binding


def partition(tree: Any, where: Any) -> tuple[Any, Any]:
    """Split a tree in two: the leaves that are chosen, and the others, with None for what is not.

    `ptk.combine` puts the two together again.

    Args:
        tree: Any pytree.
        where: A function `leaf -> bool`; or a mask, a pytree prefix of `tree` of bools or such
            functions, in which a dict may have the key `...` for all that it does not name.

    Returns:
        Two trees of the structure of `tree`: the first has the leaves for which `where` is true,
        the second all others.

    Raises:
        SpecError: PTK201 to PTK204, if the mask does not fit the tree; PTK001, if it says anything
            but a bool of a leaf; PTK104, if JAX cannot flatten one of them.

    Examples:
        >>> import pytreekit as ptk
        >>> model = {"encoder": {"w": 1.0, "b": 2.0}, "head": 3.0}
        >>> ptk.partition(model, {"encoder": False, ...: True})
        ({'encoder': {'b': None, 'w': None}, 'head': 3.0},
         {'encoder': {'b': 2.0, 'w': 1.0}, 'head': None})
        >>> trained, frozen = ptk.partition(model, lambda leaf: leaf > 1.0)
        >>> ptk.combine(trained, frozen) == model
        True
    """
    choices = chosen(tree, where, "partition")
    leaves, structure = jax.tree.flatten(tree)
    pairs = list(zip(leaves, choices, strict=True))
    return (
        structure.unflatten([leaf if here else None for leaf, here in pairs]),
        structure.unflatten([None if here else leaf for leaf, here in pairs]),
    )


def axes_like(tree: Any, axis: Any, where: Any = is_array) -> Any:
    """A tree of axes with the full structure of a tree: `axis` for chosen leaves, else None.

    An `in_axes` for a tree that has leaves which cannot be mapped, such as functions.

    Args:
        tree: Any pytree.
        axis: The axis of the leaves that are chosen: an int, or None.
        where: Which are chosen: a function `leaf -> bool` or a mask, as for `ptk.partition`. By
            default every array is: of JAX, keys included, of NumPy, or a `jax.ShapeDtypeStruct`.

    Returns:
        A tree of the structure of `tree`.

    Raises:
        SpecError: PTK107, if `axis` is neither an int nor None; and all that `ptk.partition`
            raises.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> layers = {"w": jnp.ones((4, 3, 2)), "act": jnp.tanh}
        >>> ptk.axes_like(layers, 0)
        {'act': None, 'w': 0}
        >>> ptk.vmap(lambda layer, x: layer["act"](layer["w"] @ x),
        ...          in_axes=(ptk.axes_like(layers, 0), None))(layers, jnp.ones(2)).shape
        (4, 3)
    """
    if axis is not None and type(axis) is not int:
        told = values.spec(axis)
        raise_faults([Fault("PTK107", "", "", "axis", "", told)], doing="axes_like")
    choices = chosen(tree, where, "axes_like")
    return jax.tree.structure(tree).unflatten([axis if here else None for here in choices])


def chosen(tree: Any, where: Any, doing: str) -> list[bool]:
    """What `where` says of each leaf of a tree, in flattening order.

    Raises:
        SpecError: If it does not fit the tree, or says anything but a bool.
    """
    binding = Binding(where, tree, "tree", "where", fill=False)
    raise_faults(binding.faults, doing=doing, where="where")
    pairs = zip(binding.values(), jax.tree.leaves(tree), strict=True)
    said = [value(leaf) if callable(value) else value for value, leaf in pairs]
    if not all(isinstance(choice, bool | np.bool_) for choice in said):
        raise_faults(_no_choices(binding, said), doing=doing, where="where")
    return [bool(choice) for choice in said]


def _no_choices(binding: Binding, said: list[Any]) -> list[Fault]:
    """The faults of what was said of a leaf and is no bool."""
    faults = []
    for bound, choice in zip(binding, said, strict=True):
        if not isinstance(choice, bool | np.bool_):
            gave = "the function gave" if callable(bound.value) else "this is"
            fact = f"a choice must be a bool, {gave} a {type(choice).__name__}"
            told = type_told(bound.leaf), values.spec(bound.value)
            faults.append(binding.fault("PTK001", bound, *told, fact=fact))
    return faults
