"""The part about many devices: a step of one becomes that of eight, which need not be there."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import Array
from jax.sharding import AxisType

import pytreekit as ptk

from .digits import Digits, Examples, Params, new_params
from .screen import Screen
from .vmap import CODE, ERROR, RESULT, train_step

MESH = {"data": 8}
RAGGED, EVEN = 60, 64


def run(screen: Screen, digits: Digits) -> None:
    """Show a batch that does not divide, one that does, and that the numbers stay what they are."""
    params = new_params(jax.random.key(0))
    screen.heading("Train on 8 devices: a step that is written for one")
    screen.source(step)
    screen.quote(f"on_eight = ptk.data_parallel(step, mesh={MESH})\n", CODE)
    on_eight = ptk.data_parallel(step, mesh=MESH)
    try:
        on_eight.plan(params, _first(digits.train, RAGGED))
    except ptk.SpecError as error:
        screen.quote(f"SpecError: {str(error).rstrip()}\n", ERROR)
    screen.quote("print(on_eight.plan(params, batch))\n", CODE)
    batch = _first(digits.train, EVEN)
    screen.table(on_eight.plan(params, batch))
    count = jax.device_count()
    mesh = jax.make_mesh((count,), ("data",), axis_types=(AxisType.Auto,))
    on_all = ptk.data_parallel(step, mesh=mesh, on_indivisible="replicate")
    losses = [float(call(params, batch)[1]["loss"]) for call in (jax.jit(step), on_all)]
    here = "the device" if count == 1 else f"the {count} devices"
    same = "the same" if np.isclose(*losses, rtol=1e-5) else "not the same"
    screen.quote(f"\nloss {losses[0]:.4f} by jit, {losses[1]:.4f} on {here} here: {same}", RESULT)


def step(params: Params, batch: Examples) -> tuple[Params, dict[str, Array]]:
    """A step on a whole batch: it knows nothing of devices."""
    params, value = train_step(params, *batch)
    return params, {"loss": value}


def _first(examples: Examples, count: int) -> Any:
    return Examples(*(its[:count] for its in examples))
