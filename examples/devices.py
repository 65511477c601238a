"""Eight devices for the recipes, simulated on the CPU, and a look at what lies where on them."""

import os
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

# JAX looks at these when it first needs a device, which is after all imports.
SIMULATED = "--xla_force_host_platform_device_count"
jax.config.update("jax_platforms", "cpu")
if SIMULATED not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {SIMULATED}=8"


def mesh(data: int = 4, model: int = 2) -> Mesh:
    """Eight devices: by default four parts of a batch, two of the model."""
    types = AxisType.Auto, AxisType.Auto
    return jax.make_mesh((data, model), ("data", "model"), axis_types=types)


def images() -> jax.Array:
    """A batch of 32 examples of 16 numbers, split over `data`."""
    batch = jax.random.normal(jax.random.key(1), (32, 16))
    return jax.device_put(batch, NamedSharding(mesh(), PartitionSpec("data")))


def report(name: str, params: Any) -> None:
    """Print each array, its spec, and the shape of the part that each device has."""
    print(name)
    for path, leaf in jax.tree.leaves_with_path(params):
        text = jax.tree_util.keystr(path, simple=True, separator="/")
        part = leaf.sharding.shard_shape(leaf.shape)
        print(f"  {text:24} {leaf.shape!s:10} {leaf.sharding.spec!s:18} {part} on each device")
