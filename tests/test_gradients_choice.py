"""What a loss takes is counted, `"auto"` chooses by it, and plans and faults tell it."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import pytreekit as ptk
from pytreekit.gradients.estimates import CPU, Estimates
from pytreekit.gradients.ghost.work import work
from pytreekit.gradients.reading import read

from .quick import jit


def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


def read_of(loss, params, batch):
    """What a loss of one example takes."""
    found = read(ptk.clipped_grad(loss, 1.0)._mapped, (params, batch), {})
    assert found.failed == ""
    return found.work


def wide(p, x):
    return jnp.sum(jnp.tanh(jnp.tanh(x @ p["w"]) @ p["u"] + p["b"]))


WIDE = {"w": shape(300, 200), "u": shape(200, 100), "b": shape(100)}


def test_operations_are_those_that_xla_counts():
    def net(x, w, kernel):
        image = lax.conv_general_dilated(x, kernel, (1, 1), "VALID")
        return jnp.einsum("bcij,jk->bcik", image, w)

    given = shape(2, 3, 12, 10), shape(6, 7), shape(4, 3, 3, 5)
    counted = jax.jit(net).lower(*given).cost_analysis()["flops"]
    assert work(jax.make_jaxpr(net)(*given).jaxpr).flops == pytest.approx(counted, rel=0.01)


def test_what_is_counted_of_each_parameter():
    def loss(p, ids):
        h, _ = lax.scan(lambda h, w: (h @ w, None), p["e"][ids], p["w"])
        return jnp.sum(h @ p["u"] + p["b"])

    params = {"e": shape(50, 8), "w": shape(3, 8, 8), "u": shape(8, 20), "b": shape(20)}
    its = read_of(loss, params, jax.ShapeDtypeStruct((16, 2), jnp.int32))
    bias, table, last, stack = its.leaves
    assert (bias.how, bias.size, bias.recognised) == ("itself", 80, False)
    assert (table.how, table.size, table.formed) == ("ghost", 50 * 8 * 4, 2 * 8)
    assert (last.formed, last.normed) == (2 * 2 * 8 * 20, 2 * 4 * (8 + 20))
    assert (stack.formed, stack.normed) == (3 * 2 * 2 * 8 * 8, 3 * 2 * 4 * (8 + 8))
    assert (last.kept, stack.kept) == (4 * 2 * (8 + 20), 3 * 4 * 2 * (8 + 8))
    assert its.used == table.formed + last.formed + stack.formed
    assert its.forward.products == its.used - table.formed
    assert [leaf.source.endswith(" (loss)") for leaf in its.leaves] == [True] * 3 + [False]


def test_a_gradient_that_is_added_to_in_each_step_moves_as_often():
    def recurrent(p, x):
        return jnp.sum(lax.scan(lambda h, x: (jnp.tanh(x @ p + h @ p), None), x[0], x)[0])

    [leaf] = read_of(recurrent, shape(40, 40), shape(8, 100, 40)).leaves
    assert leaf.added == 200
    plan = ptk.clipped_grad(recurrent, 1.0).plan(shape(40, 40), shape(32, 100, 40))
    assert plan.method == "ghost"


def narrow(p, x):
    return jnp.sum(jnp.tanh(x @ p) ** 2)


LONG = shape(64, 400, 32)


@pytest.mark.parametrize(
    ("loss", "params", "batch", "method"),
    [(wide, WIDE, shape(64, 300), "ghost"), (narrow, shape(32, 32), LONG, "materialize")],
)
def test_the_method_that_costs_least(loss, params, batch, method):
    plan = ptk.clipped_grad(loss, 1.0).plan(params, batch)
    assert plan.method == method
    costs = [its.cost for its in plan.estimates]
    assert costs == sorted(costs)
    assert plan.estimates[0][:2] == (plan.method, plan.chunk_size)
    assert {its.method for its in plan.estimates} >= {"ghost", "materialize", "two_pass"}
    assert all(word in str(plan) for word in ("estimated", "GFLOPs", method))
    assert ptk.clipped_grad(loss, 1.0, chunk_size=8).plan(params, batch).chunk_size == 8


def test_little_is_not_read():
    plan = ptk.clipped_grad(wide, 1.0).plan({"w": shape(3, 2), "u": shape(2, 2), "b": 0.0},
                                            shape(8, 3))  # fmt: skip
    assert (plan.method, plan.estimates) == ("materialize", ())


def test_several_norms_and_effects_go_without_a_second_evaluation():
    def printing(p, x):
        jax.debug.print("{}", x[0])
        return wide(p, x)

    batch = shape(64, 300)
    for memory in (None, 2**20, 1):
        for over in (
            ptk.clipped_grad(wide, {"w": 1.0, ...: 2.0}, memory=memory),
            ptk.clipped_grad(printing, 1.0, memory=memory),
        ):
            plan = over.plan(WIDE, batch)
            assert {its.method for its in plan.estimates} == {"ghost", "materialize"}
            assert plan.method in ("ghost", "materialize")


def test_an_ordered_effect_is_left_to_gradients_side_by_side():
    def printing(p, x):
        jax.debug.print("{}", x[0], ordered=True)
        return wide(p, x)

    plan = ptk.clipped_grad(printing, 1.0).plan(WIDE, shape(64, 300))
    assert plan.method == "materialize"
    assert plan.reason.startswith("the effects of debug_print cannot be kept in order; ")


def deep(p, x):
    layer = jax.checkpoint(lambda h, w: (jnp.tanh(h @ w), None))
    return jnp.sum(lax.scan(layer, x, p)[0] ** 2)


def test_a_memory_that_is_given_decides():
    params, batch = shape(12, 64, 64), shape(64, 16, 64)
    found = {}
    for memory in (2**25, 2**22, 2**21):
        plan = ptk.clipped_grad(deep, 1.0, memory=memory).plan(params, batch)
        [its] = [way for way in plan.estimates if way.method == plan.method]
        assert its.memory <= memory
        found[memory] = its.cost
    assert found[2**21] >= found[2**22] >= found[2**25]
    plan = ptk.clipped_grad(deep, 1.0, memory=1000).plan(params, batch)
    assert "more than it should" in plan.reason
    for method in ("ghost", "materialize"):
        plan = ptk.clipped_grad(deep, 1.0, method=method, memory=2**21).plan(params, batch)
        assert plan.method == method
        assert plan.chunk_size is not None


def test_estimates_grow_with_what_is_held_and_with_chunks():
    its = Estimates(read_of(wide, WIDE, shape(64, 300)), 64, CPU)
    sizes = [its.of("materialize", chunk).memory for chunk in (1, 8, 64)]
    assert sizes == sorted(sizes)
    assert its.of("ghost", 1).cost > its.of("ghost", 8).cost > its.of("ghost", None).cost
    assert its.of("ghost", None)[1:] == its.of("ghost", 64)._replace(chunk_size=None)[1:]
    assert its.of("two_pass", None).flops > 1.5 * its.of("ghost", None).flops
    assert len(list(its.all(("ghost",)))) == 1 + math.log2(64)


def test_a_loss_is_read_once():
    traced = []

    def counted(p, x):
        traced.append(1)
        return wide(p, x)

    over = ptk.clipped_grad(counted, 1.0)
    params = jax.tree.map(lambda its: jnp.ones(its.shape) / 100, WIDE)
    xs = jnp.ones((64, 300))
    gradient, _ = jit(over)(params, xs)
    assert len(traced) == 2
    side, _ = jit(ptk.clipped_grad(wide, 1.0, method="materialize"))(params, xs)
    assert float(jnp.abs(gradient["w"] - side["w"]).max()) < 1e-5
    over.plan(params, xs)
    assert len(traced) == 3  # to look at what it returns


def test_the_plan_names_leaf_line_and_what_it_takes():
    over = ptk.clipped_grad(wide, 1.0, method="ghost")
    plan = over.plan(WIDE, shape(64, 300))
    line = f"test_gradients_choice.py:{wide.__code__.co_firstlineno + 1} (wide)"
    assert {leaf.source for leaf in plan.gradients} == {line}
    assert [leaf.flops for leaf in plan.gradients] == [0, 600 + 40_000, 1_000 + 120_000]
    assert line in str(plan)
    norms = ptk.per_example_norms(wide).plan(WIDE, shape(64, 300))
    assert [leaf.bytes for leaf in norms.gradients] == [400, 4, 4]


def test_strict_makes_what_dominates_a_fault():
    def normed(p, x):
        w = p["w"] / jnp.linalg.norm(p["w"])
        return jnp.sum(jnp.tanh(x @ w) @ p["u"])

    params, batch = {"u": shape(200, 50), "w": shape(300, 200)}, shape(64, 300)
    each, memory = 300 * 200 * 4, 2**22
    options = {"method": "ghost", "memory": memory, "strict": True}
    over = ptk.clipped_grad(normed, 1.0, chunk_size=64, **options)
    [fault] = over.check(params, batch)
    line = normed.__code__.co_firstlineno + 1
    assert (fault.code, fault.place, fault.found) == ("PTK410", "p['w']", "f32[300,200]")
    assert fault.fact == f"the gradients of 64 examples take {64 * each:,} bytes"
    assert fault.note.endswith(f"at test_gradients_choice.py:{line} (normed)")
    for call in (over.plan, lambda *given: jax.eval_shape(over, *given)):
        with pytest.raises(ptk.SpecError, match="PTK410"):
            call(params, batch)
    assert ptk.clipped_grad(normed, 1.0, **options).check(params, batch) == ()  # in chunks it fits
    assert ptk.clipped_grad(wide, 1.0, **options).check(WIDE, batch) == ()
    side = ptk.clipped_grad(normed, 1.0, chunk_size=64, **{**options, "method": "materialize"})
    [fault] = side.check(params, batch)
    assert fault.note == "method='materialize' forms them"
