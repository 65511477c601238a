"""What ptk.vmap returns: called, bound, named, copied, pickled and shared between threads."""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import pickle
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreekit as ptk

from .vmap_nodes import Keyed, NeedsArray, Point

XS = jnp.arange(6.0).reshape(3, 2)


def double(x, scale=2.0):
    """Doubles an example.

    Args:
        x: The example.
        scale: By how much, in fact.
    """
    return x * scale


@ptk.vmap
def decorated(x):
    """A function that stands in the module under its own name."""
    return x + 1


def weighted(params, x):
    return x @ params["w"]


def assert_same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(functools.partial(np.testing.assert_array_equal, strict=True), ours, theirs)


# ---- names and signatures -----------------------------------------------------------------------


@pytest.mark.parametrize("checks", [True, False])
def test_name_docstring_and_signature_are_kept(checks):
    mapped = ptk.vmap(double, checks=checks)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(mapped, name) == getattr(double, name)
    assert mapped.__wrapped__ is double
    assert inspect.signature(mapped) == inspect.signature(double)
    assert inspect.signature(mapped).parameters["scale"].default == 2.0


def test_repr_names_the_function():
    assert "double" in repr(ptk.vmap(double, in_axes=(0,)))


class BrokenSignature:
    """Can be called; what it says of its signature is nonsense."""

    __signature__ = "x, y"

    def __call__(self, x, y):
        return x + y


UNREADABLE = {
    "a class written in C": (dict, (), {"a": XS, "b": XS}),
    "an operator": (operator.add, (XS, XS), {}),
    "an object of a C class": (operator.itemgetter("a"), ({"a": XS},), {}),
    "a ufunc": (jnp.add, (XS, XS), {}),
    "a numpy function of jax": (jnp.sin, (XS,), {}),
    "a broken signature": (BrokenSignature(), (XS, XS), {}),
    "a class": (Point, (XS, XS), {}),
    "a partial of a C function": (functools.partial(operator.mul, 2.0), (XS,), {}),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_functions_with_and_without_a_readable_signature(name):
    fun, args, kwargs = UNREADABLE[name]
    assert_same(ptk.vmap(fun)(*args, **kwargs), jax.vmap(fun)(*args, **kwargs))
    with pytest.raises(ptk.SpecError, match="PTK101") as caught:
        ptk.vmap(fun)(*[2.0 for _ in args], **dict.fromkeys(kwargs, 2.0))
    assert len(caught.value.faults) == len(args) + len(kwargs)
    assert all(fault.argument for fault in caught.value.faults)


def test_arguments_are_named_after_the_parameters():
    def fun(first, /, second, *rest, key, **options):
        return first

    with pytest.raises(ptk.SpecError) as caught:
        ptk.vmap(fun)(1.0, 2.0, 3.0, 4.0, key=5.0, extra=6.0)
    places = [fault.place for fault in caught.value.faults]
    assert places == ["first", "second", "rest[0]", "rest[1]", "extra", "key"]


# ---- kinds of functions -------------------------------------------------------------------------


class Scaler:
    """A model that is no pytree, with methods mapped in every way."""

    def __init__(self, scale):
        self.scale = scale

    def plain(self, x):
        return x * self.scale

    @functools.partial(ptk.vmap, in_axes=(None, 0))
    def mapped(self, x):
        """Scales an example."""
        return x * self.scale

    @functools.partial(jax.vmap, in_axes=(None, 0))
    def mapped_by_jax(self, x):
        return x * self.scale

    @staticmethod
    @ptk.vmap
    def static(x):
        return x * 2

    @classmethod
    @functools.partial(ptk.vmap, in_axes=(None, 0))
    def of_class(cls, x):
        return x * len(cls.__name__)

    @ptk.vmap
    def forgotten(self, x):
        return x

    def __call__(self, x):
        return x * self.scale


def test_methods():
    scaler = Scaler(3.0)
    assert_same(scaler.mapped(XS), scaler.mapped_by_jax(XS))
    assert_same(Scaler.mapped(scaler, XS), scaler.mapped_by_jax(XS))
    assert_same(scaler.static(XS), XS * 2)
    assert_same(Scaler.static(XS), XS * 2)
    assert_same(scaler.of_class(XS), XS * 6)
    assert_same(Scaler.of_class(XS), XS * 6)
    assert scaler.mapped.__doc__ == "Scales an example."
    assert scaler.mapped.__name__ == "mapped"
    assert list(inspect.signature(scaler.mapped).parameters) == ["x"]


def test_methods_plan_and_check():
    scaler = Scaler(3.0)
    assert scaler.mapped.check(XS) == ()
    assert scaler.mapped.plan(XS).axis_size == 3
    faults = scaler.mapped.check(2.0)
    assert [fault.place for fault in faults] == ["x"]


def test_two_instances_do_not_mix():
    one, two = Scaler(1.0), Scaler(2.0)
    for _ in range(2):
        assert_same(one.mapped(XS), XS)
        assert_same(two.mapped(XS), XS * 2)


def test_a_method_that_maps_self_is_refused_by_name():
    with pytest.raises(ptk.SpecError, match="self") as caught:
        Scaler(1.0).forgotten(XS)
    assert [fault.argument for fault in caught.value.faults] == ["self"]


def test_a_bound_method_does_not_count_self():
    scaler = Scaler(3.0)
    assert_same(ptk.vmap(scaler.plain, in_axes=(0,))(XS), XS * 3)
    with pytest.raises(ptk.SpecError, match="self"):
        ptk.vmap(scaler.plain, in_axes=(None, 0))(XS)


CALLABLES = {
    "a callable object": lambda: (Scaler(3.0), (XS,), {}),
    "a partial": lambda: (functools.partial(double, scale=jnp.float32(3)), (XS,), {}),
    "a partial of a positional": lambda: (functools.partial(weighted, {"w": XS.T}), (XS,), {}),
    "a partial pytree": lambda: (jax.tree_util.Partial(weighted, {"w": XS.T}), (XS,), {}),
    "a jitted function": lambda: (jax.jit(double), (XS,), {}),
    "an equinox module": lambda: (eqx.nn.Linear(2, 4, key=jax.random.key(0)), (XS,), {}),
    "an equinox method": lambda: (eqx.nn.Linear(2, 4, key=jax.random.key(0)).__call__, (XS,), {}),
    "an equinox jit": lambda: (eqx.filter_jit(double), (XS,), {}),
    "a mapped function": lambda: (ptk.vmap(double), (XS,), {}),
    "a lambda": lambda: (lambda x, *, y: x + y, (XS,), {"y": XS}),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_callables(name):
    fun, args, kwargs = CALLABLES[name]()
    assert_same(ptk.vmap(fun)(*args, **kwargs), jax.vmap(fun)(*args, **kwargs))
    with pytest.raises(ptk.SpecError, match="PTK101"):
        ptk.vmap(fun, in_axes=7)(*args, **kwargs)


def test_an_equinox_module_with_static_parts_as_an_argument():
    model = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))
    with pytest.raises(ptk.SpecError, match="activation"):
        ptk.vmap(lambda model, x: model(x))(model, XS)
    mapped = [vmap(lambda m, x: m(x), in_axes=(None, 0)) for vmap in (ptk.vmap, jax.vmap)]
    assert_same(*(fun(model, XS) for fun in mapped))


