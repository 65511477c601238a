"""Plans without arrays: abstract and symbolic batches, in chunks too; and whose `outputs` it is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import export

import pytreekit as ptk

XS = jax.ShapeDtypeStruct((10, 3), jnp.float32)
W = jax.ShapeDtypeStruct((3, 2), jnp.float32)
KEY = jax.eval_shape(lambda: jax.random.key(0))


def scaled(w, x, key):
    return x @ w * jax.random.uniform(key), w


def raised(fun, *args, **kwargs):
    with pytest.raises(ptk.SpecError) as caught:
        fun(*args, **kwargs)
    return caught.value


# ---- abstract arguments, in chunks --------------------------------------------------------------

FORMS = {
    "positions": (None, 0, ptk.SPLIT),
    "names": {"w": None, "x": 0, "key": ptk.SPLIT},
    "functions": (lambda leaf: None, ptk.if_array(0), ptk.SPLIT),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk_size", [1, 4, 10, 11])
def test_a_plan_of_abstract_arguments_is_that_of_the_whole_batch(form, chunk_size):
    whole = ptk.vmap(scaled, FORMS[form], (0, None))
    mapped = whole.in_chunks(chunk_size)
    assert mapped.check(W, XS, KEY) == ()
    assert mapped.plan(W, XS, KEY, outputs=True) == whole.plan(W, XS, KEY, outputs=True)
    wrong = jax.ShapeDtypeStruct((), jnp.float32)
    assert mapped.check(W, wrong, KEY) == whole.check(W, wrong, KEY) != ()


def test_a_call_of_abstract_arguments_is_refused():
    with pytest.raises(TypeError, match="chunks cannot be taken of a ShapeDtypeStruct"):
        ptk.vmap(lambda x: x, chunk_size=4)(XS)


# ---- symbolic sizes, in chunks ------------------------------------------------------------------


def symbolic(*constraints):
    (size,) = export.symbolic_shape("b", constraints=constraints)
    return jax.ShapeDtypeStruct((size, 3), jnp.float32)


def test_a_batch_that_may_be_less_than_a_chunk():
    mapped = ptk.vmap(lambda x: x + 1, chunk_size=4)
    error = raised(mapped.plan, symbolic())
    assert str(error) == (
        "vmap(<lambda>): 1 fault in in_axes, found before tracing\n\n"
        "  PTK104  chunks cannot be taken of a batch of b, which may be less than one\n"
        "      chunk_size = 4, jax.export must know more: constraints=['b >= 5']"
    )
    assert mapped.check(symbolic()) == error.faults
    assert raised(export.export(jax.jit(mapped)), symbolic()).faults == error.faults
    assert mapped.check(symbolic("b <= 4")) == ()


def test_a_batch_that_is_more_than_a_chunk():
    mapped = ptk.vmap(lambda x: (x + 1, 2.0), 0, (0, None), chunk_size=4)
    xs = symbolic("b >= 5")
    assert mapped.plan(xs, outputs=True).outputs[0].found == "f32[b,3]"
    exported = export.export(jax.jit(mapped))(xs)
    for size in (5, 8):
        out, constant = exported.call(jnp.zeros((size, 3)))
        assert (out == 1).all()
        assert (out.shape, constant) == ((size, 3), 2)


# ---- whose keyword `outputs` is -----------------------------------------------------------------


def named(x, outputs=1):
    return x * outputs


def only_by_keyword(x, *, outputs=1):
    return x * outputs


def any_keyword(x, **options):
    return x


def no_keyword(outputs, /):
    return outputs


def extras(*outputs):
    return outputs


def planned(fun, *args, **kwargs):
    """The arguments that a plan has, and whether it has outputs."""
    plan = ptk.vmap(fun, {"outputs": None, ...: 0}).plan(*args, **kwargs)
    return [leaf.argument for leaf in plan.leaves], plan.outputs is not None


@pytest.mark.parametrize("value", [XS, True, False, None, 2.0])
def test_a_parameter_of_the_function_gets_its_keyword(value):
    expected = ["x"] if value is None else ["x", "outputs"]
    for fun in (named, only_by_keyword):
        assert planned(fun, XS, outputs=value) == (expected, False)


def test_the_keyword_is_the_plans_where_it_is_free():
    for fun, args in ((named, (XS, 2.0)), (any_keyword, (XS,))):
        assert planned(fun, *args, outputs=True)[1]
        assert not planned(fun, *args, outputs=False)[1]
    for fun in (no_keyword, extras, jnp.sin):
        assert ptk.vmap(fun).plan(XS, outputs=True).outputs is not None


def test_what_is_no_bool_is_caught_by_the_function():
    assert planned(any_keyword, XS, outputs=XS) == (["x", "outputs"], False)


def test_a_method_with_such_a_parameter():
    class Model:
        @ptk.vmap(in_axes={"x": 0, "outputs": None})
        def apply(self, x, outputs):
            return x

        @ptk.vmap(in_axes={"x": 0})
        def plain(self, x):
            return x

    leaves = Model().apply.plan(XS, outputs=True).leaves
    assert [(leaf.argument, leaf.axis) for leaf in leaves][1:] == [("x", 0), ("outputs", None)]
    assert Model().plain.plan(XS, outputs=True).outputs[0].found == "f32[10,3]"
    assert Model().plain.plan(XS).outputs is None
