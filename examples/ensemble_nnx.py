"""Eight flax NNX models, initialised, trained and evaluated at once.

An NNX module is split into its graph definition, which all models share, and its state, a tree of
arrays: that is what is trained. A whole module is a tree too, so that eight of them in one are
evaluated as they stand.
"""

from typing import Any

import digits
import jax
import optax
from flax import nnx
from jax import Array

import pytreekit as ptk

MEMBERS = 8
OPTIMIZER = optax.adam(1e-2)


class Classifier(nnx.Module):
    """Ten logits for each image."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(64, 32, rngs=rngs)
        self.out = nnx.Linear(32, 10, rngs=rngs)

    def __call__(self, images: Array) -> Array:
        return self.out(nnx.relu(self.hidden(images)))


GRAPH, _ = nnx.split(Classifier(nnx.Rngs(0)))


def init(key: Array) -> tuple[nnx.State, optax.OptState]:
    _, params = nnx.split(Classifier(nnx.Rngs(key)))
    return params, OPTIMIZER.init(params)


def loss(params: nnx.State, images: Array, labels: Array) -> Array:
    logits = nnx.merge(GRAPH, params)(images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def step(params: Any, state: Any, images: Array, labels: Array) -> tuple[Any, Any, Array]:
    value, grads = jax.value_and_grad(loss)(params, images, labels)
    updates, state = OPTIMIZER.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def logits_of(model: Classifier, images: Array) -> Array:
    return model(images)


init_all = ptk.vmap(init, in_axes=ptk.SPLIT, axis_size=MEMBERS)
step_all = jax.jit(ptk.vmap(step, in_axes={"params": 0, "state": 0, ...: None}))
logits_of_all = ptk.vmap(logits_of, in_axes={"model": 0, "images": None})


def train(steps: int = 100) -> tuple[Classifier, Array]:
    """The trained models, stacked in one, and the loss of each at every step."""
    images, labels, *_ = digits.load()
    params, state = init_all(jax.random.key(0))
    losses = []
    for _ in range(steps):
        params, state, values = step_all(params, state, images, labels)
        losses.append(values)
    return nnx.merge(GRAPH, params), jax.numpy.stack(losses)


def main(steps: int = 100) -> None:
    models, losses = train(steps)
    *_, images, labels = digits.load()
    digits.report("flax NNX", losses[-1], logits_of_all(models, images), labels)


if __name__ == "__main__":
    main()
