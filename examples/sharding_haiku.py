"""Parameters of Haiku, laid out by rules.

They are a dict of dicts whose keys hold slashes, as in `mlp/~/up`. Rules cut these, too, so that a
glob at the end of the path is the same as for any nested tree.
"""

import devices
import haiku as hk
import jax
from jax import Array

import pytreekit as ptk

RULES = ptk.Rules(
    [
        ("up/w", "_ model"),
        ("up/b", "model"),
        ("down/w", "model _"),
        ("down/b", "replicate"),
    ]
)


class MLP(hk.Module):
    """Eight logits for each example."""

    def __init__(self) -> None:
        super().__init__()
        self.up = hk.Linear(32, name="up")
        self.down = hk.Linear(8, name="down")

    def __call__(self, images: Array) -> Array:
        return self.down(jax.nn.relu(self.up(images)))


def forward(images: Array) -> Array:
    return MLP()(images)


MODEL = hk.without_apply_rng(hk.transform(forward))
predict = jax.jit(MODEL.apply)


def place() -> tuple[hk.Params, hk.Params]:
    """The parameters on eight devices, and their specs."""
    mesh, key = devices.mesh(), jax.random.key(0)
    shapes = jax.eval_shape(MODEL.init, key, devices.images())
    specs = ptk.partition_specs(shapes, RULES, mesh=mesh)
    init = jax.jit(MODEL.init, out_shardings=ptk.named_shardings(mesh, specs))
    return init(key, devices.images()), specs


def main() -> None:
    devices.report("Haiku", place()[0])


if __name__ == "__main__":
    main()
