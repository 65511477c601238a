"""A small GPT in flax linen, over eight devices: FSDP and tensor parallel, in a `TrainState`."""

from typing import Any

import gpt_training as gpt
import jax
from flax import linen as nn
from flax.training.train_state import TrainState
from jax import Array


class Block(nn.Module):
    """Attention and an MLP, each beside what it is added to."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        def dense(width: int, name: str) -> nn.Dense:
            return nn.Dense(width, use_bias=False, name=name)

        y = nn.RMSNorm(name="norm1")(x)
        mixed = gpt.attend(*(dense(gpt.WIDTH, name)(y) for name in ("query", "key", "value")))
        x = x + dense(gpt.WIDTH, "out")(mixed)
        hidden = nn.gelu(dense(4 * gpt.WIDTH, "up")(nn.RMSNorm(name="norm2")(x)))
        return x + dense(gpt.WIDTH, "down")(hidden)


class GPT(nn.Module):
    """Logits of the next token at each place."""

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        x = nn.Embed(gpt.TOKENS, gpt.WIDTH, name="tokens")(tokens)
        x = x + nn.Embed(gpt.LENGTH, gpt.WIDTH, name="places")(jax.numpy.arange(gpt.LENGTH))
        for number in range(gpt.BLOCKS):
            x = Block(name=f"block{number}")(x)
        return nn.Dense(gpt.TOKENS, use_bias=False, name="logits")(nn.RMSNorm(name="norm")(x))


def training(optimizer: Any) -> gpt.Training:
    """A `TrainState` has parameters and the optimizer's state; its functions pass by."""
    model = GPT()

    def create(key: Array) -> TrainState:
        params = model.init(key, gpt.batch(0)[:, :-1])
        return TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)

    def step(state: TrainState, tokens: Array) -> tuple[TrainState, Array]:
        def loss(params: Any) -> Array:
            return gpt.cross_entropy(state.apply_fn(params, tokens[:, :-1]), tokens)

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value

    return gpt.Training(create, lambda state: state.params, step)


if __name__ == "__main__":
    gpt.run("flax linen", training)
