"""The part about sharding plans: a layout for devices that are not here, and why it is so."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import pytreekit as ptk

from .digits import Digits
from .screen import Screen
from .vmap import ERROR

MESH = {"data": 4, "model": 8}
WIDTH, VOCABULARY, LAYERS = 1024, 32_000, 4
RULES = [
    ("table", "model data"),
    ("{query,up}/kernel", "data model"),
    ("{out,down}/kernel", "model data"),
    ("scale", "replicate"),
]
SLIP = [("table", "modle data"), ("scale", "data model"), *RULES]


def run(screen: Screen, digits: Digits) -> None:
    """Lay out a model that this machine need not hold."""
    del digits
    screen.heading("Lay out a model over 32 devices, without any: rules, a plan, its reasons")
    screen.source(model)
    params = jax.eval_shape(model)
    screen.source(planned)
    plan = planned(params)
    screen.table(plan)
    screen.say()
    screen.quote(plan.explain("layers/0/up/kernel"))
    screen.heading("Get it wrong: all of it is told, before anything is placed")
    try:
        ptk.ShardingPlan(params, SLIP, MESH)
    except ptk.SpecError as error:
        screen.quote(str(error), ERROR)


def model() -> dict[str, object]:
    """The parameters of a small transformer."""

    def layer() -> dict[str, object]:
        sizes = {"query": (WIDTH, WIDTH), "out": (WIDTH, WIDTH)}
        sizes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
        kernels = {name: {"kernel": jnp.zeros(size)} for name, size in sizes.items()}
        return {**kernels, "norm": {"scale": jnp.ones(WIDTH)}}

    table = jnp.zeros((VOCABULARY, WIDTH))
    return {"embed": {"table": table}, "layers": [layer() for _ in range(LAYERS)]}


def planned(params: object) -> ptk.ShardingPlan:
    """The layout of shapes, over a mesh of sizes."""
    return ptk.ShardingPlan(params, RULES, MESH)
