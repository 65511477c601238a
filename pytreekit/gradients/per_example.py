"""`ptk.per_example_grad` and its kin: the gradient of each example, or only its norm."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from . import argnums as numbers
from .choice import AUTO, MATERIALIZE, check_choice
from .function import PerExample
from .loss import GRADIENTS, NORMS, Example, Loss
from .mapped_loss import EXAMPLES, MappedLoss, wrapped
from .norms import root, total

P = ParamSpec("P")


def per_example_grad(
    loss: Callable[P, Any],
    argnums: Any = 0,
    *,
    in_axes: Any = EXAMPLES,
    has_aux: bool = False,
    chunk_size: int | None = None,
    keep_batch_dim: bool = False,
    where: Any = None,
) -> PerExample[P]:
    """The gradient of a loss for each example of a batch, all of them side by side.

    Args:
        loss: A function of one example that returns a real scalar.
        argnums: What to differentiate: the position of an argument, the name of a parameter, or a
            tuple of these, as which the gradients are returned then.
        in_axes: The axis to map each argument over, in any form that `ptk.vmap` takes; what is
            differentiated must be shared. By default it is, and all else is mapped over axis 0.
        has_aux: Whether the loss returns a pair of the loss and something else, which is then
            returned for each example, after the gradients.
        chunk_size: How many examples to differentiate at once, None for all of them.
        keep_batch_dim: Whether the loss gets each example as a batch of one, with the batch axis
            where the whole batch has it.
        where: Which leaves to differentiate: a function `leaf -> bool`, or a pytree prefix of what
            is differentiated, of bools and such functions. By default all that `jax.grad` takes.

    Returns:
        A function that is called as the loss is, with batched arguments, and returns gradients
        like what is differentiated, with the batch in front of each leaf. Integers, keys, functions
        and whatever else is no float are left alone: their gradient is None. It has `.plan(...)`
        and `.check(...)`, as what `ptk.vmap` returns.

    Raises:
        SpecError: PTK001, PTK105, PTK107 or PTK110 for a wrong option. When called: PTK401 to
            PTK403, and what `ptk.vmap` raises.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> def loss(w, x, y):
        ...     return 0.5 * (w @ x - y) ** 2
        >>> xs, ys = jnp.array([[3.0, 4.0], [0.0, 2.0]]), jnp.array([-1.0, -1.0])
        >>> ptk.per_example_grad(loss)(jnp.zeros(2), xs, ys).tolist()
        [[3.0, 4.0], [0.0, 2.0]]

    After `jax.vmap(jax.grad(loss), (None, 0, 0))`, which it is.
    """
    mapped = _mapped(loss, argnums, in_axes, has_aux, keep_batch_dim, where, "per_example_grad")
    return PerExample(
        wrapped(mapped, chunk_size), functools.partial(_gradient, mapped.loss), chunk_size
    )


def per_example_value_and_grad(
    loss: Callable[P, Any],
    argnums: Any = 0,
    *,
    in_axes: Any = EXAMPLES,
    has_aux: bool = False,
    chunk_size: int | None = None,
    keep_batch_dim: bool = False,
    where: Any = None,
) -> PerExample[P]:
    """The loss of each example of a batch and its gradient.

    Args:
        loss: As for `ptk.per_example_grad`, as are all that follow.
        argnums: What to differentiate.
        in_axes: The axis to map each argument over.
        has_aux: Whether the loss returns a pair of the loss and something else.
        chunk_size: How many examples to differentiate at once.
        keep_batch_dim: Whether the loss gets each example as a batch of one.
        where: Which leaves to differentiate.

    Returns:
        A function as `ptk.per_example_grad` returns it, of `(losses, gradients)`, or of
        `((losses, aux), gradients)`.

    Raises:
        SpecError: As from `ptk.per_example_grad`.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> square = ptk.per_example_value_and_grad(lambda w, x: (w * x) ** 2)
        >>> losses, gradients = square(2.0, jnp.array([1.0, 3.0]))
        >>> losses.tolist(), gradients.tolist()
        ([4.0, 36.0], [4.0, 36.0])

    After `jax.vmap(jax.value_and_grad(loss), ...)`.
    """
    doing = "per_example_value_and_grad"
    mapped = _mapped(loss, argnums, in_axes, has_aux, keep_batch_dim, where, doing)
    finish = functools.partial(_value_and_gradient, mapped.loss)
    return PerExample(wrapped(mapped, chunk_size), finish, chunk_size)


def per_example_norms(
    loss: Callable[P, Any],
    argnums: Any = 0,
    *,
    in_axes: Any = EXAMPLES,
    has_aux: bool = False,
    chunk_size: int | None = None,
    keep_batch_dim: bool = False,
    where: Any = None,
    per_leaf: bool = False,
    method: str = AUTO,
) -> PerExample[P]:
    """The norm of the gradient of each example: how much it would move the parameters.

    Where a parameter is multiplied, looked up by rows or convolved with, no gradient of an example
    is formed: its norm comes from what goes in there and what comes back. With `chunk_size`, no
    more gradients than that are in memory at a time.

    Args:
        loss: As for `ptk.per_example_grad`, as are all that follow.
        argnums: What to differentiate.
        in_axes: The axis to map each argument over.
        has_aux: Whether the loss returns a pair of the loss and something else.
        chunk_size: How many examples to differentiate at once.
        keep_batch_dim: Whether the loss gets each example as a batch of one.
        where: Which leaves to differentiate.
        per_leaf: Whether to return the norm of each leaf of the gradient, in a tree like that,
            rather than of all together.
        method: `"auto"`, or `"materialize"` to form all gradients.

    Returns:
        A function as `ptk.per_example_grad` returns it, of the norms, `float[batch]`, accumulated
        in at least 32 bits; with `has_aux` of `(norms, aux)`.

    Raises:
        SpecError: As from `ptk.per_example_grad`.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> norms = ptk.per_example_norms(lambda w, x: w @ x)
        >>> norms(jnp.ones(2), jnp.array([[3.0, 4.0], [0.0, 2.0]])).tolist()
        [5.0, 2.0]

    As a measure of influence after Paul, Ganguli and Dziugaite, Deep Learning on a Data Diet
    (NeurIPS 2021). Without gradients
    after Goodfellow, Efficient Per-Example Gradient Computations (2015).
    """
    mapped = _mapped(loss, argnums, in_axes, has_aux, keep_batch_dim, where, "per_example_norms")
    finish = functools.partial(_norms_of_leaves if per_leaf else _norm, mapped.loss)
    wrong = check_choice("method", method, (AUTO, MATERIALIZE))
    want = NORMS if method == AUTO else GRADIENTS
    return PerExample(wrapped(mapped, chunk_size, wrong), finish, chunk_size, want)


def _mapped(
    fun: Callable[..., Any],
    argnums: Any,
    in_axes: Any,
    has_aux: bool,  # noqa: FBT001
    keep_batch_dim: bool,  # noqa: FBT001
    where: Any,
    doing: str,
) -> MappedLoss:
    loss = Loss(fun, numbers.read(argnums), has_aux=has_aux, where=where, doing=doing)
    return MappedLoss(loss, in_axes, keep_batch_dim)


def _gradient(loss: Loss, example: Example) -> Any:
    gradient = loss.gradient_of(example.floats.gradient(example.gradients))
    return (gradient, example.aux) if loss.has_aux else gradient


def _value_and_gradient(loss: Loss, example: Example) -> Any:
    gradient = loss.gradient_of(example.floats.gradient(example.gradients))
    return ((example.value, example.aux) if loss.has_aux else example.value), gradient


def _norm(loss: Loss, example: Example) -> Any:
    whole = root(total(example.squares()))
    return (whole, example.aux) if loss.has_aux else whole


def _norms_of_leaves(loss: Loss, example: Example) -> Any:
    norms = example.floats.gradient([root(square) for square in example.squares()])
    tree = loss.gradient_of(norms)
    return (tree, example.aux) if loss.has_aux else tree
