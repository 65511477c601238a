"""The part about what goes beyond `jax.vmap`: an ensemble, by name, of a key that splits."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

import pytreekit as ptk

from .digits import Digits, Params, new_params, predict
from .screen import Screen
from .vmap import RESULT, batches, train_step

MEMBERS = 5
EPOCHS = 10
CHUNK = 120


def run(screen: Screen, digits: Digits) -> None:
    """Train several classifiers at once and let them vote."""
    screen.heading(f"Train {MEMBERS} of them at once: a key that splits, axes by parameter name")
    screen.source(new_members)
    screen.source(train_all)
    members = new_members(jax.random.key(1))
    shuffled = np.random.default_rng(2)
    with screen.progress("epoch", EPOCHS) as advance:
        for _ in range(EPOCHS):
            values = []
            for images, labels in batches(digits.train, shuffled):
                members, value = train_all(members, images, labels)
                values.append(value)
            advance(f"losses {', '.join(f'{its:.3f}' for its in np.mean(values, axis=0))}")
    screen.heading(f"Let them vote, {CHUNK} images at a time")
    screen.source(logits_of_all)
    logits = logits_of_all(members, digits.test.images)
    votes = jax.nn.softmax(logits).mean(axis=0)
    single = np.mean(np.argmax(logits, axis=-1) == digits.test.labels, axis=1)
    together = np.mean(np.argmax(votes, axis=-1) == digits.test.labels)
    screen.quote(f"test accuracy of each: {', '.join(f'{its:.1%}' for its in single)}", RESULT)
    screen.quote(f"of their mean: {together:.1%}", RESULT)


def new_members(key: Array) -> Params:
    """The parameters of all members, stacked: each is drawn with a key of its own."""
    return ptk.vmap(new_params, in_axes=ptk.SPLIT, axis_size=MEMBERS)(key)


@jax.jit
def train_all(members: Params, images: Array, labels: Array) -> tuple[Params, Array]:
    """One step of every member on the same batch."""
    return ptk.vmap(train_step, in_axes={"params": 0, ...: None})(members, images, labels)


def logits_of_all(members: Params, images: Array) -> Array:
    """The logits of every member for every image: `f32[members,images,10]`."""
    of_one = ptk.vmap(predict, in_axes={"image": 0, ...: None}, chunk_size=CHUNK)
    return ptk.vmap(of_one, in_axes={"params": 0, ...: None})(members, images)
