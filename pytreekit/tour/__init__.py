"""`pytreekit tour`: what pytreekit does, shown on real data. Each part is a module of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
from rich.console import Console

from . import declared, ensemble, gradients, parallel, plans, shardings, vmap
from .digits import Digits, load
from .screen import Screen

Part = Callable[[Screen, Digits], None]

PARTS: tuple[Part, ...] = (
    vmap.run,
    declared.run,
    ensemble.run,
    gradients.run,
    shardings.run,
    plans.run,
    parallel.run,
)
"""What is shown, in order. A part needs nothing of the parts before it."""


def run(console: Console | None = None) -> None:
    """Run every part of the tour.

    Args:
        console: Where it is shown; by default the standard output.
    """
    start = time.perf_counter()
    screen = Screen(console or Console())
    screen.say(f"A tour of pytreekit, with jax {jax.__version__} on {jax.default_backend()}.")
    screen.say("Loading scikit-learn's handwritten digits ...")
    digits = load()
    screen.say(
        f"{len(digits.train.labels)} of them to learn from, {len(digits.test.labels)} held back, "
        f"{digits.train.images.shape[1]} pixels each."
    )
    for part in PARTS:
        part(screen, digits)
    screen.say(f"\nDone in {time.perf_counter() - start:.0f} s. Every fault: pytreekit codes")
