"""Mean and spread of gradients, of a batch, and of two batches or many devices together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .norms import accumulator


class Moments(NamedTuple):
    """What is known of many gradients, leaf for leaf. Zeros are what is known of none.

    Attributes:
        examples: The number of examples, `i32[]`.
        mean: The mean gradient.
        spread: The sum of the squared distances from the mean.
        direction: The mean of the gradients, each divided by its norm.
    """

    examples: Array
    mean: Any
    spread: Any
    direction: Any


def of_batch(gradients: Sequence[Array], norms: Array) -> Moments:
    """The moments of gradients with the batch in front, and with these norms."""
    count = norms.shape[0]
    wide = [leaf.astype(accumulator(leaf.dtype)) for leaf in gradients]
    mean = [_mean(leaf, count) for leaf in wide]
    spread = [_squares(leaf - its).sum(axis=0) for leaf, its in zip(wide, mean, strict=True)]
    some = jnp.where(norms > 0, norms, jnp.ones_like(norms))
    direction = [_mean(leaf / _along(some, leaf), count) for leaf in wide]
    return Moments(jnp.int32(count), mean, spread, direction)


def merged(one: Moments, other: Moments) -> Moments:
    """The moments of all gradients of two batches, as if they had been one.

    After Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample
    Variances (1979).
    """
    count = one.examples + other.examples
    share = other.examples / jnp.maximum(count, 1)

    def between(here: Array, there: Array) -> Array:
        return here + (there - here) * share.astype(here.dtype)

    def spread(here: Array, there: Array, mean: Array, its: Array) -> Array:
        weight = (share * one.examples).astype(here.dtype)
        return here + there + _squares(its - mean) * weight

    return Moments(
        count,
        jax.tree.map(between, one.mean, other.mean),
        jax.tree.map(spread, one.spread, other.spread, one.mean, other.mean),
        jax.tree.map(between, one.direction, other.direction),
    )


def over_devices(moments: Moments, axis_name: Any) -> Moments:
    """The moments of the gradients of all devices, inside `jax.shard_map`."""
    count = jax.lax.psum(moments.examples, axis_name)
    share = moments.examples / jnp.maximum(count, 1)

    def whole(leaf: Array) -> Array:
        return jax.lax.psum(leaf * share.astype(leaf.dtype), axis_name)

    mean = jax.tree.map(whole, moments.mean)

    def spread(here: Array, its: Array, of_all: Array) -> Array:
        apart = _squares(its - of_all) * moments.examples.astype(here.dtype)
        return jax.lax.psum(here + apart, axis_name)

    return Moments(
        count,
        mean,
        jax.tree.map(spread, moments.spread, moments.mean, mean),
        jax.tree.map(whole, moments.direction),
    )


def _mean(leaf: Array, count: int) -> Array:
    return jnp.sum(leaf, axis=0) / max(count, 1)


def _along(of_each: Array, leaf: Array) -> Array:
    """One number for each example, to go with an array of all of them."""
    return jnp.expand_dims(of_each, range(1, leaf.ndim)).astype(leaf.dtype)


def _squares(leaf: Array) -> Array:
    if jnp.iscomplexobj(leaf):
        return jnp.square(leaf.real) + jnp.square(leaf.imag)
    return jnp.square(leaf)
