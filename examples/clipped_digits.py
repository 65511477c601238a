"""Digits learned with and without clipping: gradients of single examples, clipped to a norm of 1.

Both classifiers take the same steps on the same batches, side by side: what clips is mapped over
the clip norm. What is left to make the clipped one private is the noise, and an account of it.
"""

import sys
from pathlib import Path
from typing import Any

import digits
import jax
import jax.numpy as jnp
import optax
import plot
from jax import Array
from rich.progress import Progress

import pytreekit as ptk

CLIP_NORMS = {"clipped to 1": 1.0, "not clipped": jnp.inf}
BATCH, EVERY = 64, 50
OPTIMIZER = optax.sgd(0.1, momentum=0.9)


def init(key: Array) -> tuple[Any, optax.OptState]:
    hidden, out = jax.random.split(key)
    params = {
        "hidden": {"w": jax.random.normal(hidden, (64, 32)) / 8, "b": jnp.zeros(32)},
        "out": {"w": jax.random.normal(out, (32, 10)) / 32**0.5, "b": jnp.zeros(10)},
    }
    return params, OPTIMIZER.init(params)


def predict(params: Any, image: Array) -> Array:
    hidden = jnp.tanh(image @ params["hidden"]["w"] + params["hidden"]["b"])
    return hidden @ params["out"]["w"] + params["out"]["b"]


def loss(params: Any, image: Array, label: Array) -> Array:
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, image), label)


def step(clip_norm: Array, params: Any, state: Any, images: Array, labels: Array) -> Any:
    clipped = ptk.clipped_grad(loss, clip_norm, reduction="mean")
    gradient, _ = clipped(params, images, labels)
    updates, state = OPTIMIZER.update(gradient, state)
    return optax.apply_updates(params, updates), state


step_all = ptk.vmap(step, in_axes={"clip_norm": 0, "params": 0, "state": 0, ...: None})


@jax.jit
def train(params: Any, state: Any, images: Array, labels: Array, keys: Array) -> Any:
    """One step of each for every key, which draws the batch."""
    clip_norms = jnp.array([*CLIP_NORMS.values()])

    def one(carry: Any, key: Array) -> Any:
        drawn = jax.random.choice(key, len(labels), (BATCH,), replace=False)
        return step_all(clip_norms, *carry, images[drawn], labels[drawn]), None

    return jax.lax.scan(one, (params, state), keys)[0]


@jax.jit
def accuracies(params: Any, images: Array, labels: Array) -> Array:
    """The share of the images that each classifier reads right."""
    of_one = ptk.vmap(predict, in_axes={"image": 0, ...: None})
    logits = ptk.vmap(of_one, in_axes={"params": 0, ...: None})(params, images)
    return (logits.argmax(-1) == labels).mean(-1)


def main(steps: int = 2000) -> str:
    """Train both, print how well they read, and return the plot."""
    images, labels, tested, wanted = digits.load()
    params, state = ptk.stack([init(jax.random.key(0))] * len(CLIP_NORMS))
    keys = jax.random.split(jax.random.key(1), (steps // EVERY, EVERY))
    seen = [accuracies(params, tested, wanted)]
    with Progress() as progress:
        task = progress.add_task("steps", total=steps)
        for some in keys:
            params, state = train(params, state, images, labels, some)
            seen.append(accuracies(params, tested, wanted))
            progress.advance(task, EVERY)
    curves = dict(zip(CLIP_NORMS, jnp.stack(seen).T.tolist(), strict=True))
    for name, shares in curves.items():
        print(f"{name}: {shares[-1]:.1%} of {len(wanted)} test images after {steps:,} steps")
    return plot.lines(range(0, steps + 1, EVERY), curves, "steps")


if __name__ == "__main__":
    drawn = main()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(drawn)
