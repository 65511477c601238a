"""Methods: bound to their instance, and then without `self`. See functions.py for the marks."""

from __future__ import annotations

import abc
import functools
from typing import Any, Generic, TypeVar, assert_type

import equinox as eqx
from jax import Array

import pytreekit as ptk
from pytreekit.batching.plan import VmapPlan
from pytreekit.batching.vmapped import Vmapped, VmappedMethod

T = TypeVar("T")


class Model:
    def __init__(self, w: Array) -> None:
        self.w = w
        self.kept = ptk.vmap(self.plain)

    def plain(self, x: Array) -> Array:
        return self.w @ x

    @ptk.vmap(in_axes=(None, 0))
    def mapped(self, x: Array, scale: float = 1.0) -> Array:
        return self.w @ x * scale

    @ptk.vmap
    def without_options(self, *, x: Array) -> list[Array]:
        return [x]

    @ptk.vmap(in_axes=(None, 0))
    def __call__(self, x: Array) -> Array:
        return self.mapped(x)

    @functools.partial(ptk.vmap, in_axes=(None, 0))
    def by_partial(self, x: Array) -> Array:
        return x

    @staticmethod
    @ptk.vmap
    def static(x: Array) -> Array:
        return x

    @staticmethod
    @ptk.vmap
    def static_of_any(x: Any, y: Array) -> Array:
        return y

    @classmethod
    @ptk.vmap(in_axes=(None, 0))
    def of_class(cls, x: Array) -> Array:
        return x

    def within(self, x: Array) -> None:
        assert_type(self.mapped(x), Array)
        assert_type(self.mapped.plan(x), VmapPlan)
        assert_type(self.kept(x), Array)
        assert_type(self(x), Array)
        self.mapped()  # error
        self.mapped(self, x)  # error
        self.kept()  # error


class Deeper(Model):
    def above(self, x: Array) -> None:
        assert_type(super().mapped(x), Array)
        assert_type(self.mapped(x), Array)
        super().mapped(1)  # error


def called(model: Model, deeper: Deeper, x: Array) -> None:
    assert_type(model.mapped(x), Array)
    assert_type(model.mapped(x, scale=2.0), Array)
    assert_type(model.without_options(x=x), list[Array])
    assert_type(model(x), Array)
    assert_type(deeper.mapped(x, 2.0), Array)
    assert_type(Model.mapped(model, x), Array)
    assert_type(Deeper.mapped(deeper, x, scale=2.0), Array)
    assert_type(ptk.vmap(model.plain)(x), Array)
    assert_type(ptk.vmap(model.mapped)(x, 2.0), Array)


def called_wrongly(model: Model, deeper: Deeper, x: Array) -> None:
    model.mapped()  # error
    model.mapped("x")  # error
    model.mapped(model, x)  # error
    model.mapped(x, "2")  # error
    model.mapped(x, unknown=2.0)  # error
    model.mapped(x).unknown()  # error
    model.without_options(x)  # error
    model(1)  # error
    model()  # error
    deeper.mapped(x, 2.0, 3.0)  # error
    Model.mapped(x)  # error
    Model.mapped(1, x)  # error
    ptk.vmap(model.plain)(model, x)  # error
    ptk.vmap(model.mapped)("x")  # error
    assert_type(model.mapped(x), int)  # error


def planned_and_checked(model: Model, x: Array) -> None:
    assert_type(model.mapped.plan(x), VmapPlan)
    assert_type(model.mapped.plan(x, outputs=True).function, str)
    assert_type(model.mapped.check(x, 2.0), tuple[ptk.Fault, ...])
    assert_type(model.mapped.in_chunks(8)(x), Array)
    assert_type(model.mapped.__name__, str)
    assert_type(Model.mapped.plan(model, x), VmapPlan)
    assert_type(Model.mapped.check(model, x), tuple[ptk.Fault, ...])
    model.mapped.check("x")  # error
    model.mapped.check(model, x)  # error
    model.mapped.in_chunks(8)("x")  # error
    model.mapped.unknown()  # error
    Model.mapped.check(x)  # error


def seen_as(model: Model) -> None:
    def takes_method(fun: VmappedMethod[..., Array]) -> None: ...
    def takes_function(fun: Vmapped[..., Array]) -> None: ...

    takes_method(model.mapped)
    takes_function(Model.mapped)
    takes_method(Model.mapped)  # error
    takes_function(model.mapped)  # error


# mypy and pyrefly see nothing of what `functools.partial` makes of an overloaded function.
def by_partial(model: Model, x: Array) -> None:
    model.by_partial(x)
    model.by_partial("x")  # error: not mypy, pyrefly
    model.by_partial(x, x)  # error: not mypy, pyrefly


def static(model: Model, x: Array) -> None:
    assert_type(Model.static(x), Array)
    assert_type(model.static(x), Array)
    assert_type(Model.static.plan(x), VmapPlan)
    assert_type(Model.static_of_any(x, x), Array)
    Model.static("x")  # error
    model.static(model, x)  # error
    model.static()  # error
    # All but ty look past `staticmethod` over an object, and a first parameter of type Any takes
    # an instance as well.
    model.static_of_any(x, x)  # false alarm: basedpyright, mypy, pyrefly


# All but ty look past `classmethod` over an object. From Python 3.13 on that gives a plain method,
# to which `plan` and `check` are those of the function with `cls`.
def of_class(x: Array) -> None:
    Model.of_class(x)  # false alarm: basedpyright, mypy, pyrefly
    Model.of_class("x")  # error


class Container(Generic[T]):
    @ptk.vmap(in_axes=(None, 0))
    def wrap(self, x: T) -> list[T]:
        return [x]


def of_generic_class(container: Container[int]) -> None:
    assert_type(container.wrap(1), list[int])
    container.wrap("1")  # error


class Abstract(abc.ABC):
    @ptk.vmap(in_axes=(None, 0))
    @abc.abstractmethod
    def mapped(self, x: Array) -> Array: ...


def of_abstract_class(thing: Abstract, x: Array) -> None:
    assert_type(thing.mapped(x), Array)
    thing.mapped(1)  # error


class Module(eqx.Module):
    w: Array

    @ptk.vmap(in_axes=(None, 0))
    def __call__(self, x: Array) -> Array:
        return self.w @ x

    @ptk.vmap(in_axes={"self": ptk.if_array(None), "x": 0})
    def mapped(self, x: Array) -> Array:
        return self.w @ x


def of_module(w: Array, x: Array) -> None:
    module = Module(w)
    assert_type(module(x), Array)
    assert_type(module.mapped(x), Array)
    assert_type(module.mapped.check(x), tuple[ptk.Fault, ...])
    Module(w, w)  # error
    module()  # error
    module("x")  # error
    module.mapped("x")  # error