def test_partial_around_a_mapped_function():
    mapped = functools.partial(ptk.vmap(weighted, in_axes=(None, 0)), {"w": XS.T})
    assert_same(mapped(XS), XS @ XS.T)


def test_errors_of_the_function_are_its_own():
    class OwnError(Exception):
        pass

    def fails(x):
        raise OwnError

    for vmap in (ptk.vmap, jax.vmap):
        with pytest.raises(OwnError):
            vmap(fails)(XS)
    with pytest.raises(ValueError, match="mine") as caught:
        ptk.vmap(lambda x: (_ for _ in ()).throw(ValueError("mine")))(XS)
    assert type(caught.value) is ValueError
    assert ptk.vmap(fails).check(XS) == ()


def test_wrong_calls_of_the_function_are_its_own():
    for vmap in (ptk.vmap, jax.vmap):
        with pytest.raises(TypeError, match="argument"):
            vmap(decorated.__wrapped__)(XS, XS)
        with pytest.raises(TypeError, match="unexpected"):
            vmap(double)(XS, unknown=XS)


# ---- nodes that check what they are built from --------------------------------------------------


def test_a_validating_node_is_never_built_from_placeholders():
    args = NeedsArray(XS), XS
    assert_same(ptk.vmap(lambda node, x: node.value + x)(*args), XS * 2)
    for in_axes, code in [((0, (0,)), "PTK202"), ((0, 5), "PTK101"), ((([0],), 0), "PTK202")]:
        with pytest.raises(ptk.SpecError, match=code):
            ptk.vmap(lambda node, x: x, in_axes=in_axes)(*args)
    with pytest.raises(ptk.SpecError, match="PTK102"):
        ptk.vmap(lambda node, x: x)(NeedsArray(XS), jnp.ones(5))
    with pytest.raises(ptk.SpecError, match="out_axes"):
        ptk.vmap(lambda node, x: node, out_axes=(0, 0))(*args)
    assert ptk.vmap(lambda node, x: x).plan(*args).axis_size == 3


# ---- copies -------------------------------------------------------------------------------------


