"""How a clipped sum is computed: all gradients side by side, or their norms first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..batching.chunks import Fold
from .clip_norms import ClipNorms
from .loss import GRADIENTS, NORMS, TRACES, Example
from .mapped_loss import MappedLoss
from .norms import accumulator, root, total_at_hand
from .second_pass import if_any
from .weights import kept, masked, weight, weighted_sum


class Sums(NamedTuple):
    """What comes of a batch.

    Attributes:
        gradients: For each differentiated leaf, the sum of what was clipped.
        examples: How many examples are real.
        norms: The norm of each group of each example before it is clipped, `float[batch,groups]`.
        weights: What it was multiplied with.
        values: The losses.
        aux: What else the loss returned.
    """

    gradients: list[Array]
    examples: Array
    norms: Array
    weights: Array
    values: Array
    aux: Any


@dataclasses.dataclass(frozen=True)
class Clipping:
    """How gradients are clipped.

    Attributes:
        mapped: The loss.
        clip_norms: What the norms are clipped to.
        rescale: Whether the clipped gradients are divided by that.
        nan_safe: Whether an example whose gradient is not finite counts for nothing.
    """

    mapped: MappedLoss
    clip_norms: ClipNorms
    rescale: bool
    nan_safe: bool

    def materialize(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        groups: Sequence[int],
        chunk_size: int | None,
        *,
        ghost: bool = False,
    ) -> Sums:
        """Gradients of all examples, or of one chunk after the other, clipped and added up.

        Args:
            args: The positional arguments of the call.
            kwargs: Its keywords.
            groups: The group of each leaf.
            chunk_size: How many examples are differentiated at once.
            ghost: Whether gradients that need not be formed are not.
        """

        def finish(example: Example) -> tuple[Any, ...]:
            norms = self._norms(example, groups)
            return example.gradients, norms, example.value, example.aux, example.real

        def reduce(out: tuple[Any, ...]) -> tuple[Any, Any]:
            gradients, norms, value, aux, real = out
            keep = kept(norms, real, nan_safe=self.nan_safe)
            weights = self._weights(norms, keep)
            rows = zip(gradients, groups, strict=True)
            sums = [weighted_sum(weights[:, group], leaf, keep) for leaf, group in rows]
            return (sums, _count(value, real)), _told(norms, weights, value, aux, real)

        def merge(one: Any, other: Any) -> Any:
            return jax.tree.map(jnp.add, one, other)

        fold = Fold(reduce, merge)
        over = self.mapped.vmapped(
            finish, chunk_size, count=len(args), fold=fold, want=TRACES if ghost else GRADIENTS
        )
        (sums, count), told = over(*args, **kwargs)
        return Sums(sums, count, *told)

    def chunked(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        groups: Sequence[int],
        chunk_size: int | None,
        *,
        ghost: bool = False,
    ) -> Sums:
        """The norms chunk by chunk, then one gradient of the losses, each times its weight.

        The arguments are as for `materialize`.
        """

        def finish(example: Example) -> tuple[Any, ...]:
            norms = self._norms(example, groups)
            return norms, example.value, example.aux, example.real

        want = NORMS if ghost else GRADIENTS
        over = self.mapped.vmapped(finish, chunk_size, count=len(args), want=want)
        norms, value, aux, real = over(*args, **kwargs)
        keep = kept(norms, real, nan_safe=self.nan_safe)
        weights = self._weights(norms, keep)

        def reweighted() -> list[Array]:
            return self._reweighted(args, kwargs, weights[:, 0], keep)

        gradients = if_any(keep, reweighted) if ghost and keep is not None else reweighted()
        return Sums(gradients, _count(value, real), *_told(norms, weights, value, aux, real))

    def _reweighted(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        weights: Array,
        keep: Array | None,
    ) -> list[Array]:
        loss, losses = self.mapped.loss, self.mapped.values(count=len(args))
        floats = loss.floats(args, kwargs)

        def whole(leaves: list[Any]) -> Array:
            call = loss.replaced(args, kwargs, floats.with_leaves(leaves))
            values, _ = losses.called(*call, good=keep)
            return jnp.sum(values.astype(weights.dtype) * weights)

        gradients = jax.grad(whole)(floats.leaves)
        gradients = [leaf.astype(accumulator(leaf.dtype)) for leaf in gradients]
        if keep is None:
            return gradients
        any_good = jnp.any(keep)  # else a bad example stood in for all of them
        return [jnp.where(any_good, leaf, jnp.zeros_like(leaf)) for leaf in gradients]

    def _norms(self, example: Example, groups: Sequence[int]) -> Array:
        """The norm of each group of the gradient of an example."""
        parts: list[list[Array]] = [[] for _ in self.clip_norms.groups]
        for square, group in zip(example.squares(), groups, strict=True):
            parts[group].append(square)
        squares = [total_at_hand(its) for its in parts]
        wide = jnp.result_type(*squares)
        return root(jnp.stack([square.astype(wide) for square in squares]))

    def _weights(self, norms: Array, keep: Array | None) -> Array:
        bounds = [jnp.asarray(group.bound).astype(norms.dtype) for group in self.clip_norms.groups]
        weights = weight(norms, jnp.stack(bounds), rescale=self.rescale)
        return weights if keep is None else masked(weights, keep[:, None])


def _count(values: Array, real: Array | None) -> Array:
    """How many examples are real."""
    if real is None:
        return jnp.full((), values.shape[0], jnp.float32)
    return jnp.sum(real, dtype=jnp.float32)


def _told(
    norms: Array, weights: Array, values: Array, aux: Any, real: Array | None
) -> tuple[Any, ...]:
    """What is told of each example. One that is not real has norm and loss 0."""
    its_norms = norms if real is None else masked(norms, real[:, None])
    return its_norms, weights, masked(values, real), aux
