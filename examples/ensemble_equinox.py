"""Eight Equinox models, initialised, trained and evaluated at once.

An Equinox module holds functions beside its arrays. As an argument it needs no ceremony:
`ptk.if_array(0)` maps its arrays and shares the rest. What a mapped function returns must be
arrays, so `init` and `step` return the arrays of a model, and `ptk.combine` completes them.
"""

from typing import Any

import digits
import equinox as eqx
import jax
import optax
from jax import Array

import pytreekit as ptk

MEMBERS = 8
OPTIMIZER = optax.adam(1e-2)


def new_model(key: Array) -> eqx.nn.MLP:
    return eqx.nn.MLP(64, 10, width_size=32, depth=1, key=key)


_, FUNCTIONS = ptk.partition(new_model(jax.random.key(0)), eqx.is_array)


def init(key: Array) -> tuple[Any, optax.OptState]:
    arrays, _ = ptk.partition(new_model(key), eqx.is_array)
    return arrays, OPTIMIZER.init(arrays)


def loss(arrays: Any, images: Array, labels: Array) -> Array:
    logits = ptk.vmap(ptk.combine(arrays, FUNCTIONS))(images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def step(arrays: Any, state: Any, images: Array, labels: Array) -> tuple[Any, Any, Array]:
    value, grads = jax.value_and_grad(loss)(arrays, images, labels)
    updates, state = OPTIMIZER.update(grads, state, arrays)
    return optax.apply_updates(arrays, updates), state, value


def logits_of(model: eqx.nn.MLP, images: Array) -> Array:
    return ptk.vmap(model)(images)


init_all = ptk.vmap(init, in_axes=ptk.SPLIT, axis_size=MEMBERS)
step_all = jax.jit(ptk.vmap(step, in_axes={"arrays": 0, "state": 0, ...: None}))
logits_of_all = ptk.vmap(logits_of, in_axes={"model": ptk.if_array(0), "images": None})


def train(steps: int = 100) -> tuple[eqx.nn.MLP, Array]:
    """The trained models, stacked in one, and the loss of each at every step."""
    images, labels, *_ = digits.load()
    arrays, state = init_all(jax.random.key(0))
    losses = []
    for _ in range(steps):
        arrays, state, values = step_all(arrays, state, images, labels)
        losses.append(values)
    return ptk.combine(arrays, FUNCTIONS), jax.numpy.stack(losses)


def main(steps: int = 100) -> None:
    models, losses = train(steps)
    *_, images, labels = digits.load()
    digits.report("Equinox", losses[-1], logits_of_all(models, images), labels)


if __name__ == "__main__":
    main()
