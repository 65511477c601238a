"""Parameters of flax linen, boxed and not, laid out by the same rules.

`nn.with_partitioning` puts each array into a box that names its axes. A path ends at the box, so
that rules do not see it; without rules, what the boxes say is taken, and checked just the same.
"""

import devices
import jax
from flax import linen as nn
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
INIT = nn.initializers.lecun_normal()


class MLP(nn.Module):
    """Eight logits for each example."""

    boxed: bool = False

    @nn.compact
    def __call__(self, images: Array) -> Array:
        into = nn.with_partitioning(INIT, (None, "model")) if self.boxed else INIT
        back = nn.with_partitioning(INIT, ("model", None)) if self.boxed else INIT
        hidden = nn.relu(nn.Dense(32, kernel_init=into, name="up")(images))
        return nn.Dense(8, kernel_init=back, name="down")(hidden)


def place(*, boxed: bool = False, rules: ptk.Rules | None = RULES) -> tuple[dict, dict]:
    """The variables on eight devices, and their specs."""
    mesh, init, key = devices.mesh(), MLP(boxed).init, jax.random.key(0)
    shapes = jax.eval_shape(init, key, devices.images())
    specs = ptk.partition_specs(shapes, rules, mesh=mesh)
    placed = jax.jit(init, out_shardings=ptk.named_shardings(mesh, specs))
    return placed(key, devices.images()), specs


@jax.jit
def predict(variables: dict, images: Array) -> Array:
    return MLP().apply(variables, images)


def main() -> None:
    devices.report("flax linen", place()[0])
    devices.report("flax linen, boxed, by rules", place(boxed=True)[0])
    devices.report("flax linen, boxed, by what the boxes say", place(boxed=True, rules=None)[0])


if __name__ == "__main__":
    main()
