"""The part about layouts: rules over paths become PartitionSpecs, checked against a mesh."""

from __future__ import annotations

import jax

import pytreekit as ptk

from .digits import Digits, new_params
from .screen import Screen
from .vmap import CODE, ERROR

MESH = {"data": 2, "model": 4}

WRONG = [("w", "_ model"), ("b", "model")]
"""Ten classes do not divide by four."""

RIGHT = [
    ("hidden/w", "_ model"),
    ("hidden/b", "model"),
    ("out/w", "model _"),
    ("out/b", "replicate"),
]


def run(screen: Screen, digits: Digits) -> None:
    """Show rules that do not fit, and rules that do, on eight devices that need not be there."""
    params = jax.eval_shape(new_params, jax.random.key(0))
    screen.heading("Lay the classifier out over 8 devices: rules over paths, and no device yet")
    screen.quote(f"mesh = {MESH}\nrules = {WRONG}", CODE)
    screen.quote("ptk.partition_specs(params, rules, mesh=mesh)\n", CODE)
    try:
        ptk.partition_specs(params, WRONG, mesh=MESH)
    except ptk.SpecError as error:
        screen.quote(f"SpecError: {str(error).rstrip()}\n", ERROR)
    screen.say("Split the last layer by what goes into it:\n")
    listed = "".join(f"    {rule},\n" for rule in RIGHT)
    screen.quote(
        f"rules = [\n{listed}]\nprint(ptk.partition_plan(params, rules, mesh=mesh))\n", CODE
    )
    screen.table(ptk.partition_plan(params, RIGHT, mesh=MESH))
    screen.say(
        "\nThe same for GPT-2, with rules from a file: pytreekit shard --mesh data=4,model=2"
    )
