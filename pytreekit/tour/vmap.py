"""The part about `ptk.vmap`: train through it, see its plan, get a spec wrong, use the repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax import Array

import pytreekit as ptk

from .digits import Digits, Examples, Params, loss, new_params, predict
from .screen import Screen

EPOCHS = 30
BATCH = 32
RATE = 0.2

CODE, ERROR, RESULT = "green", "red", "bold"

IN_AXES = (None, 0, 0)
WRONG = ({"hidden": None, "out": {"w": None, "bias": None}}, 0, 1)
"""The bias is called `b`, and labels have no axis 1."""


def run(screen: Screen, digits: Digits) -> None:
    """Show a checked vmap."""
    params = _train(screen, digits)
    _plan(screen, params, digits.test)
    repaired = _get_wrong(screen, params, digits.test)
    _repair(screen, repaired, params, digits.test)


def train_step(params: Params, images: Array, labels: Array) -> tuple[Params, Array]:
    """One step of gradient descent on a batch."""

    def batch_loss(params: Params) -> Array:
        return ptk.vmap(loss, in_axes=(None, 0, 0))(params, images, labels).mean()

    value, gradient = jax.value_and_grad(batch_loss)(params)
    return jax.tree.map(lambda old, slope: old - RATE * slope, params, gradient), value


def accuracy(params: Params, examples: Examples) -> float:
    """The share of the images whose largest logit is that of their digit."""
    logits = ptk.vmap(predict, in_axes=(None, 0))(params, examples.images)
    return float(np.mean(np.argmax(logits, axis=1) == examples.labels))


def _train(screen: Screen, digits: Digits) -> Params:
    screen.heading("Train a classifier that is written for one image, mapped over a batch")
    screen.source(loss)
    screen.source(train_step)
    params = trained(screen, digits.train, np.random.default_rng(1), EPOCHS)
    screen.say()
    for name, examples in digits._asdict().items():
        screen.quote(f"{name} accuracy {accuracy(params, examples):.1%}", RESULT)
    return params


def trained(
    screen: Screen,
    examples: Examples,
    shuffled: np.random.Generator,
    epochs: int,
    note: str = "",
) -> Params:
    """A classifier that has learned from examples for so many epochs, each of them told."""
    params, step = new_params(jax.random.key(0)), jax.jit(train_step)
    with screen.progress("epoch", epochs) as advance:
        for _ in range(epochs):
            values = []
            for images, labels in batches(examples, shuffled):
                params, value = step(params, images, labels)
                values.append(value)
            advance(f"loss {np.mean(values):.3f}{note}")
    return params


def batches(examples: Examples, shuffled: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """The examples in a new order. The last few that fill no batch wait for the next time."""
    count = len(examples.labels) // BATCH
    order = shuffled.permutation(len(examples.labels))
    chosen = order[: count * BATCH].reshape(count, BATCH)
    return zip(examples.images[chosen], examples.labels[chosen], strict=True)


def _plan(screen: Screen, params: Params, examples: Examples) -> None:
    screen.heading("See what a call would do with each leaf; nothing is traced")
    screen.quote("print(ptk.vmap(loss, in_axes=(None, 0, 0)).plan(params, images, labels))\n", CODE)
    screen.table(ptk.vmap(loss, in_axes=IN_AXES).plan(params, *examples))


def _get_wrong(screen: Screen, params: Params, examples: Examples) -> Any:
    screen.heading("Write the spec wrong: the bias is called 'b', and labels have no axis 1")
    screen.quote(f"in_axes = {WRONG}\n", CODE)
    screen.say("What jax.vmap(loss, in_axes) says of this call:\n")
    screen.quote(_told(_refusal(jax.vmap(loss, in_axes=WRONG), params, *examples)), ERROR)
    screen.say("\nWhat ptk.vmap(loss, in_axes) says, before loss is entered:\n")
    refused = _refusal(ptk.vmap(loss, in_axes=WRONG), params, *examples)
    screen.quote(_told(refused), ERROR)
    return refused.repaired


def _refusal(mapped: Callable[..., Any], *args: Any) -> Any:
    """The error that a call raises."""
    try:
        mapped(*args)
    except ValueError as error:
        return error
    raise AssertionError("this call should have been refused")


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).rstrip()}"


def _repair(screen: Screen, repaired: Any, params: Params, examples: Examples) -> None:
    screen.heading("Call again with the repair, which the error carries along")
    screen.quote(f"error.repaired = {repaired}\n", CODE)
    losses = ptk.vmap(loss, in_axes=repaired)(params, *examples)
    same = np.array_equal(losses, jax.vmap(loss, in_axes=IN_AXES)(params, *examples))
    screen.quote(f"{losses.shape[0]} losses, their mean is {losses.mean():.3f}", RESULT)
    screen.quote(f"the same numbers as from jax.vmap(loss, in_axes={IN_AXES}): {same}")
