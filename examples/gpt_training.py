"""What the three GPTs share: text, attention, and training on eight devices beside the same on one.

Each of them says how its state is made, where the parameters are in it, and what a step is. The
rest follows from `gpt.toml`: the plan of the parameters, and from that the plan of the whole state.
"""

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import devices
import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import pytreekit as ptk

TOKENS, LENGTH, BATCH = 128, 16, 8
WIDTH, HEADS, BLOCKS = 32, 4, 2
STEPS = 3
MESHES = [(2, 4), (4, 2)]
"""Devices by `data` and `model`: where the training begins, and where it goes on."""

RULES = ptk.Rules.load(Path(__file__).with_name("gpt.toml"))
OPTIMIZERS = {
    "adamw": optax.adamw(1e-2, eps=1e-4),
    "Adafactor": optax.adafactor(1e-2, min_dim_size_to_factor=16),
}


@dataclasses.dataclass(frozen=True)
class Training:
    """A training run, as far as the framework matters.

    Attributes:
        create: Makes the whole state: parameters, and the optimizer's state.
        params: The parameters in a state.
        step: A state and a batch of text to the next state and the loss.
    """

    create: Callable[[Array], Any]
    params: Callable[[Any], Any]
    step: Callable[[Any, Array], tuple[Any, Array]]


def attend(query: Array, key: Array, value: Array) -> Array:
    """Causal attention, of several heads, over (..., length, features)."""
    query, key, value = (x.reshape(*x.shape[:-1], HEADS, -1) for x in (query, key, value))
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    return mixed.reshape(*mixed.shape[:-2], -1)


def cross_entropy(logits: Array, tokens: Array) -> Array:
    """The loss of logits at each place, for the token that follows it."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def batch(number: int) -> np.ndarray:
    """Pieces of the text that you are reading, a token to the letter, and one letter more."""
    text = np.frombuffer(Path(__file__).read_bytes(), np.uint8).astype(np.int32)
    starts = np.random.default_rng(number).integers(0, len(text) - LENGTH, BATCH)
    return text[starts[:, None] + np.arange(LENGTH + 1)]


def plan_of(training: Training, optimizer: Any, mesh: Mesh) -> ptk.ShardingPlan:
    """How the whole state lies on a mesh. Nothing is allocated for it."""
    state = jax.eval_shape(training.create, jax.random.key(0))
    params = ptk.ShardingPlan(training.params(state), RULES, mesh)
    return params.for_state(state, init=optimizer)


def train(
    step: Callable[[Any, Array], Any], state: Any, steps: range, sharding: Any = None
) -> tuple[Any, list[float]]:
    """Some steps: the state after them, and the losses."""
    losses = []
    for number in steps:
        state, loss = step(state, jax.device_put(batch(number), sharding))
        losses.append(float(loss))
    return state, losses


def train_sharded(
    training: Training, plan: ptk.ShardingPlan, state: Any, steps: range
) -> tuple[Any, list[float]]:
    """Steps on the devices of a plan, each of which has a part of the state and of the batch."""
    step = jax.jit(training.step, out_shardings=(plan.shardings, None), donate_argnums=0)
    state, losses = train(step, state, steps, NamedSharding(plan.mesh, PartitionSpec("data")))
    ptk.raise_faults(plan.verify(state), doing="train_sharded")
    return state, losses


def run(name: str, training_with: Callable[[Any], Training], optimizers: Any = OPTIMIZERS) -> None:
    """Train on one mesh, save, restore on another and go on, with each of the optimizers."""
    for title, optimizer in optimizers.items():
        training = training_with(optimizer)
        first, second = (plan_of(training, optimizer, devices.mesh(*its)) for its in MESHES)
        state = first.init(training.create, jax.random.key(0))
        alone = jax.device_get(state)
        state, losses = train_sharded(training, first, state, range(STEPS))
        with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(f"{folder}/state", state)
            checkpointer.wait_until_finished()
            state = checkpointer.restore(f"{folder}/state", second.abstract())
        state, more = train_sharded(training, second, state, range(STEPS, 2 * STEPS))

        alone, wanted = train(jax.jit(training.step), alone, range(2 * STEPS))
        print(f"{name}, {title}: {len(first.leaves)} arrays")
        report(first, losses)
        report(second, more)
        print("  on one device".ljust(43), *(f"{loss:.4f}" for loss in wanted))
        print(f"  the two states differ by {largest_difference(state, alone):.0e} at most")


def report(plan: ptk.ShardingPlan, losses: list[float]) -> None:
    """Print a mesh, what each of its devices holds, and the losses of the steps there."""
    mesh = ", ".join(f"{name}={size}" for name, size in plan.mesh.shape.items())
    print(f"  over {mesh}, {plan.memory().per_device:,} bytes each".ljust(43), end=" ")
    print(*(f"{loss:.4f}" for loss in losses))


def largest_difference(one: Any, other: Any) -> float:
    """The most by which any number of two states differs."""
    pairs = zip(*(jax.tree.leaves(jax.device_get(its)) for its in (one, other)), strict=True)
    return max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in pairs)
