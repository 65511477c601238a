"""A small GPT in flax NNX, over eight devices: FSDP and tensor parallel, by `nnx.Optimizer`."""

from typing import Any

import gpt_training as gpt
import jax
from flax import nnx
from jax import Array


class Block(nnx.Module):
    """Attention and an MLP, each beside what it is added to."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        def dense(into: int, out: int) -> nnx.Linear:
            return nnx.Linear(into, out, use_bias=False, rngs=rngs)

        self.norm1, self.norm2 = (nnx.RMSNorm(gpt.WIDTH, rngs=rngs) for _ in range(2))
        self.query, self.key, self.value = (dense(gpt.WIDTH, gpt.WIDTH) for _ in range(3))
        self.out = dense(gpt.WIDTH, gpt.WIDTH)
        self.up, self.down = dense(gpt.WIDTH, 4 * gpt.WIDTH), dense(4 * gpt.WIDTH, gpt.WIDTH)

    def __call__(self, x: Array) -> Array:
        y = self.norm1(x)
        x = x + self.out(gpt.attend(self.query(y), self.key(y), self.value(y)))
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class GPT(nnx.Module):
    """Logits of the next token at each place."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(gpt.TOKENS, gpt.WIDTH, rngs=rngs)
        self.places = nnx.Embed(gpt.LENGTH, gpt.WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(gpt.BLOCKS)])
        self.norm = nnx.RMSNorm(gpt.WIDTH, rngs=rngs)
        self.logits = nnx.Linear(gpt.WIDTH, gpt.TOKENS, use_bias=False, rngs=rngs)

    def __call__(self, tokens: Array) -> Array:
        x = self.tokens(tokens) + self.places(jax.numpy.arange(gpt.LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x))


def training(optimizer: Any) -> gpt.Training:
    """The state is that of a model and its optimizer, which share one graph definition."""

    def both(key: Array) -> dict[str, Any]:
        model = GPT(nnx.Rngs(key))
        return {"model": model, "optimizer": nnx.Optimizer(model, optimizer, wrt=nnx.Param)}

    graph = nnx.graphdef(nnx.eval_shape(both, jax.random.key(0)))

    def step(state: nnx.State, tokens: Array) -> tuple[nnx.State, Array]:
        def loss(model: GPT) -> Array:
            return gpt.cross_entropy(model(tokens[:, :-1]), tokens)

        its = nnx.merge(graph, state)
        value, grads = nnx.value_and_grad(loss)(its["model"])
        its["optimizer"].update(its["model"], grads)
        return nnx.state(its), value

    return gpt.Training(lambda key: nnx.state(both(key)), lambda state: state["model"], step)


if __name__ == "__main__":
    gpt.run("flax NNX", training)
