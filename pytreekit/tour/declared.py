"""The part about annotations: what shapes cannot tell, and axes that are inferred."""

from __future__ import annotations

import jax
import numpy as np
from jax import Array
from jaxtyping import Float

import pytreekit as ptk

from .digits import Digits
from .screen import Screen
from .vmap import CODE, ERROR, RESULT

PIXELS = 64


def run(screen: Screen, digits: Digits) -> None:
    """Get axes wrong that fit the shapes, and have them inferred."""
    screen.heading(f"Say what one example is: {PIXELS} images of {PIXELS} pixels, one mean image")
    screen.source(centred)
    images = digits.test.images[:PIXELS]
    mean = digits.train.images.mean(axis=0)
    screen.say("jax.vmap(centred)(images, mean) is accepted: each image loses one pixel's mean.")
    screen.say("What ptk.vmap(centred)(images, mean) says, by the annotations:\n")
    try:
        ptk.vmap(centred)(images, mean)
    except ptk.SpecError as error:
        screen.quote(f"SpecError: {str(error).rstrip()}", ERROR)
    unsaid = jax.vmap(lambda image, mean: image - mean)(images, mean)
    right = np.array_equal(unsaid, images - mean)
    screen.say("\nWith all images the annotations alone say which axis is the batch:\n")
    screen.quote('ptk.vmap(centred, in_axes="infer")(digits.test.images, mean)\n', CODE)
    inferred = ptk.vmap(centred, in_axes="infer")(digits.test.images, mean)
    same = np.array_equal(inferred, digits.test.images - mean)
    screen.quote(f"equal to images - mean: {same}; what jax.vmap made of it: {right}", RESULT)


def centred(image: Float[Array, " pixels"], mean: Float[Array, " pixels"]) -> Array:
    """An image without what all have in common."""
    return image - mean
