"""Parameters in plain dicts, laid out by rules and initialised where they belong.

`jax.eval_shape` gives the shapes without any memory, the rules give each its spec, and
`out_shardings` has every device make its own part: no device ever holds a whole model.
"""

import devices
import jax
from jax import Array

import pytreekit as ptk

RULES = ptk.Rules(
    [
        ("up/kernel", "_ model"),  # by outputs
        ("up/bias", "model"),
        ("down/kernel", "model _"),  # by inputs
        ("down/bias", "replicate"),
    ]
)


def init(key: Array) -> dict:
    up, down = jax.random.split(key)
    return {
        "up": {"kernel": jax.random.normal(up, (16, 32)) / 4, "bias": jax.numpy.zeros(32)},
        "down": {"kernel": jax.random.normal(down, (32, 8)) / 6, "bias": jax.numpy.zeros(8)},
    }


@jax.jit
def predict(params: dict, images: Array) -> Array:
    hidden = jax.nn.relu(images @ params["up"]["kernel"] + params["up"]["bias"])
    return hidden @ params["down"]["kernel"] + params["down"]["bias"]


def place() -> tuple[dict, dict]:
    """The parameters on eight devices, and their specs."""
    mesh, key = devices.mesh(), jax.random.key(0)
    specs = ptk.partition_specs(jax.eval_shape(init, key), RULES, mesh=mesh)
    return jax.jit(init, out_shardings=ptk.named_shardings(mesh, specs))(key), specs


def main() -> None:
    devices.report("plain dicts", place()[0])


if __name__ == "__main__":
    main()
