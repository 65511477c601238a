"""in_axes by parameter name: it means what the positional form and functools.partial mean."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import pytreekit as ptk

from .named_calls import named_calls

XS = jnp.arange(6.0).reshape(3, 2)
SIZE = 3


def assert_same(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(functools.partial(np.testing.assert_array_equal, strict=True), ours, theirs)


def raised(fun, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return caught.value


# ---- drawn signatures and calls -----------------------------------------------------------------


def abbreviated(in_axes, rest, used):
    """The same axes with `...` for every entry that has the value `rest`."""
    if not any(axis == rest for name, axis in in_axes.items() if name in used):
        return in_axes
    kept = {n: axis for n, axis in in_axes.items() if n not in used or axis != rest}
    return {**kept, ...: rest}


@settings(max_examples=100)
@given(named_calls())
def test_by_name_is_the_positional_form_of_a_partial(drawn):
    call, rest, order = drawn
    in_axes = {name: call.in_axes[name] for name in order}
    sizes = {"axis_size": SIZE}
    ours = ptk.vmap(call.fun, in_axes=in_axes, **sizes)

    def positional(*args):
        count = len(call.args)
        return call.fun(*args[:count], **dict(zip(call.kwargs, args[count:], strict=True)))

    in_order = (*call.axes, *(call.keyword_axes[name] for name in call.kwargs))
    theirs = jax.vmap(positional, in_axes=in_order, **sizes)
    expected = theirs(*call.args, *call.kwargs.values())
    assert_same(ours(*call.args, **call.kwargs), expected)
    assert ours.check(*call.args, **call.kwargs) == ()

    short = ptk.vmap(call.fun, in_axes=abbreviated(in_axes, rest, {*call.kwargs, *"abcd"}), **sizes)
    assert_same(short(*call.args, **call.kwargs), expected)
    unchecked = ptk.vmap(call.fun, in_axes=in_axes, **sizes, checks=False)
    assert_same(unchecked(*call.args, **call.kwargs), expected)

    shared = {name: value for name, value in call.kwargs.items() if call.keyword_axes[name] is None}
    if call.args:
        partial = jax.vmap(functools.partial(call.fun, **shared), in_axes=tuple(call.axes), **sizes)
        mapped = {name: value for name, value in call.kwargs.items() if name not in shared}
        if all(call.keyword_axes[name] == 0 for name in mapped):
            assert_same(partial(*call.args, **mapped), expected)


@settings(max_examples=40)
@given(named_calls())
def test_the_plan_is_that_of_the_positional_form(drawn):
    call, _, _ = drawn

    def positional(*args):
        return args

    names = list(inspect.signature(call.fun).bind_partial(*call.args).arguments)
    by_name = ptk.vmap(call.fun, in_axes=call.in_axes, axis_size=SIZE)
    keywords = sorted(call.kwargs)
    in_order = (*call.axes, *(call.keyword_axes[name] for name in keywords))
    values = (*call.args, *(call.kwargs[name] for name in keywords))
    ours = by_name.plan(*call.args, **call.kwargs)
    theirs = ptk.vmap(positional, in_axes=in_order, axis_size=SIZE).plan(*values)
    assert ours.axis_size == theirs.axis_size == SIZE
    assert [leaf[1:5] for leaf in ours.leaves] == [leaf[1:5] for leaf in theirs.leaves]
    arguments = dict.fromkeys(leaf.argument.partition("[")[0] for leaf in ours.leaves)
    assert list(arguments) == [name for name in [*names, *keywords] if name in arguments]
    assert all("in_axes[" in leaf.spec_path for leaf in ours.leaves)


# ---- names that are looked up -------------------------------------------------------------------


def scaled(x, by=2.0, *rest, mode="mul", **options):
    out = x * by if mode == "mul" else x + by
    return out + sum(rest) + sum(options.values())


def test_a_default_that_is_not_passed_needs_no_entry_and_ignores_its_own():
    expected = jax.vmap(scaled)(XS)
    for in_axes in ({"x": 0}, {"x": 0, "by": 7, "mode": 3}, {...: 0}):
        assert_same(ptk.vmap(scaled, in_axes=in_axes)(XS), expected)
    by = jnp.arange(3.0)
    mapped = ptk.vmap(scaled, in_axes={"x": 0, "by": 0})
    assert_same(mapped(XS, by), jax.vmap(scaled)(XS, by))
    assert_same(mapped(XS), expected)
    assert_same(mapped(by=by, x=XS), jax.vmap(scaled)(XS, by))


def test_one_entry_for_all_extra_arguments_or_a_tuple_of_them():
    extra = jnp.arange(2.0)
    both = ptk.vmap(scaled, in_axes={"x": 0, "by": None, "rest": None})
    assert_same(both(XS, 2.0, extra, extra), XS * 2 + 2 * extra)
    each = ptk.vmap(scaled, in_axes={"x": 0, "by": None, "rest": (0, None)})
    assert_same(each(XS, 2.0, XS, extra), XS * 2 + XS + extra)
    nested = ptk.vmap(lambda *xs: xs, in_axes={"xs": ({"a": 0}, (None, 0))})
    assert_same(nested({"a": XS}, (XS, XS))[0]["a"], XS)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_tuple_of_another_length_is_refused_in_the_call_too(count):
    mapped = ptk.vmap(lambda x, *xs: x, in_axes={"x": 0, "xs": (0, None)})
    args = (XS,) * (1 + count)
    faults = mapped.check(*args)
    assert [fault.code for fault in faults] == ["PTK203"]
    assert faults[0].spec_path == "in_axes['xs']"
    assert raised(mapped, *args).faults == faults
    assert raised(mapped.plan, *args).faults == faults
    for in_axes in ({"x": 0, "xs": (0, None)}, {...: 0, "xs": (0, None)}):
        repaired = raised(ptk.vmap(lambda x, *xs: x, in_axes=in_axes), *args).repaired
        assert_same(ptk.vmap(lambda x, *xs: x, in_axes=repaired)(*args), XS)


def test_keywords_of_the_rest_have_their_own_names():
    options = {"zeta": XS, "alpha": jnp.arange(2.0)}
    mapped = ptk.vmap(scaled, in_axes={"x": 0, "zeta": 0, "alpha": None})
    assert_same(mapped(XS, **options), XS * 2 + XS + options["alpha"])
    assert [fault.code for fault in mapped.check(XS, **options, beta=XS)] == ["PTK106"]
    with pytest.raises(ptk.SpecError, match="PTK105"):
        ptk.vmap(lambda x, y: x, in_axes={"x": 0, "zeta": 0})


def test_a_static_flag_stays_a_python_value():
    seen = []

    def fun(x, *, train, mode, sizes):
        seen.append((train, mode, sizes))
        return x if train else -x

    mapped = ptk.vmap(fun, in_axes={"x": 0, ...: None})
    flags = {"train": True, "mode": "clip", "sizes": (1, {"n": 2})}
    assert_same(mapped(XS, **flags), XS)
    assert seen == [(True, "clip", (1, {"n": 2}))]
    assert seen[0][0] is True
    assert_same(jax.jit(lambda x: mapped(x, **flags | {"train": False}))(XS), -XS)


class Model:
    """Not a pytree: to map it is a fault."""

    scale = 3.0

    @ptk.vmap(in_axes={"x": 0})
    def apply(self, x):
        return x * self.scale

    @ptk.vmap(in_axes={"self": 0, "x": 0})
    def mapped_self(self, x):
        return x

    @staticmethod
    @ptk.vmap(in_axes={"x": 1})
    def static(x):
        return x

    @classmethod
    @functools.partial(ptk.vmap, in_axes={"cls": None, "x": 0})
    def of_class(cls, x):
        return x * cls.scale

    def plain(self, x, flag=False):
        return x * self.scale if flag else x

    def __call__(self, x):
        return x * self.scale


def test_methods_share_self_unless_it_is_named():
    model = Model()
    assert_same(model.apply(XS), XS * 3)
    assert_same(model.apply(x=XS), XS * 3)
    assert_same(Model.apply(model, XS), XS * 3)
    assert model.apply.plan(XS).axis_size == 3
    assert model.apply.check(2.0)[0].place == "x"
    assert_same(model.static(XS), XS.T)
    assert_same(Model.of_class(XS), XS * 3)
    error = raised(model.mapped_self, XS)
    assert [(fault.code, fault.argument) for fault in error.faults] == [("PTK104", "self")]


CALLABLES = {
    "a bound method": lambda: (Model().plain, {"x": 0, "flag": None}, (XS, True), {}),
    "its keyword": lambda: (Model().plain, {"x": 0, "flag": None}, (), {"x": XS, "flag": True}),
    "a callable object": lambda: (Model(), {"x": 0}, (XS,), {}),
    "a partial": lambda: (functools.partial(Model.plain, Model(), flag=1), {"x": 0}, (XS,), {}),
    "a partial pytree": lambda: (
        jax.tree_util.Partial(lambda w, x: w * x, jnp.float32(3)), {"x": 0}, (XS,), {}
    ),
    "a jitted function": lambda: (jax.jit(lambda x: x * 3), {"x": 0}, (), {"x": XS}),
    "a mapped function": lambda: (
        ptk.vmap(lambda x: x * 3), {"x": 0}, (XS,), {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLABLES)
def test_callables(name):
    fun, in_axes, args, kwargs = CALLABLES[name]()
    mapped = ptk.vmap(fun, in_axes=in_axes)
    assert_same(mapped(*args, **kwargs), XS * 3)
    with pytest.raises(ptk.SpecError, match="PTK105"):
        ptk.vmap(fun, in_axes={**in_axes, "no_such": 0})


def test_a_function_without_a_signature_takes_any_name():
    assert_same(ptk.vmap(dict, in_axes={"a": 0, "b": None})(a=XS, b=XS)["b"].shape, (3, 3, 2))
    with pytest.raises(ptk.SpecError, match="PTK105"):
        ptk.vmap(lambda: 1.0, in_axes={"a": 0}, axis_size=3)


# ---- names that are not -------------------------------------------------------------------------


def weighted(params, x):
    return x @ params["w"]


PARAMS = {"w": jnp.ones(2)}
TYPOS = {
    "a typo": ({"parms": None, "x": 0}, {"params": None, "x": 0}),
    "two typos": ({"parms": None, "xx": 0}, {"params": None, "xx": 0}),
    "a typo beside the rest": ({"parms": None, ...: 0}, {"params": None, ...: 0}),
}


@pytest.mark.parametrize("name", TYPOS)
def test_a_typo_is_told_on_wrapping_with_the_closest_name(name):
    in_axes, meant = TYPOS[name]
    error = raised(ptk.vmap, weighted, in_axes=in_axes)
    assert error.faults[0].code == "PTK105"
    assert error.faults[0].spec_path == "in_axes['parms']"
    assert error.faults[0].note == "did you mean 'params'?"
    assert "'params'" in error.faults[0].hint
    if name != "two typos":  # nothing is close to xx
        assert error.repaired == meant
        assert_same(ptk.vmap(weighted, in_axes=error.repaired)(PARAMS, XS), XS @ PARAMS["w"])


def test_a_name_that_nothing_is_close_to():
    error = raised(ptk.vmap, weighted, in_axes={"params": None, "x": 0, "temperature": 0})
    assert error.faults[0].hint == ""
    assert "params, x" in error.faults[0].note
    assert error.repaired is None
    assert raised(ptk.vmap, weighted, in_axes={"params": None, 0: 0}).faults[0].code == "PTK105"


def test_the_keys_of_a_single_dict_argument_are_wrapped():
    def fun(batch):
        return batch["w"] + batch["bias"]

    error = raised(ptk.vmap, fun, in_axes={"w": 0, "bias": None})
    assert {fault.code for fault in error.faults} == {"PTK105"}
    assert error.repaired == {"batch": {"w": 0, "bias": None}}
    repaired = ptk.vmap(fun, in_axes=error.repaired)
    assert_same(repaired({"w": XS, "bias": XS[0]}), XS + XS[0])


def test_an_argument_without_an_entry_is_told_with_a_hint_that_holds():
    mapped = ptk.vmap(weighted, in_axes={"x": 0})
    error = raised(mapped, PARAMS, XS)
    assert [(fault.code, fault.argument) for fault in error.faults] == [("PTK106", "params")]
    assert error.faults == mapped.check(PARAMS, x=XS) == raised(mapped.plan, PARAMS, XS).faults
    assert error.repaired == {"x": 0, "params": None}  # over axis 0 it would be of another size
    assert_same(ptk.vmap(weighted, in_axes=error.repaired)(PARAMS, XS), XS @ PARAMS["w"])
    both = raised(ptk.vmap(weighted, in_axes={}), {"w": XS[:, :1]}, x=XS)
    assert [(fault.code, fault.argument) for fault in both.faults] == [
        ("PTK106", "params"), ("PTK106", "x"),
    ]  # fmt: skip
    assert both.repaired == {"params": 0, "x": 0}
    assert "its names" not in str(both)


def test_faults_stand_where_the_user_wrote_them():
    mapped = ptk.vmap(weighted, in_axes={"params": {"w": 5}, ...: 7})
    faults = mapped.check(PARAMS, XS)
    assert [fault.spec_path for fault in faults] == ["in_axes['params']['w']", "in_axes[...]"]
    extra = ptk.vmap(lambda *xs: xs, in_axes={"xs": (0, 4)}).check(XS, XS)
    assert extra[0].spec_path == "in_axes['xs'][1]"
    assert extra[0].place == "xs[1]"


# ---- the rest, at any depth ---------------------------------------------------------------------


TREE = {"enc": {"w": XS, "b": [XS, XS], "act": "tanh"}, "head": XS.T, "step": 3}
RESTS = {
    "below": {"enc": {"act": None, ...: 0}, "head": 1, "step": None},
    "at two depths": {"enc": {"act": None, ...: 0}, "head": 1, ...: None},
    "over a list": {"enc": {"b": [0, 0], "w": 0, ...: None}, "head": -1, ...: None},
    "over none": {"enc": {"w": 0, "b": 0, "act": None, ...: 9}, "head": 1, "step": None, ...: 9},
}


@pytest.mark.parametrize("name", RESTS)
def test_the_rest_at_any_depth(name):
    plain = {"enc": {"w": 0, "b": 0, "act": None}, "head": 1, "step": None}

    def fun(tree, x):
        leaves = jax.tree.leaves(tree["enc"]["b"])
        return tree["enc"]["w"] * x + sum(leaves) + tree["head"] * tree["step"]

    expected = jax.vmap(fun, in_axes=(plain, 0))(TREE, XS)
    for in_axes in ((RESTS[name], 0), {"tree": RESTS[name], "x": 0}, {"tree": RESTS[name], ...: 0}):
        assert_same(ptk.vmap(fun, in_axes=in_axes)(TREE, XS), expected)
    bound = ptk.bind(RESTS[name], TREE, name="tree")
    assert bound.faults == ()
    assert bound.values() == [None, 0, 0, 0, 1 if name != "over a list" else -1, None]


def test_an_extra_key_beside_the_rest_is_a_fault():
    bound = ptk.bind({"enc": {"bias": 0, ...: None}, ...: 0}, TREE, name="tree")
    assert [fault.code for fault in bound.faults] == ["PTK201"]
    assert "'bias'" in bound.faults[0].title


def test_specs_are_copied():
    in_axes: dict[Any, Any] = {"params": {"w": None, ...: 0}, ...: 0}
    mapped = ptk.vmap(weighted, in_axes=in_axes)
    in_axes["params"]["w"] = 0
    in_axes[...] = None
    assert_same(mapped(PARAMS, XS), XS @ PARAMS["w"])


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda fun: pickle.loads(pickle.dumps(fun))]
)
@pytest.mark.parametrize("checks", [True, False])
def test_copies(copied, checks):
    in_axes = {"params": {"w": None, ...: 0}, ...: 0}
    mapped = ptk.vmap(weighted, in_axes=in_axes, chunk_size=2, checks=checks)
    twin = copied(mapped)
    assert_same(twin(PARAMS, x=XS), XS @ PARAMS["w"])
    assert twin.check(PARAMS, 2.0) == mapped.check(PARAMS, 2.0) != ()
    error = raised(mapped, {"w": XS, "b": jnp.ones(4)}, XS)
    assert copied(error).repaired == error.repaired