def mutate_dict(axes):
    axes[0]["w"] = None


def mutate_list(axes):
    axes[0]["b"][0] = None


def mutate_node(axes):
    axes[1].children = (None,)


@pytest.mark.parametrize("option", ["in_axes", "out_axes"])
@pytest.mark.parametrize("mutate", [mutate_dict, mutate_list, mutate_node])
def test_a_spec_that_changes_after_wrapping(mutate, option):
    spec = ({"w": 0, "b": [0]}, Keyed((0,), "k"))
    args = {"w": XS, "b": [XS]}, Keyed((XS,), "k")
    mapped = ptk.vmap(lambda *args: args, **{option: spec})
    before = mapped(*args)
    mutate(spec)
    assert_same(mapped(*args), before)
    assert_same(mapped({"w": XS + 1, "b": [XS]}, args[1])[0]["w"], XS + 1)
    fresh = ptk.vmap(lambda *args: args, **{option: ({"w": 0, "b": [0]}, Keyed((0,), "k"))})
    assert_same(mapped(*args), fresh(*args))
    assert mapped.check(*args) == ()


def test_a_list_of_axes_that_grows_after_wrapping():
    axes = [0]
    mapped = ptk.vmap(lambda x: x, in_axes=axes)
    axes.append(0)
    assert_same(mapped(XS), XS)


def test_the_repaired_spec_is_a_new_one():
    axes = ({"w": 5, "b": 0},)
    mapped = ptk.vmap(lambda params: params, in_axes=axes)
    for _ in range(2):
        with pytest.raises(ptk.SpecError) as caught:
            mapped({"w": XS, "b": XS})
        assert caught.value.repaired == ({"w": 0, "b": 0},)
        caught.value.repaired[0].clear()
    assert axes == ({"w": 5, "b": 0},)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))]
)
@pytest.mark.parametrize("in_axes", [0, (None, 0), ({"w": None}, 0)])
def test_copies_of_a_mapped_function(copied, in_axes):
    mapped = ptk.vmap(weighted, in_axes=in_axes, axis_name="i", axis_size=3)
    params = {"w": jnp.ones((3, 2) if in_axes == 0 else 2)}
    expected = mapped(params, XS)
    twin = copied(mapped)
    assert_same(twin(params, XS), expected)
    assert twin.__name__ == "weighted"
    assert twin.check({"w": 1.0}, 2.0) == mapped.check({"w": 1.0}, 2.0) != ()


def test_a_decorated_function_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated)(XS).tolist() == (XS + 1).tolist()


def test_unchecked_functions_are_pickled_unchecked():
    twin = pickle.loads(pickle.dumps(ptk.vmap(double, in_axes=5, checks=False)))
    with pytest.raises(ValueError, match="rank") as caught:
        twin(XS)
    assert type(caught.value) is ValueError


def raised(fun, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return caught.value


FAULTY = {
    "in_axes": lambda: raised(ptk.vmap(weighted, in_axes=({"w": 5}, 0)), {"w": XS}, XS),
    "beyond repair": lambda: raised(ptk.vmap(weighted), {"w": XS}, jnp.ones(4)),
    "out_axes": lambda: raised(ptk.vmap(double, out_axes=(0, 0)), XS),
    "on wrapping": lambda: raised(ptk.vmap, double, in_axes=(1.5,)),
    "by hand": lambda: ptk.SpecError([ptk.Fault("MY1", "x", "", "spec", "f32[]", "0")]),
}


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
@pytest.mark.parametrize("name", FAULTY)
def test_copies_of_an_error(name, copied):
    error = FAULTY[name]()
    twin = copied(error)
    assert type(twin) is ptk.SpecError
    assert twin.faults == error.faults
    assert len(twin.faults) > 0
    assert twin.repaired == error.repaired
    assert str(twin) == str(error)


# ---- threads ------------------------------------------------------------------------------------


def total(tree):
    return sum(jax.tree.leaves(tree))


def trees_of(worker):
    """Trees of many structures, some shared with other workers, each with the factor of its sum."""
    for turn in range(25):
        width = 1 + (worker + turn) % 5
        yield {f"k{worker}_{i}": XS * worker for i in range(width)}, worker * width
        yield [XS * worker] * width, worker * width


def test_threads_that_call_one_mapped_function_at_once():
    mapped, together, wrong = ptk.vmap(total), threading.Barrier(8), []

    def work(worker):
        together.wait()
        try:
            for tree, factor in trees_of(worker):
                np.testing.assert_allclose(mapped(tree), XS * factor)
                faults = mapped.check([XS, jnp.ones(4 + worker)])
                assert [fault.found for fault in faults] == [f"f32[{4 + worker}]"]
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
