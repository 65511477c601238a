"""The losses of one example that `per_example.py` differentiates, with parameters and a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Loss = Callable[[Any, Any], Array]


class Model(NamedTuple):
    """A loss of `(params, example)`, parameters, and a batch."""

    name: str
    loss: Loss
    params: Any
    batch: Any


def _normal(key: Array, *shape: int, fan_in: int = 0) -> Array:
    return jax.random.normal(key, shape) / math.sqrt(fan_in or shape[0])


def _cross_entropy(logits: Array, label: Array) -> Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), label[..., None], -1).mean()


def mlp(sizes: tuple[int, ...] = (784, 512, 512, 10), examples: int = 128) -> Model:
    """Four layers of units, as wide as that."""
    keys = jax.random.split(jax.random.key(0), 5)
    params = [
        {"w": _normal(key, here, there), "b": jnp.zeros(there)}
        for key, here, there in zip(keys[:3], sizes[:-1], sizes[1:], strict=True)
    ]

    def loss(params: Any, example: Any) -> Array:
        hidden, label = example
        for layer in params[:-1]:
            hidden = jax.nn.relu(hidden @ layer["w"] + layer["b"])
        return _cross_entropy(hidden @ params[-1]["w"] + params[-1]["b"], label)

    labels = jax.random.randint(keys[4], (examples,), 0, sizes[-1])
    return Model("MLP", loss, params, (jax.random.normal(keys[3], (examples, sizes[0])), labels))


def convnet(side: int = 28, width: int = 64, examples: int = 64) -> Model:
    """Two convolutions and two dense layers, over square images."""
    keys = jax.random.split(jax.random.key(1), 6)
    params = {
        "conv1": _normal(keys[0], 3, 3, 1, 16, fan_in=9),
        "conv2": _normal(keys[1], 3, 3, 16, 32, fan_in=144),
        "dense1": _normal(keys[2], 2 * side**2, width),
        "dense2": _normal(keys[3], width, 10),
    }
    layout = ("NHWC", "HWIO", "NHWC")

    def loss(params: Any, example: Any) -> Array:
        image, label = example
        hidden = image[None]
        for name in ("conv1", "conv2"):
            convolved = lax.conv_general_dilated(
                hidden, params[name], (2, 2), "SAME", dimension_numbers=layout
            )
            hidden = jax.nn.relu(convolved)
        hidden = jax.nn.relu(hidden.reshape(-1) @ params["dense1"])
        return _cross_entropy(hidden @ params["dense2"], label)

    labels = jax.random.randint(keys[5], (examples,), 0, 10)
    images = jax.random.normal(keys[4], (examples, side, side, 1))
    return Model("convnet", loss, params, (images, labels))


def transformer(
    words: int = 1000, length: int = 64, width: int = 128, heads: int = 4, examples: int = 32
) -> Model:
    """One causal block between an embedding and an output layer."""
    keys = jax.random.split(jax.random.key(2), 9)
    params = {
        "embedding": _normal(keys[0], words, width, fan_in=400),
        "position": _normal(keys[1], length, width, fan_in=400),
        "attention": _normal(keys[2], width, 3 * width),
        "out": _normal(keys[3], width, width),
        "scales": jnp.ones((3, width)),
        "up": _normal(keys[4], width, 4 * width),
        "down": _normal(keys[5], 4 * width, width),
        "words": _normal(keys[6], width, words),
    }
    mask = np.tril(np.ones((length, length), bool))

    def normed(x: Array, scale: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * scale

    def attended(params: Any, x: Array) -> Array:
        parts = (x @ params["attention"]).reshape(length, heads, 3 * width // heads)
        query, key, value = jnp.split(parts, 3, -1)
        scores = jnp.einsum("thd,shd->hts", query, key) / math.sqrt(width // heads)
        shares = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        mixed = jnp.einsum("hts,shd->thd", shares, value).reshape(length, width)
        return mixed @ params["out"]

    def loss(params: Any, example: Any) -> Array:
        text, following = example
        x = params["embedding"][text] + params["position"]
        x += attended(params, normed(x, params["scales"][0]))
        hidden = jax.nn.gelu(normed(x, params["scales"][1]) @ params["up"])
        x += hidden @ params["down"]
        return _cross_entropy(normed(x, params["scales"][2]) @ params["words"], following)

    texts = jax.random.randint(keys[7], (2, examples, length), 0, words)
    return Model("transformer block", loss, params, (texts[0], texts[1]))


def scanned(
    layers: int = 8, length: int = 32, width: int = 128, examples: int = 32, *, again: bool = False
) -> Model:
    """Stacked layers under `lax.scan`, over sequences; maybe `again` in the backward pass."""
    keys = jax.random.split(jax.random.key(3), 4)
    params = {
        "up": _normal(keys[0], layers, width, 2 * width, fan_in=width),
        "down": _normal(keys[1], layers, 2 * width, width, fan_in=2 * width),
    }

    def loss(params: Any, example: Any) -> Array:
        sequence, wanted = example

        def layer(x: Array, its: Any) -> tuple[Array, None]:
            return x + jnp.tanh(x @ its["up"]) @ its["down"], None

        one = jax.checkpoint(layer) if again else layer
        return jnp.square(lax.scan(one, sequence, params)[0] - wanted).mean()

    batch = jax.random.normal(keys[2], (2, examples, length, width))
    name = f"{layers} scanned layers" + ", computed again" * again
    return Model(name, loss, params, (batch[0], batch[1]))


def recomputed() -> Model:
    """The same under `jax.checkpoint`."""
    return scanned(again=True)


MODELS = (mlp, convnet, transformer, scanned, recomputed)
