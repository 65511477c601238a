"""Drawn losses: blocks of all that ghost clipping knows and does not know, in one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax

from .ghost_cases import quintupled, tripled

ROWS, WIDTH, WORDS = 3, 4, 5


class Block(NamedTuple):
    """What a block takes, by name, and what it makes of rows: `(params, rows, ids) -> rows`."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    run: Callable[[Any, Any, Any], Any]


SIMPLE: list[Block] = []
W, B = (WIDTH, WIDTH), (WIDTH,)


def block(**shapes):
    def add(run):
        SIMPLE.append(Block(run.__name__, shapes, run))
        return run

    return add


@block(w=W, b=B)
def dense(p, h, ids):
    return jnp.tanh(h @ p["w"] + p["b"])


@block(w=(2, WIDTH + 1, 2))
def of_a_part(p, h, ids):
    return h + h @ p["w"].transpose(1, 2, 0).reshape(WIDTH + 1, WIDTH)[1:]


@block(w=(WIDTH * 2, WIDTH))
def in_two_parts(p, h, ids):
    above, below = jnp.split(p["w"], 2)
    return jnp.sin(h @ above) + h @ below[::-1].T


@block(w=(WIDTH, 1), u=(WIDTH, 2), v=(1, WIDTH))
def joined(p, h, ids):
    return jnp.tanh(h @ jnp.concatenate([p["w"], p["u"], p["v"].T], 1))


@block(q=(WIDTH, 2, 2), o=(2, 2, WIDTH))
def heads(p, h, ids):
    q = jnp.einsum("td,dhe->hte", h, p["q"])
    mixed = jnp.einsum("hts,hse->the", jax.nn.softmax(q @ q.transpose(0, 2, 1)), q)
    return h + jnp.einsum("the,hed->td", mixed, p["o"])


@block(w=(2, 2, 2))
def of_groups(p, h, ids):
    rows = jnp.einsum("gde,tgd->tge", p["w"], h.reshape(ROWS, 2, 2))
    return jnp.sin(rows.reshape(ROWS, WIDTH))


@block(g=B, b=B)
def normed(p, h, ids):
    centred = h - h.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 0.1) * p["g"] + p["b"]


@block(g=B)
def scaled(p, h, ids):
    return h * lax.rsqrt(jnp.square(h).mean(-1, keepdims=True) + 0.1) * (1 + p["g"])


@block(e=(WORDS, WIDTH))
def looked_up(p, h, ids):
    return h + p["e"][ids].mean(0)


@block(e=(WORDS, WIDTH))
def looked_up_and_out(p, h, ids):
    h = jnp.tanh(h + p["e"].at[ids].get(mode="clip")[:1])
    return h + (h @ p["e"].T) @ jnp.ones((WORDS, WIDTH))


@block(k=(2, WIDTH, WIDTH))
def convolved(p, h, ids):
    numbers = ("NWC", "WIO", "NWC")
    return jnp.tanh(lax.conv_general_dilated(h[None], p["k"], (1,), "SAME",
                                             dimension_numbers=numbers)[0])  # fmt: skip


@block(k=(2, 2, 1, 1, 1, 2))
def convolved_in_three_dimensions(p, h, ids):
    image = h.reshape(1, 1, ROWS, 2, 2)
    numbers = ("NCDHW", "DHWIO", "NCDHW")
    out = lax.conv_general_dilated(image, p["k"][0], (1, 1, 2), "SAME", dimension_numbers=numbers)
    return h + out.reshape(ROWS, WIDTH)


@block(w=W)
def used_twice(p, h, ids):
    return jnp.tanh(h @ p["w"]) @ p["w"]


@block(w=W)
def there_and_back(p, h, ids):
    return jnp.tanh(h @ p["w"]) @ p["w"].T


@block(w=W, a=(WIDTH, 1), b=(1, WIDTH))
def merged(p, h, ids):
    return jnp.tanh(h @ (p["w"] + 0.5 * (p["a"] @ p["b"])))


