"""The data of the tour, scikit-learn's handwritten digits, and a classifier of one of them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

HELD_BACK = 360
PIXELS, HIDDEN, CLASSES = 64, 32, 10
BRIGHTEST = 16.0

Params = dict[str, dict[str, Array]]


class Examples(NamedTuple):
    """Images, `f32[n,64]` from 0 to 1, and the digit that each shows, `i32[n]`."""

    images: Array
    labels: Array


class Digits(NamedTuple):
    """What to learn from, and what to test on."""

    train: Examples
    test: Examples


def load() -> Digits:
    """The digits in a shuffled order that is always the same."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images = jnp.asarray(images[order] / BRIGHTEST, jnp.float32)
    labels = jnp.asarray(labels[order], jnp.int32)
    return Digits(
        train=Examples(images[HELD_BACK:], labels[HELD_BACK:]),
        test=Examples(images[:HELD_BACK], labels[:HELD_BACK]),
    )


def new_params(key: Array) -> Params:
    """The classifier before it has learned anything."""
    hidden, out = jax.random.split(key)
    return {"hidden": _layer(hidden, PIXELS, HIDDEN), "out": _layer(out, HIDDEN, CLASSES)}


def _layer(key: Array, inputs: int, outputs: int) -> dict[str, Array]:
    weights = jax.random.normal(key, (inputs, outputs), jnp.float32) / inputs**0.5
    return {"w": weights, "b": jnp.zeros(outputs, jnp.float32)}


def predict(params: Params, image: Array) -> Array:
    """Ten logits for one image."""
    hidden = jnp.tanh(image @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["out"]["w"] + params["out"]["b"]


def loss(params: Params, image: Array, label: Array) -> Array:
    """The cross-entropy of one example."""
    return -jax.nn.log_softmax(predict(params, image))[label]
