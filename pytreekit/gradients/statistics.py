"""What the gradients of examples say: their mean, their noise, and how large batches should be."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ..show import picture, table, values
from ..trees import paths
from .moments import Moments, merged, over_devices
from .norms import norm, square_sum, total

MOST_BARS = 40
"""Leaves that a picture has a bar for."""


class LeafStatistics(NamedTuple):
    """What the gradients of all examples say of one leaf.

    Attributes:
        path: The path of the leaf, as `jax.tree_util.keystr` prints it.
        found: Its dtype and shape, `"f32[32,8]"`.
        mean: The norm of the mean gradient.
        noise: The root of the trace of the covariance: how far a gradient is from that, typically.
        signal_to_noise: The first over the second.
        norm: The mean of the norms of all gradients; NaN where single norms are not known.
    """

    path: str
    found: str
    mean: float
    noise: float
    signal_to_noise: float
    norm: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GradientStatistics:
    """What the gradients of examples say: what a call of `ptk.gradient_statistics` returns.

    A pytree of arrays, so that it goes through `jax.jit` and can be carried by `jax.lax.scan`.
    `print` and notebooks show it as tables.

    Attributes:
        count: The number of examples.
        mean: The mean gradient, in at least 32 bits; None for what is not differentiated.
        spread: The sum of the squared distances of all gradients from it, in a tree like it.
        direction: The mean of the gradients, each divided by its norm.
        norms: The norm of each gradient, `float[batch]`, or None.
        leaf_norms: The norm of each leaf of each gradient, in a tree like the mean, or None.

    Examples:
        >>> import jax.numpy as jnp
        >>> import pytreekit as ptk
        >>> statistics = ptk.gradient_statistics(lambda w, x: w @ x)
        >>> one = statistics(jnp.ones(2), jnp.array([[3.0, 4.0], [0.0, 2.0]]))
        >>> both = one.merge(statistics(jnp.ones(2), jnp.array([[0.0, 0.0]])))
        >>> both.mean.round(4).tolist(), both.variance.round(4).tolist()
        ([1.0, 2.0], [3.0, 4.0])
        >>> round(float(both.trace_cov), 3), round(float(both.grad_sq), 3)
        (7.0, 2.667)
        >>> round(float(both.noise_scale), 3)
        2.625
    """

    count: Array
    mean: Any
    spread: Any
    direction: Any
    norms: Any = None
    leaf_norms: Any = None

    @property
    def variance(self) -> Any:
        """The variance of each entry, over `count - 1`: NaN of a single example."""
        return jax.tree.map(lambda leaf: leaf / self._freedom.astype(leaf.dtype), self.spread)

    @property
    def signal_to_noise(self) -> Any:
        """The mean of each entry over its standard deviation; 0 where both are 0."""
        return jax.tree.map(_ratio, self.mean, self.variance)

    @property
    def trace_cov(self) -> Array:
        """The trace of the covariance: the sum of the variances of all entries."""
        spread = total([jnp.sum(leaf) for leaf in jax.tree.leaves(self.spread)])
        return spread / self._freedom.astype(spread.dtype)

    @property
    def grad_sq(self) -> Array:
        """The squared norm of the true gradient, without bias: it may be negative in small batches.

        The squared norm of the mean of n gradients is too large by `trace_cov / n`.
        """
        whole = total([square_sum(leaf) for leaf in jax.tree.leaves(self.mean)])
        return whole - self.trace_cov / self.count.astype(whole.dtype)

    @property
    def noise_scale(self) -> Array:
        """The simple noise scale `trace_cov / grad_sq`: batches much larger than that gain little.

        After McCandlish et al., An Empirical Model of Large-Batch Training (2018). Both parts are
        without bias; their ratio is not, and to average over several steps, average the parts.
        """
        return self.trace_cov / self.grad_sq

    @property
    def cosine(self) -> Array:
        """The cosine between a gradient and the mean gradient, in the mean over all examples."""
        pairs = zip(jax.tree.leaves(self.direction), jax.tree.leaves(self.mean), strict=True)
        along = total([jnp.sum(jnp.conj(its) * mean).real for its, mean in pairs])
        whole = norm(jax.tree.leaves(self.mean))
        return jnp.where(whole > 0, along / jnp.where(whole > 0, whole, 1), 0)

    def moments(self) -> GradientStatistics:
        """The same without what grows with the batch, to be carried by a loop."""
        return dataclasses.replace(self, norms=None, leaf_norms=None)

    def merge(self, other: GradientStatistics) -> GradientStatistics:
        """The statistics of the examples of both, as if they had been one batch.

        Norms are put one behind the other; they are None if they are on either side.
        """
        both = merged(self._moments, other._moments)
        if self.norms is None or other.norms is None:
            return GradientStatistics(*both)
        norms = jnp.concatenate([self.norms, other.norms])
        pairs = jax.tree.map(lambda *its: jnp.concatenate(its), self.leaf_norms, other.leaf_norms)
        return GradientStatistics(*both, norms, pairs)

    def over(self, axis_name: Any) -> GradientStatistics:
        """The statistics of the examples of all devices, inside `jax.shard_map`, without norms.

        Args:
            axis_name: The mesh axis over which the examples are split, or a tuple of such.
        """
        return GradientStatistics(*over_devices(self._moments, axis_name))

    @property
    def _freedom(self) -> Array:
        """What a variance is divided by: 0, which gives NaN, of fewer than two examples."""
        return jnp.maximum(self.count - 1, 0)

    @property
    def _moments(self) -> Moments:
        return Moments(self.count, self.mean, self.spread, self.direction)

    def leaves(self) -> tuple[LeafStatistics, ...]:
        """What they say of each leaf. For concrete arrays, not under a transformation."""
        means = paths.leaves_with_paths(self.mean)
        norms = jax.tree.leaves(self.leaf_norms) or [None] * len(means)
        rows = zip(means, jax.tree.leaves(self.spread), norms, strict=True)
        count = int(self.count)
        return tuple(_leaf(path, mean, spread, its, count) for (path, mean), spread, its in rows)

    def picture(self) -> str:
        """The norms of all gradients and signal to noise of each leaf: the text of an SVG file."""
        rows = self.leaves()
        bars = [picture.Bar(row.path or "(root)", *_told(row.signal_to_noise)) for row in rows]
        more = f", of the first {MOST_BARS}" if len(bars) > MOST_BARS else ""
        charts = [picture.Chart(f"signal to noise of each leaf{more}", bars[:MOST_BARS])]
        if self.norms is not None:
            norms = np.asarray(self.norms)
            title = f"norms of {len(norms)} gradients"
            charts.insert(0, picture.Chart(title, picture.histogram(norms), standing=True))
        return picture.svg(charts)

    def __str__(self) -> str:
        if self._is_traced:
            return f"<statistics of gradients, traced, of {values.leaf_or_tree(self.mean)}>"
        return table.plain_all(self._tables())

    def __rich__(self) -> Any:
        if self._is_traced:
            return str(self)
        return table.rich_all(self._tables())

    def _repr_html_(self) -> str:
        if self._is_traced:
            return str(self)
        return f"{table.html_all(self._tables())}\n{self.picture()}"

    @property
    def _is_traced(self) -> bool:
        return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self))

    def _tables(self) -> Iterator[table.Table]:
        numbers = ("|mean|", "noise", "signal/noise", "mean norm")
        title = f"gradients of {int(self.count):,} examples"
        rows = [
            (row.path or "(root)", row.found, *(f"{number:.4g}" for number in row[2:]))
            for row in self.leaves()
        ]
        yield table.Head(title, ("leaf", "found", *numbers), numbers), rows
        yield table.Head("all leaves together", ("", "is"), ("is",)), self._whole()

    def _whole(self) -> list[tuple[str, ...]]:
        told: list[tuple[str, Any]] = [
            ("noise scale", self.noise_scale),
            ("trace_cov", self.trace_cov),
            ("grad_sq", self.grad_sq),
            ("cosine to the mean", self.cosine),
        ]
        if self.norms is not None and len(self.norms):
            for name, share in (("least", 0), ("median", 0.5), ("largest", 1)):
                told.append((f"{name} norm", np.quantile(np.asarray(self.norms), share)))
        return [(name, f"{float(number):.4g}") for name, number in told]


def _ratio(mean: Array, variance: Array) -> Array:
    size = jnp.abs(mean)
    nothing = (size == 0) & (variance == 0)
    deviation = jnp.sqrt(jnp.where(nothing, 1, variance))
    return jnp.where(nothing, jnp.zeros_like(size), size / deviation)


def _leaf(path: Any, mean: Any, spread: Any, norms: Any, count: int) -> LeafStatistics:
    found, size = values.leaf(mean), float(jnp.sqrt(square_sum(mean)))
    noise = math.sqrt(float(jnp.sum(spread)) / (count - 1)) if count > 1 else math.nan
    ratio = size / noise if noise else math.inf * size if size else 0.0
    norm_of_all = math.nan if norms is None or not len(norms) else float(jnp.mean(norms))
    return LeafStatistics(paths.text(path), found, size, noise, ratio, norm_of_all)


def _told(number: float) -> tuple[float, str]:
    """A number as the length of a bar, and in words."""
    return (number if math.isfinite(number) else 0.0), f"{number:.3g}"
