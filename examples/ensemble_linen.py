"""Eight flax linen models, initialised, trained and evaluated at once.

A linen model is its parameters and two functions. `TrainState` is a tree like any other, so one
axis for it maps the parameters, the state of the optimizer and the count of steps.
"""

import digits
import jax
import optax
from flax import linen as nn
from flax.training.train_state import TrainState
from jax import Array

import pytreekit as ptk

MEMBERS = 8
OPTIMIZER = optax.adam(1e-2)
MODEL = nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(10)])


def init(key: Array, images: Array) -> TrainState:
    params = MODEL.init(key, images)["params"]
    return TrainState.create(apply_fn=MODEL.apply, params=params, tx=OPTIMIZER)


def loss(params: dict, images: Array, labels: Array) -> Array:
    logits = MODEL.apply({"params": params}, images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def step(state: TrainState, images: Array, labels: Array) -> tuple[TrainState, Array]:
    value, grads = jax.value_and_grad(loss)(state.params, images, labels)
    return state.apply_gradients(grads=grads), value


def logits_of(params: dict, images: Array) -> Array:
    return MODEL.apply({"params": params}, images)


init_all = ptk.vmap(init, in_axes={"key": ptk.SPLIT, ...: None}, axis_size=MEMBERS)
step_all = jax.jit(ptk.vmap(step, in_axes={"state": 0, ...: None}))
logits_of_all = ptk.vmap(logits_of, in_axes={"params": 0, "images": None})


def train(steps: int = 100) -> tuple[dict, Array]:
    """The trained parameters, stacked, and the loss of each model at every step."""
    images, labels, *_ = digits.load()
    state = init_all(jax.random.key(0), images)
    losses = []
    for _ in range(steps):
        state, values = step_all(state, images, labels)
        losses.append(values)
    return state.params, jax.numpy.stack(losses)


def main(steps: int = 100) -> None:
    params, losses = train(steps)
    *_, images, labels = digits.load()
    digits.report("flax linen", losses[-1], logits_of_all(params, images), labels)


if __name__ == "__main__":
    main()
