"""Mapped methods beside those of jax.vmap: what binds, what is equal, what can be copied."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

XS = jnp.arange(6.0).reshape(3, 2)


def scaled(self, x, by=2.0):
    return x * self.scale * by


class Scaler:
    def __init__(self, scale):
        self.scale = scale

    @ptk.vmap(in_axes=(None, 0))
    def mapped(self, x):
        return x * self.scale

    @classmethod
    @ptk.vmap(in_axes=(None, 0))
    def of_class(cls, x):
        return x * len(cls.__name__)

    @staticmethod
    @ptk.vmap
    def static(x):
        return x * 2

    class Inner:
        @ptk.vmap(in_axes=(None, 0))
        def mapped(self, x):
            return -x


class Deeper(Scaler):
    @ptk.vmap(in_axes=(None, 0))
    def mapped(self, x):
        return -x

    def above(self):
        return super().mapped


class Module(eqx.Module):
    w: jax.Array

    @ptk.vmap(in_axes=(None, 0))
    def mapped(self, x):
        return self.w @ x

    @ptk.vmap(in_axes=(None, 0))
    def __call__(self, x):
        return self.w @ x


@ptk.vmap
def decorated(x):
    return x + 1


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


# ---- binding ------------------------------------------------------------------------------------

IN_CLASS_BODIES = {
    "a partial": functools.partial(scaled, by=3.0),
    "an object": type("Scales", (), {"__call__": lambda _, self, x: x * self.scale})(),
    "a jitted function": jax.jit(scaled, static_argnums=0),
    "a mapped function": ptk.vmap(scaled, in_axes=(None, 0)),
}


@pytest.mark.parametrize("name", IN_CLASS_BODIES)
def test_whatever_is_mapped_binds_in_a_class_body(name):
    results = []
    for vmap in (ptk.vmap, jax.vmap):
        owner = type("Owner", (Scaler,), {"method": vmap(IN_CLASS_BODIES[name], (None, 0))})
        results.append(owner(2.0).method(XS))
        assert "self" not in inspect.signature(owner(2.0).method).parameters
    np.testing.assert_array_equal(*results)


def test_methods_of_an_equinox_module():
    module = Module(jnp.ones(2))
    for call in (module, module.mapped, eqx.filter_jit(module), eqx.filter_jit(module.mapped)):
        np.testing.assert_array_equal(call(XS), XS.sum(1))
    assert [fault.argument for fault in module.mapped.check(1.0)] == ["x"]
    doubled = eqx.tree_at(lambda module: module.w, module, replace_fn=lambda w: 2 * w)
    np.testing.assert_array_equal(doubled.mapped(XS), 2 * XS.sum(1))


def test_attributes_of_a_mapped_object_hide_nothing():
    class Planner:
        def __init__(self):
            self.plan = self.check = self.in_chunks = None
            self.kept = 1

        def __call__(self, x):
            return x

    mapped = ptk.vmap(Planner())
    assert mapped.plan(XS).axis_size == 3
    assert mapped.check(XS) == ()
    assert mapped.in_chunks(2)(XS).shape == (3, 2)
    assert mapped.kept == 1


def test_bound_methods_are_equal_as_those_of_python_are():
    one, two = Scaler(1.0), Scaler(1.0)
    assert one.mapped == one.mapped
    assert hash(one.mapped) == hash(one.mapped)
    assert one.mapped != two.mapped
    assert one.mapped != Deeper(1.0).above()
    assert one.mapped != one.mapped.in_chunks(2)
    assert one.mapped != 1


def test_a_method_is_compiled_once():
    entered = []

    class Counting:
        @ptk.vmap(in_axes=(None, 0))
        def mapped(self, x):
            entered.append(self)
            return x

    counting = Counting()
    one, other = counting.mapped, counting.mapped
    jax.jit(one)(XS)
    jax.jit(other)(XS)
    assert len(entered) == 1


# ---- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_functions_in_class_bodies_are_pickled_by_name(protocol):
    for mapped in (Scaler.mapped, Scaler.static, Scaler(1.0).static, Scaler.Inner.mapped):
        assert pickle.loads(pickle.dumps(mapped, protocol)) is mapped


METHODS = {
    "a method": lambda: Scaler(3.0).mapped,
    "a method of another size of chunks": lambda: Scaler(3.0).mapped.in_chunks(2),
    "a class method": lambda: Scaler.of_class,
    "a class method of an instance": lambda: Scaler(3.0).of_class,
    "a method of a nested class": lambda: Scaler.Inner().mapped,
    "a method of the class above": lambda: Deeper(3.0).above(),
    "a method of an equinox module": lambda: Module(jnp.ones((2, 2))).mapped,
    "a mapped bound method": lambda: ptk.vmap(Scaler(3.0).mapped),
}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("name", METHODS)
def test_copies_of_methods(name, copied):
    method = METHODS[name]()
    args = jnp.stack([XS, XS]) if name == "a mapped bound method" else XS
    twin = copied(method)
    assert type(twin) is type(method)
    assert twin.__name__ == method.__name__
    np.testing.assert_array_equal(twin(args), method(args))


def test_a_deep_copy_of_a_method_has_an_instance_of_its_own():
    scaler = Scaler(jnp.ones(2))
    twins = copy.deepcopy({"method": scaler.mapped, "scaler": scaler})
    assert twins["method"].__self__ is twins["scaler"]
    assert twins["scaler"] is not scaler
    assert copy.copy(scaler.mapped) == scaler.mapped


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_copies_of_other_mappings_of_a_decorated_function(copied):
    """What pickle finds under the name of the function is what decorates it."""
    for mapped in (
        decorated.in_chunks(2),
        ptk.vmap(decorated.__wrapped__, in_axes={"x": 1}, axis_size=3),
        ptk.vmap(decorated.__wrapped__, in_axes=1, checks=False),
        ptk.vmap(decorated),
    ):
        twin = copied(mapped)
        args = jnp.stack([XS, XS])
        np.testing.assert_array_equal(twin(args), mapped(args))
        assert repr(twin) == repr(mapped)
        assert twin.__wrapped__ is mapped.__wrapped__
