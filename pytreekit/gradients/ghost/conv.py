"""A convolution with a parameter as its kernel, as a sum of outer products over positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import JaxprEqn

from .factors import Factors, Layout
from .program import aval
from .views import View


class Conv(NamedTuple):
    """A `conv_general_dilated`. Its parameters are those of the equation.

    Attributes:
        kernel: The shape of the kernel.
        out: The shape of what comes out.
        specs: Where batch, features and places are in image, kernel and what comes out.
        strides: How far apart the windows are.
        padding: What is added before and after the image.
        dilation: By how much the image is spread, and the kernel.
        groups: The number of groups of features.
    """

    kernel: tuple[int, ...]
    out: tuple[int, ...]
    specs: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[tuple[int, ...], tuple[int, ...]]
    groups: int

    @property
    def positions(self) -> int:
        """The number of windows."""
        features = self.specs[2][1]
        return math.prod(size for at, size in enumerate(self.out) if at != features)

    def layout(self, view: View) -> Layout:
        """How outer products number the entries of a kernel."""
        out, into, *places = (view.dims[at] for at in self.specs[1])
        size, stride = out[0] // self.groups, out[1]
        groups = ((self.groups, size * stride),)
        return Layout(groups, (*places, into), ((size, stride),), view.offset)

    def factors(self, given: Sequence[Any], back: Array) -> Factors:
        """The windows of one example, and what comes back to each."""
        image, back = (
            _last(its, spec) for its, spec in ((given[0], self.specs[0]), (back, self.specs[2]))
        )
        windows = self._windows(image).reshape(self.positions, -1, self.groups, self.kernel_into)
        left = windows.transpose(2, 0, 1, 3).reshape(self.groups, self.positions, -1)
        right = back.reshape(self.positions, self.groups, -1).transpose(1, 0, 2)
        return Factors(left, right)

    @property
    def kernel_into(self) -> int:
        """The number of features that go into a group."""
        return self.kernel[self.specs[1][1]]

    def _windows(self, image: Array) -> Array:
        """What each window sees, `[batch,*places,*kernel,features]`."""
        spread, apart = self.dilation
        sizes = [self.kernel[at] for at in self.specs[1][2:]]
        ends = [(low, high, its - 1) for (low, high), its in zip(self.padding, spread, strict=True)]
        none = (0, 0, 0)
        image = lax.pad(image, jnp.zeros((), image.dtype), [none, *ends, none])
        counts = [self.out[at] for at in self.specs[2][2:]]
        seen = []
        for offset in np.ndindex(*sizes):
            start = [its * step for its, step in zip(offset, apart, strict=True)]
            stop = [
                low + (count - 1) * stride + 1
                for low, count, stride in zip(start, counts, self.strides, strict=True)
            ]
            of_all = image.shape[0], image.shape[-1]
            limits = [of_all[0], *stop, of_all[1]]
            seen.append(lax.slice(image, [0, *start, 0], limits, [1, *self.strides, 1]))
        return seen[0][..., None, :] if len(seen) == 1 else jnp.stack(seen, -2)


def recognised(equation: JaxprEqn, operand: int) -> Conv | None:
    """The convolution that an equation is, for one of its operands."""
    if equation.primitive.name != "conv_general_dilated" or operand != 1:
        return None
    avals = [aval(variable) for variable in (*equation.invars, *equation.outvars)]
    params = equation.params
    if params["batch_group_count"] != 1 or 0 in avals[2].shape:
        return None
    if not all(jnp.issubdtype(aval.dtype, np.floating) for aval in avals):
        return None
    numbers = params["dimension_numbers"]
    return Conv(
        tuple(avals[1].shape),
        tuple(avals[2].shape),
        (tuple(numbers.lhs_spec), tuple(numbers.rhs_spec), tuple(numbers.out_spec)),
        tuple(params["window_strides"]),
        tuple(tuple(its) for its in params["padding"]),
        (tuple(params["lhs_dilation"]), tuple(params["rhs_dilation"])),
        params["feature_group_count"],
    )


def _last(image: Array, spec: tuple[int, ...]) -> Array:
    """An image with its features last."""
    return image.transpose((spec[0], *spec[2:], spec[1]))
