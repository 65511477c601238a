"""Parameters of flax NNX, laid out by rules: a model that is yet to be made, and one that exists.

`nnx.split` gives a graph definition and a state, a tree of Variables; a path ends at the Variable,
so that rules name the array alone. `nnx.state` gives the same tree of a model that exists.
"""

import devices
import jax
from flax import nnx
from jax import Array

import pytreekit as ptk

RULES = ptk.Rules(
    [
        ("up/kernel", "_ model"),
        ("up/bias", "model"),
        ("down/kernel", "model _"),
        ("down/bias", "replicate"),
    ]
)


class MLP(nnx.Module):
    """Eight logits for each example."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(16, 32, rngs=rngs)
        self.down = nnx.Linear(32, 8, rngs=rngs)

    def __call__(self, images: Array) -> Array:
        return self.down(nnx.relu(self.up(images)))


GRAPH, SHAPES = nnx.split(nnx.eval_shape(lambda: MLP(nnx.Rngs(0))))


def init(key: Array) -> nnx.State:
    return nnx.split(MLP(nnx.Rngs(key)))[1]


def place() -> tuple[nnx.State, nnx.State]:
    """A new state on eight devices, no part of which was ever whole, and its specs."""
    mesh = devices.mesh()
    specs = ptk.partition_specs(SHAPES, RULES, mesh=mesh)
    return jax.jit(init, out_shardings=ptk.named_shardings(mesh, specs))(jax.random.key(0)), specs


def spread(model: MLP) -> None:
    """Move a model that exists to eight devices, in place."""
    mesh, state = devices.mesh(), nnx.state(model)
    specs = ptk.partition_specs(state, RULES, mesh=mesh)
    nnx.update(model, jax.device_put(state, ptk.named_shardings(mesh, specs)))


@jax.jit
def predict(state: nnx.State, images: Array) -> Array:
    return nnx.merge(GRAPH, state)(images)


def main() -> None:
    devices.report("flax NNX, nnx.split", place()[0])
    model = MLP(nnx.Rngs(0))
    spread(model)
    devices.report("flax NNX, nnx.state", nnx.state(model))


if __name__ == "__main__":
    main()
