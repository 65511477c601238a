"""The part about single examples: whose gradient is longest, and how far one may move a step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import pytreekit as ptk

from .digits import CLASSES, Digits, Examples, Params, loss
from .screen import Screen
from .vmap import CODE, RESULT, trained

EPOCHS = 10
WRONG_SHARE = 0.05
CLIP_NORM = 1.0
CHUNK = 256


def run(screen: Screen, digits: Digits) -> None:
    """Find wrong labels by the norm of each example's gradient, then clip them."""
    random = np.random.default_rng(3)
    examples, is_wrong = _mislabelled(digits.train, random)
    count = int(is_wrong.sum())
    screen.heading(f"Find {count} wrong labels among {len(is_wrong)}: the norm of each gradient")
    screen.source(norms_of_all)
    params = trained(screen, examples, random, EPOCHS, ", wrong labels and all")
    norms = norms_of_all(params, examples)
    longest = np.argsort(-np.asarray(norms))
    screen.say()
    for name, most in (("same number", count), ("tenth", len(longest) // 10)):
        found = is_wrong[longest[:most]].sum()
        told = f"the {most} longest, the {name}, hold {found} of the {count} wrong ones"
        screen.quote(told, RESULT)
    _clip(screen, params, examples)


@jax.jit
def norms_of_all(params: Params, examples: Examples) -> Array:
    """The norm of the gradient of each example, `f32[n]`, from a chunk of gradients at a time."""
    return ptk.per_example_norms(loss, chunk_size=CHUNK)(params, *examples)


def _mislabelled(examples: Examples, random: np.random.Generator) -> tuple[Examples, np.ndarray]:
    """The examples with another label on some, and which those are."""
    count = len(examples.labels)
    is_wrong = np.isin(np.arange(count), random.choice(count, int(WRONG_SHARE * count), False))
    shift = np.where(is_wrong, random.integers(1, CLASSES, count), 0)
    labels = (np.asarray(examples.labels) + shift) % CLASSES
    return Examples(examples.images, jnp.asarray(labels, jnp.int32)), is_wrong


def _clip(screen: Screen, params: Params, examples: Examples) -> None:
    screen.heading("Clip each gradient, so that no example counts for more than another")
    screen.quote(
        f"clipped = ptk.clipped_grad(loss, clip_norm={CLIP_NORM}, chunk_size={CHUNK})", CODE
    )
    screen.quote("gradient, info = jax.jit(clipped)(params, images, labels)\n", CODE)
    clipped = ptk.clipped_grad(loss, CLIP_NORM, chunk_size=CHUNK)
    _, info = jax.jit(clipped)(params, *examples)
    short = int((info.weights < 1).sum())
    screen.quote(f"{short} of {len(info.weights)} gradients were shortened", RESULT)
    screen.quote(f"one example moves their sum by {clipped.sensitivity} at most", RESULT)
    screen.say(
        "\nThat bound is what noise for differential privacy goes by; ptk adds none, and keeps no "
        "account."
    )
