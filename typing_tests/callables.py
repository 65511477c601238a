"""What is mapped and is no function: partials, objects, classes, functions of JAX and of C.

See functions.py for the marks.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple, assert_type, overload

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

import pytreekit as ptk


def weighted(params: dict[str, Array], x: Array, scale: float = 1.0) -> Array:
    return params["w"] @ x * scale


def of_partials(params: dict[str, Array], x: Array) -> None:
    mapped = ptk.vmap(functools.partial(weighted, params, scale=2.0))
    assert_type(mapped(x), Array)
    assert_type(ptk.vmap(in_axes=0)(functools.partial(weighted, params))(x), Array)
    assert_type(functools.partial(ptk.vmap(weighted), params)(x), Array)
    assert_type(mapped.check(x), tuple[ptk.Fault, ...])
    mapped(x).unknown()  # error
    # A `functools.partial` says to mypy and pyrefly what it returns, and not what it takes.
    mapped("x")  # error: not mypy, pyrefly
    mapped()  # error: not mypy, pyrefly
    mapped(x, unknown=1.0)  # error: not mypy, pyrefly


class Affine:
    def __call__(self, x: Array, *, shift: float) -> Array:
        return x + shift


class Pair(NamedTuple):
    first: Array
    second: int


class Layer(eqx.Module):
    w: Array

    def __call__(self, x: Array) -> Array:
        return self.w @ x


def of_objects(x: Array, layer: Layer, linear: eqx.nn.Linear) -> None:
    assert_type(ptk.vmap(Affine())(x, shift=1.0), Array)
    assert_type(ptk.vmap(in_axes=0)(Affine())(x, shift=1.0), Array)
    assert_type(ptk.vmap(layer)(x), Array)
    assert_type(ptk.vmap(linear)(x), Array)
    assert_type(ptk.vmap(Pair)(x, 1), Pair)
    assert_type(ptk.vmap(Pair)(first=x, second=1).second, int)
    ptk.vmap(Affine())(x)  # error
    ptk.vmap(Affine())(x, shift="1")  # error
    ptk.vmap(layer)(layer, x)  # error
    ptk.vmap(layer)("x")  # error
    ptk.vmap(linear)()  # error
    ptk.vmap(Pair)(x)  # error
    ptk.vmap(Pair)(x, "1")  # error
    ptk.vmap(object())  # error


def of_functions_of_jax(x: Array) -> None:
    assert_type(ptk.vmap(jnp.sin)(x), Array)
    assert_type(ptk.vmap(jnp.sum)(x, keepdims=True), Array)
    assert_type(ptk.vmap(jnp.add)(x, 2.0), Array)
    assert_type(ptk.vmap(jax.nn.relu)(x), Array)
    ptk.vmap(jnp.sin)("x")  # error
    ptk.vmap(jnp.sin)(x, x)  # error
    ptk.vmap(jnp.sum)(x, keepdims="yes")  # error
    ptk.vmap(jnp.add)(x)  # error
    ptk.vmap(jax.nn.relu)("x")  # error


# JAX does not say what its transformations return.
def of_transformed_functions(params: dict[str, Array], x: Array) -> None:
    assert_type(ptk.vmap(jax.grad(weighted, argnums=1))(params, x), Any)
    assert_type(jax.vmap(ptk.vmap(weighted))(params, x), Array)
    ptk.vmap(jax.jit(weighted)).plan(params, x).unknown()  # error
    ptk.vmap(jax.jit(weighted))(params, x)
    jax.jit(ptk.vmap(weighted))(params, x)


@overload
def either(x: int) -> float: ...
@overload
def either(x: str, y: str) -> bytes: ...
def either(x: Any, y: Any = None) -> Any:
    return x


# Of an overloaded function basedpyright and mypy take the first form alone.
def of_overloaded_functions(x: Array) -> None:
    ptk.vmap(either)(1)
    ptk.vmap(either)("x", "y")  # false alarm: basedpyright, mypy
    ptk.vmap(jnp.where)(x, x, x)  # false alarm: basedpyright, mypy
    ptk.vmap(lambda x: jnp.where(x, x, x))(x)
    ptk.vmap(either)(b"x")  # error
    ptk.vmap(either)(x=1, y=2)  # error


def of_functions_of_c(x: Array) -> None:
    ptk.vmap(abs)(x)
    assert_type(ptk.vmap(operator.index)(3), int)
    ptk.vmap(operator.index)()  # error
    ptk.vmap(divmod)(1)  # error
