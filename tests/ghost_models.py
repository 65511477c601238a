"""Small models of real kinds in the libraries that people use: `(loss, params, batch)`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

KEY = jax.random.key(0)
EXAMPLES = 3


def filled(made):
    """Numbers for shapes: to draw them would take longer than the test."""

    def fill(leaf):
        if not np.issubdtype(getattr(leaf, "dtype", np.dtype("O")), np.floating):
            return leaf
        return 0.5 * np.sin(np.arange(leaf.size) + len(leaf.shape)).reshape(leaf.shape).astype("f")

    return jax.tree.map(fill, made)


def entropy(logits, label):
    return -jax.nn.log_softmax(logits)[..., label].mean()


def a_gpt2_block_of_linen():
    nn = pytest.importorskip("flax.linen")
    words, length, width = 7, 4, 8

    class Block(nn.Module):
        @nn.compact
        def __call__(self, ids):
            embed = nn.Embed(words, width)
            x = embed(ids) + self.param("position", nn.initializers.zeros, (length, width))
            mask = nn.make_causal_mask(ids)
            x += nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=mask)
            x += nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(nn.LayerNorm()(x))))
            return embed.attend(nn.LayerNorm()(x))

    model, ids = Block(), np.arange(EXAMPLES * length).reshape(EXAMPLES, length) ** 2 % words

    def loss(params, ids):
        shares = jax.nn.log_softmax(model.apply(params, ids[:-1]))
        return -jnp.take_along_axis(shares, ids[1:, None], 1).sum()

    texts = np.concatenate([ids, ids[:, :1]], 1)
    return loss, filled(jax.eval_shape(model.init, KEY, ids[0])), texts


def a_resnet_block_of_haiku():
    haiku = pytest.importorskip("haiku")

    def net(image):
        def convolved(x, stride, size=3):
            return haiku.Conv2D(6, size, stride, with_bias=False)(x)

        def normed(x):
            return haiku.GroupNorm(2, create_scale=True, create_offset=True)(x)

        x = jax.nn.relu(normed(convolved(image[None], 1)))
        short = convolved(x, 2, 1)
        x = normed(convolved(jax.nn.relu(normed(convolved(x, 2))), 1))
        return haiku.Linear(5)(jax.nn.relu(x + short).mean((0, 1, 2)))

    model = haiku.without_apply_rng(haiku.transform(net))
    images = np.cos(np.arange(EXAMPLES * 6 * 6 * 3, dtype="f")).reshape(EXAMPLES, 6, 6, 3)

    def loss(params, image):
        return entropy(model.apply(params, image), 1)

    return loss, filled(jax.eval_shape(model.init, KEY, images[0])), images


def a_vit_of_nnx():
    nnx = pytest.importorskip("flax.nnx")
    width = 8

    class ViT(nnx.Module):
        def __init__(self, rngs):
            self.patches = nnx.Conv(3, width, (2, 2), (2, 2), padding="VALID", rngs=rngs)
            self.first = nnx.Param(jnp.zeros((1, width)))
            self.position = nnx.Param(jnp.zeros((5, width)))
            self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(3)])
            self.attention = nnx.MultiHeadAttention(2, width, decode=False, rngs=rngs)
            self.up = nnx.Linear(width, 2 * width, rngs=rngs)
            self.down = nnx.Linear(2 * width, width, rngs=rngs)
            self.head = nnx.Linear(width, 5, rngs=rngs)

        def __call__(self, image):
            patches = self.patches(image[None]).reshape(-1, width)
            x = jnp.concatenate([self.first[...], patches]) + self.position[...]
            x += self.attention(self.norms[0](x)[None])[0]
            x += self.down(nnx.gelu(self.up(self.norms[1](x))))
            return self.head(self.norms[2](x)[0])

    graph, params, rest = nnx.split(nnx.eval_shape(lambda: ViT(nnx.Rngs(0))), nnx.Param, ...)
    assert not jax.tree.leaves(rest)
    images = np.cos(np.arange(EXAMPLES * 4 * 4 * 3, dtype="f")).reshape(EXAMPLES, 4, 4, 3)

    def loss(params, image):
        return entropy(nnx.merge(graph, params, rest)(image), 2)

    return loss, filled(params), images


def an_rnn_of_equinox():
    eqx = pytest.importorskip("equinox")
    cell = filled(eqx.filter_eval_shape(eqx.nn.GRUCell, 3, 8, key=KEY))
    head = filled(eqx.filter_eval_shape(eqx.nn.Linear, 8, 5, key=KEY))
    steps = np.cos(np.arange(EXAMPLES * 5 * 3, dtype="f")).reshape(EXAMPLES, 5, 3)

    def loss(params, steps):
        cell, head = params

        def step(state, row):
            return cell(row, state), None

        last, _ = jax.lax.scan(step, jnp.zeros(8), steps)
        return entropy(head(last), 3)

    return loss, (cell, head), steps


MODELS = (
    a_gpt2_block_of_linen,
    a_resnet_block_of_haiku,
    a_vit_of_nnx,
    an_rnn_of_equinox,
)
