"""A small GPT in Equinox, over eight devices: FSDP and tensor parallel of a module's arrays."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import gpt_training as gpt
import jax
import optax
from jax import Array

import pytreekit as ptk


class Block(eqx.Module):
    """Attention and an MLP, each beside what it is added to, for one text."""

    norm1: eqx.nn.RMSNorm
    norm2: eqx.nn.RMSNorm
    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    out: eqx.nn.Linear
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    activation: Callable[[Array], Array]

    def __init__(self, key: Array) -> None:
        keys = iter(jax.random.split(key, 6))

        def dense(into: int, out: int) -> eqx.nn.Linear:
            return eqx.nn.Linear(into, out, use_bias=False, key=next(keys))

        self.norm1, self.norm2 = (eqx.nn.RMSNorm(gpt.WIDTH, use_bias=False) for _ in range(2))
        self.query, self.key, self.value = (dense(gpt.WIDTH, gpt.WIDTH) for _ in range(3))
        self.out = dense(gpt.WIDTH, gpt.WIDTH)
        self.up, self.down = dense(gpt.WIDTH, 4 * gpt.WIDTH), dense(4 * gpt.WIDTH, gpt.WIDTH)
        self.activation = jax.nn.gelu

    def __call__(self, x: Array) -> Array:
        y = ptk.vmap(self.norm1)(x)
        mixed = gpt.attend(*(ptk.vmap(its)(y) for its in (self.query, self.key, self.value)))
        x = x + ptk.vmap(self.out)(mixed)
        return x + ptk.vmap(self._mlp)(x)

    def _mlp(self, x: Array) -> Array:
        return self.down(self.activation(self.up(self.norm2(x))))


class GPT(eqx.Module):
    """Logits of the next token at each place, of one text."""

    tokens: eqx.nn.Embedding
    places: eqx.nn.Embedding
    blocks: list[Block]
    norm: eqx.nn.RMSNorm
    logits: eqx.nn.Linear

    def __init__(self, key: Array) -> None:
        keys = jax.random.split(key, 3 + gpt.BLOCKS)
        self.tokens = eqx.nn.Embedding(gpt.TOKENS, gpt.WIDTH, key=keys[0])
        self.places = eqx.nn.Embedding(gpt.LENGTH, gpt.WIDTH, key=keys[1])
        self.blocks = [Block(key) for key in keys[3:]]
        self.norm = eqx.nn.RMSNorm(gpt.WIDTH, use_bias=False)
        self.logits = eqx.nn.Linear(gpt.WIDTH, gpt.TOKENS, use_bias=False, key=keys[2])

    def __call__(self, tokens: Array) -> Array:
        x = ptk.vmap(self.tokens)(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return ptk.vmap(lambda x: self.logits(self.norm(x)))(x)


def training(optimizer: Any) -> gpt.Training:
    """The state has the arrays of the module; its functions are kept aside."""

    def create(key: Array) -> dict[str, Any]:
        arrays, _ = ptk.partition(GPT(key), eqx.is_array)
        return {"model": arrays, "optimizer": optimizer.init(arrays)}

    functions, _ = ptk.partition(eqx.filter_eval_shape(GPT, jax.random.key(0)), callable)

    def step(state: dict[str, Any], tokens: Array) -> tuple[dict[str, Any], Array]:
        def loss(arrays: Any) -> Array:
            model = ptk.combine(arrays, functions)
            return gpt.cross_entropy(ptk.vmap(model)(tokens[:, :-1]), tokens)

        value, grads = jax.value_and_grad(loss)(state["model"])
        updates, its = optimizer.update(grads, state["optimizer"], state["model"])
        return {"model": optax.apply_updates(state["model"], updates), "optimizer": its}, value

    return gpt.Training(create, lambda state: state["model"], step)


if __name__ == "__main__":
    gpt.run("Equinox", training)