@block(a=(WIDTH, 1), b=(1, WIDTH))
def beside(p, h, ids):
    return h + (h @ p["a"]) @ p["b"]


@block(w=W, u=W)
def in_time(p, h, ids):
    def step(state, row):
        state = jnp.tanh(row @ p["w"] + state @ p["u"])
        return state, state

    return lax.scan(step, jnp.zeros(WIDTH), h, reverse=True)[1]


@block(w=W)
def of_a_rule(p, h, ids):
    return jnp.tanh(tripled(h, p["w"]))


@block(w=W)
def of_a_rule_forward(p, h, ids):
    return jnp.tanh(quintupled(h, p["w"]))


@block(w=W, u=W)
def either(p, h, ids):
    return lax.cond(h[0, 0] > 0, lambda h: h @ p["w"], lambda h: jnp.sin(h @ p["u"]), h)


@block(w=W)
def regularised(p, h, ids):
    return h @ p["w"] + 0.1 * jnp.sum(p["w"] ** 2)


@block(w=W)
def held_once(p, h, ids):
    return jnp.tanh(h @ p["w"]) @ lax.stop_gradient(p["w"])


def called(its: Block) -> Block:
    return its._replace(name=f"jit({its.name})", run=jax.jit(its.run))


def again(its: Block) -> Block:
    return its._replace(name=f"remat({its.name})", run=jax.checkpoint(its.run))


def twice(its: Block) -> Block:
    def run(p, h, ids):
        return its.run(p, its.run(p, h, ids), ids)

    return its._replace(name=f"twice({its.name})", run=run)


def layers(its: Block) -> Block:
    shapes = {name: (2, *shape) for name, shape in its.shapes.items()}

    def run(p, h, ids):
        return lax.scan(lambda h, layer: (its.run(layer, h, ids), None), h, p)[0]

    return Block(f"layers({its.name})", shapes, run)


def loop(its: Block) -> Block:
    def run(p, h, ids):
        return lax.fori_loop(0, 2, lambda _, h: its.run(p, h, ids), h)

    return its._replace(name=f"loop({its.name})", run=run)


def branch(its: Block) -> Block:
    def run(p, h, ids):
        return lax.cond(h[0, 0] > 0, lambda: its.run(p, h, ids), lambda: h)

    return its._replace(name=f"branch({its.name})", run=run)


def pair(one: Block, other: Block) -> Block:
    shapes = {f"{name}{at}": shape for at, its in enumerate((one, other))
              for name, shape in its.shapes.items()}  # fmt: skip

    def run(p, h, ids):
        for at, its in enumerate((one, other)):
            h = its.run({name: p[f"{name}{at}"] for name in its.shapes}, h, ids)
        return h

    return Block(f"{one.name}, {other.name}", shapes, run)


def _more(inner: st.SearchStrategy[Block]) -> st.SearchStrategy[Block]:
    one = (called, again, twice, layers, loop, branch)
    return st.builds(lambda how, its: how(its), st.sampled_from(one), inner) | st.builds(
        pair, inner, inner
    )


def blocks(most: int = 5) -> st.SearchStrategy[Block]:
    """Up to so many simple blocks, one after the other and in one another."""
    return st.recursive(st.sampled_from(SIMPLE), _more, max_leaves=most)


def problem(its: Block, examples: int = 3):
    """A loss, parameters and a batch."""
    numbers = np.random.default_rng(len(its.name))
    params = {name: numbers.normal(size=shape).astype("f") / 2
              for name, shape in its.shapes.items()}  # fmt: skip
    batch = {
        "h": numbers.normal(size=(examples, ROWS, WIDTH)).astype("f"),
        "ids": numbers.integers(-1, WORDS + 1, size=(examples, 3)),
    }

    def loss(params, example):
        h = its.run(params, example["h"], example["ids"])
        return jnp.sum(jnp.sin(h) ** 2)

    return loss, params, batch
