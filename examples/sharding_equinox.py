"""Parameters of an Equinox module, laid out by rules.

A module holds functions beside its arrays: `ptk.partition` takes these apart, the arrays are made
on eight devices, and `ptk.combine` puts the module together. Weights of Equinox are (out, in).
"""

from collections.abc import Callable
from typing import Any

import devices
import equinox as eqx
import jax
from jax import Array

import pytreekit as ptk

RULES = ptk.Rules(
    [
        ("up/weight", "model _"),  # by outputs, which come first
        ("up/bias", "model"),
        ("down/weight", "_ model"),
        ("down/bias", "replicate"),
    ]
)


class MLP(eqx.Module):
    """Eight logits for one example."""

    up: eqx.nn.Linear
    down: eqx.nn.Linear
    activation: Callable[[Array], Array]

    def __init__(self, key: Array) -> None:
        up, down = jax.random.split(key)
        self.up = eqx.nn.Linear(16, 32, key=up)
        self.down = eqx.nn.Linear(32, 8, key=down)
        self.activation = jax.nn.relu

    def __call__(self, image: Array) -> Array:
        return self.down(self.activation(self.up(image)))


def init(key: Array) -> Any:
    return ptk.partition(MLP(key), eqx.is_array)[0]


def place() -> tuple[MLP, Any]:
    """The module on eight devices, and the specs of its arrays."""
    mesh, key = devices.mesh(), jax.random.key(0)
    specs = ptk.partition_specs(jax.eval_shape(init, key), RULES, mesh=mesh)
    arrays = jax.jit(init, out_shardings=ptk.named_shardings(mesh, specs))(key)
    functions, _ = ptk.partition(eqx.filter_eval_shape(MLP, key), callable)
    return ptk.combine(arrays, functions), specs


@eqx.filter_jit
def predict(model: MLP, images: Array) -> Array:
    return ptk.vmap(model)(images)


def main() -> None:
    model, _ = place()
    devices.report("Equinox", eqx.filter(model, eqx.is_array))


if __name__ == "__main__":
    main()
