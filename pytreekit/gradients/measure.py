"""`ptk.gradient_statistics`: the statistics of the gradients of a batch, taken in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from jax import Array

from ..batching.chunks import Fold
from . import argnums as numbers
from .function import PerExample
from .loss import Example, Loss
from .mapped_loss import EXAMPLES, MappedLoss, wrapped
from .moments import merged, of_batch
from .norms import root, total
from .statistics import GradientStatistics

P = ParamSpec("P")


class Measured(PerExample[P]):
    """A function that takes the statistics of the gradients of examples.

    It is called as the loss is, with batched arguments.
    """

    def __init__(self, mapped: MappedLoss, chunk_size: int | None) -> None:
        super().__init__(mapped, _measured, chunk_size)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The statistics; with `has_aux`, and what else the loss returns.

        Raises:
            SpecError: If the call has a fault, before the loss is entered; or if the loss returns
                no scalar.
        """
        __tracebackhide__ = True
        mapped = self._mapped.resolved(args, kwargs)
        mapped.checked(args, kwargs)
        args, kwargs = mapped.varying(args, kwargs)
        fold = Fold(_reduced, merged)
        over = mapped.vmapped(_measured, self._chunk_size, count=len(args), fold=fold)
        moments, (norms, leaf_norms, aux) = over(*args, **kwargs)
        loss = mapped.loss
        floats = loss.floats(args, kwargs)

        def tree(leaves: list[Array]) -> Any:
            return loss.gradient_of(floats.gradient(leaves))

        parts = (tree(moments.mean), tree(moments.spread), tree(moments.direction))
        found = GradientStatistics(moments.examples, *parts, norms, tree(leaf_norms))
        return (found, aux) if loss.has_aux else found

    def __reduce__(self) -> Any:
        return type(self), (self._mapped, self._chunk_size)


def _measured(example: Example) -> Any:
    squares = example.squares()
    norms = [root(square) for square in squares]
    return example.gradients, root(total(squares)), norms, example.aux


def _reduced(out: Any) -> Any:
    gradients, norms, leaf_norms, aux = out
    return of_batch(gradients, norms), (norms, leaf_norms, aux)


def gradient_statistics(
    loss: Callable[P, Any],
    argnums: Any = 0,
    *,
    in_axes: Any = EXAMPLES,
    has_aux: bool = False,
    chunk_size: int | None = None,
    keep_batch_dim: bool = False,
    where: Any = None,
) -> Measured[P]:
    """What the gradients of the examples of a batch say: their mean, their noise, their norms.

    With `chunk_size`, no more gradients than that are in memory at a time, in one pass. Statistics
    of several batches are merged, and of several devices, as if all had been one batch.

    Args:
        loss: As for `ptk.per_example_grad`, as are all that follow.
        argnums: What to differentiate.
        in_axes: The axis to map each argument over.
        has_aux: Whether the loss returns a pair of the loss and something else.
        chunk_size: How many examples to differentiate at once.
        keep_batch_dim: Whether the loss gets each example as a batch of one.
        where: Which leaves to differentiate.

    Returns:
        A function as `ptk.per_example_grad` returns it, of a `GradientStatistics`; with `has_aux`
        of `(statistics, aux)`.

    Raises:
        SpecError: As from `ptk.per_example_grad`.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> statistics = ptk.gradient_statistics(lambda w, x: w @ x, chunk_size=2)
        >>> found = statistics(jnp.ones(2), jnp.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]))
        >>> found.norms.tolist(), round(float(found.noise_scale), 3)
        ([5.0, 2.0, 0.0], 2.625)

    The noise scale after McCandlish et al., An Empirical Model of Large-Batch Training (2018).
    """
    written = numbers.read(argnums)
    of_one = Loss(loss, written, has_aux=has_aux, where=where, doing="gradient_statistics")
    mapped = MappedLoss(of_one, in_axes, keep_batch_dim)
    return Measured(wrapped(mapped, chunk_size), chunk_size)
