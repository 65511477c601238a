"""Data-parallel training in several processes: real ones, with real collectives between them.

    python examples/train_data_parallel.py --processes 2

starts two processes with four simulated devices each, and waits for them. Each reads its own part
of every batch, and has its own part of the parameters and of Adam's state, as a plan says. They
save to one checkpoint; run again with the same `--folder` and more `--steps`, they go on from the
last one. On machines of a cluster, start it on each with `--process` and `--coordinator`. When one
of them dies, the others end within seconds, by `--heartbeat`, and none waits for ever.
"""

import argparse
import contextlib
import functools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import pytreekit as ptk

BATCH, WIDTHS = 64, (8, 32, 4)
DEVICES = 4
"""Simulated devices of each process."""
OPTIMIZER = optax.adam(1e-2)
SIMULATED = "--xla_force_host_platform_device_count"


def create(key: Array) -> dict[str, Any]:
    """The whole state: parameters, and Adam's of them."""
    keys = jax.random.split(key)
    params = {
        "hidden": jax.random.normal(keys[0], WIDTHS[:2]) / 3,
        "out": jax.random.normal(keys[1], WIDTHS[1:]) / 6,
    }
    return {"params": params, "optimizer": OPTIMIZER.init(params)}


def step(state: dict[str, Any], batch: dict[str, Array]) -> tuple[dict[str, Any], Array]:
    """A step as one device would take it: it knows nothing of devices or processes."""

    def loss(params: dict[str, Array]) -> Array:
        predicted = jnp.tanh(batch["x"] @ params["hidden"]) @ params["out"]
        return jnp.mean((predicted - batch["y"]) ** 2)

    value, gradient = jax.value_and_grad(loss)(state["params"])
    updates, optimizer = OPTIMIZER.update(gradient, state["optimizer"])
    return {"params": optax.apply_updates(state["params"], updates), "optimizer": optimizer}, value


def rows(number: int, part: slice) -> dict[str, np.ndarray]:
    """Some rows of a batch: what a process would read of a file."""
    xs = np.random.default_rng(number).normal(size=(BATCH, WIDTHS[0])).astype(np.float32)
    ys = np.stack([xs[:, 0], xs[:, 1] * xs[:, 2], np.abs(xs[:, 3]), np.sin(xs[:, 4])], axis=1)
    return {"x": xs[part], "y": ys[part]}


def batch_of(number: int, mesh: Mesh) -> dict[str, Array]:
    """A batch over all processes, made of the part that each of them has read."""
    size = BATCH // jax.process_count()
    first = size * jax.process_index()
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    make = functools.partial(jax.make_array_from_process_local_data, sharding)
    return jax.tree.map(make, rows(number, slice(first, first + size)))


def plan_of(mesh: Mesh) -> ptk.ShardingPlan:
    """Every array of the state, split over all devices where one of its dimensions divides."""
    state = jax.eval_shape(create, jax.random.key(0))
    fsdp = ptk.fsdp_plan(state["params"], mesh=mesh, axis="data", min_size=0)
    return ptk.ShardingPlan(state["params"], fsdp, mesh).for_state(state, init=OPTIMIZER)


def train(steps: int, folder: Path | None = None, every: int = 5) -> Iterator[tuple[int, float]]:
    """Train up to a number of steps, from the last checkpoint in the folder, if there is one.

    Yields:
        The number of each step, and its loss.
    """
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    plan = plan_of(mesh)
    on_all = ptk.data_parallel(step, mesh=mesh, state=plan, donate_state=True)
    with checkpoints(folder, every) as manager:
        last = None if manager is None else manager.latest_step()
        if manager is None or last is None:
            state, first = plan.init(create, jax.random.key(0)), 0
        else:
            state, first = (
                manager.restore(last, args=ocp.args.StandardRestore(plan.abstract())),
                last,
            )
        for number in range(first, steps):
            state, loss = on_all(state, batch_of(number, mesh))
            if manager is not None:
                manager.save(
                    number + 1, args=ocp.args.StandardSave(state), force=number + 1 == steps
                )
            yield number, float(loss)


@contextlib.contextmanager
def checkpoints(folder: Path | None, every: int) -> Iterator[ocp.CheckpointManager | None]:
    """The checkpoints in a folder, which every process sees, and all of them write together."""
    if folder is None:
        yield None
        return
    options = ocp.CheckpointManagerOptions(save_interval_steps=every, max_to_keep=2)
    with ocp.CheckpointManager(folder.resolve(), options=options) as manager:
        yield manager
        manager.wait_until_finished()


def work(options: argparse.Namespace) -> None:
    """What one process does."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    if options.processes > 1:
        jax.distributed.initialize(
            options.coordinator,
            options.processes,
            options.process,
            initialization_timeout=60,
            heartbeat_timeout_seconds=options.heartbeat,
            shutdown_timeout_seconds=options.heartbeat,
        )
    for number, loss in train(options.steps, options.folder, options.every):
        if jax.process_index() == 0:
            print(f"step {number}: loss {loss:.6f}", flush=True)


def start(arguments: Sequence[str], processes: int, **kwargs: Any) -> list[subprocess.Popen[bytes]]:
    """Start the processes of one run on this machine."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        coordinator = f"localhost:{free.getsockname()[1]}"
    flags = [its for its in os.environ.get("XLA_FLAGS", "").split() if SIMULATED not in its]
    environment = {**os.environ, "XLA_FLAGS": " ".join([*flags, f"{SIMULATED}={DEVICES}"])}
    command = [sys.executable, __file__, *arguments, "--processes", str(processes)]
    where = ["--coordinator", coordinator, "--process"]
    return [
        subprocess.Popen([*command, *where, str(its)], env=environment, **kwargs)
        for its in range(processes)
    ]


def wait(running: Sequence[subprocess.Popen[bytes]], seconds: float, grace: float) -> int:
    """Wait until all have ended; once one has failed, the others have `grace` seconds.

    Returns:
        The code of the first that failed, or 0. Those that were stopped for lack of time have 124.
    """
    failed, until = 0, time.monotonic() + seconds
    try:
        while any(its.poll() is None for its in running) and time.monotonic() < until:
            codes = [its.returncode for its in running if its.returncode]
            if codes and not failed:
                failed, until = codes[0], min(until, time.monotonic() + grace)
            time.sleep(0.05)
        codes = [124 if its.poll() is None else its.returncode for its in running]
        return failed or next(filter(None, codes), 0)
    finally:
        for its in running:
            its.kill()
            its.wait()


def read(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Data-parallel training in several processes.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="for checkpoints, seen by all processes")
    parser.add_argument("--every", type=int, default=5, help="steps from checkpoint to checkpoint")
    parser.add_argument("--heartbeat", type=int, default=10, help="seconds without: it is dead")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for the whole run")
    parser.add_argument("--process", type=int, help="which of them this is")
    parser.add_argument("--coordinator", help="host:port of process 0")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Work as one of the processes, or start all of them and wait."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = read(arguments)
    if options.process is not None:
        work(options)
        return 0
    running = start(arguments, options.processes)
    return wait(running, options.timeout, grace=3 * options.heartbeat)


if __name__ == "__main__":
    sys.exit(main())
