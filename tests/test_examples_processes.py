"""Training in two real processes: their numbers, the death of one, and going on after it."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import signal
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "train_data_parallel.py"
EVERY, MORE, HEARTBEAT = 4, 3, 2
START, END = 60, 30
"""Seconds within which a run must have a checkpoint, and a process must end after another died."""


@dataclasses.dataclass
class Runs:
    """A run of which process 1 was killed, and one that went on.

    Attributes:
        example: The script, as a module.
        killed: The losses of the first run, by step.
        resumed: Those of the second.
        code: How process 0 ended when process 1 had died; None if it did not.
        seconds: How long that took.
        folder: The checkpoints.
        steps: The number of steps, in both runs together.
    """

    example: ModuleType
    killed: dict[int, float]
    resumed: dict[int, float]
    code: int | None
    seconds: float
    folder: Path
    steps: int


def losses(output: Path) -> dict[int, float]:
    found = re.findall(r"^step (\d+): loss (\S+)$", output.read_text(), re.MULTILINE)
    return {int(number): float(loss) for number, loss in found}


def saved(folder: Path) -> list[int]:
    """The steps of all checkpoints that are complete."""
    return sorted(int(its.name) for its in folder.glob("*") if its.name.isdigit())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    pytest.importorskip("orbax.checkpoint")
    spec = importlib.util.spec_from_file_location("train_data_parallel", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    place = tmp_path_factory.mktemp("processes")
    folder = place / "checkpoints"
    options = [f"--folder={folder}", f"--every={EVERY}", f"--heartbeat={HEARTBEAT}"]

    def run(steps: int, output: Path) -> Any:
        with output.open("wb") as file:
            return example.start([*options, f"--steps={steps}"], 2, stdout=file, stderr=file)

    running = run(10**6, place / "killed")
    try:
        until = time.monotonic() + START
        while not saved(folder) and running[0].poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert saved(folder), (place / "killed").read_text()
        running[1].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        example.wait(running[:1], END, grace=0)
        code, seconds = running[0].returncode, time.monotonic() - killed
    finally:
        example.wait(running, 0, grace=0)

    steps = saved(folder)[-1] + MORE
    running = run(steps, place / "resumed")
    assert example.wait(running, START, grace=END) == 0, (place / "resumed").read_text()
    both = losses(place / "killed"), losses(place / "resumed")
    return Runs(example, *both, code, seconds, folder, steps)


def test_a_process_ends_soon_after_another_has_died(runs: Runs) -> None:
    assert runs.code not in {None, 0}
    assert runs.code != -signal.SIGKILL  # by itself, not by the end of our patience
    assert runs.seconds < END


def test_a_run_goes_on_from_its_last_checkpoint(runs: Runs) -> None:
    assert list(runs.resumed) == list(range(runs.steps - MORE, runs.steps))
    assert saved(runs.folder)[-1] == runs.steps
    assert list(runs.killed)[: runs.steps - MORE] == list(range(runs.steps - MORE))


def test_two_processes_have_the_numbers_of_one(runs: Runs) -> None:
    alone = dict(runs.example.train(runs.steps))
    together = {**{step: runs.killed[step] for step in range(runs.steps - MORE)}, **runs.resumed}
    assert list(together) == list(alone)
    np.testing.assert_allclose([*together.values()], [*alone.values()], atol=2e-6)


def test_their_parameters_are_those_of_one(runs: Runs) -> None:
    import orbax.checkpoint as ocp

    example = runs.example
    state = example.create(jax.random.key(0))
    with jax.default_device(jax.devices()[0]):
        step = jax.jit(example.step)
        for number in range(runs.steps):
            state, _ = step(state, example.rows(number, slice(None)))
    with ocp.StandardCheckpointer() as checkpointer:
        found = checkpointer.restore(runs.folder / str(runs.steps) / "default", state)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
