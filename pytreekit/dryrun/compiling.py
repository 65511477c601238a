"""A step, compiled: here where there are devices enough, else in a process that simulates them."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec

from ..faults import Fault
from .lowering import DEVICES, Carried, told
from .naming import specs_of
from .programs import Program

CHILD = Path(__file__).with_name("child.py")


class DeviceMemory(NamedTuple):
    """What a compiled program takes of the memory of each device, in bytes.

    It is what `compiled.memory_analysis()` says.

    Attributes:
        arguments: The arguments.
        outputs: What it returns.
        temporaries: What it makes on the way and returns nothing of.
        aliased: Of the outputs, those that are written into arguments that were donated.
        code: The program itself.
    """

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int

    @property
    def peak(self) -> int:
        """All that is there at once, at most: what is aliased is counted once."""
        return self.arguments + self.outputs - self.aliased + self.temporaries + self.code


class Compiled(NamedTuple):
    """A compiled program.

    Attributes:
        text: Its HLO.
        memory: What it takes of each device.
        seconds: How long compiling took.
        platform: What it was compiled for: `"cpu"`.
        names: The path of each argument, by the number of its parameter; empty where HLO has them.
        specs: How arguments and outputs are split, where that is known.
    """

    text: str
    memory: DeviceMemory
    seconds: float
    platform: str
    names: dict[int, str]
    specs: Collection[PartitionSpec]


def compiled(program: Program, doing: str) -> Compiled:
    """Compile one program.

    Raises:
        SpecError: PTK702, if it was not compiled.
    """
    if isinstance(program.ready, Carried):
        (its,) = elsewhere([program], doing)
        return its
    start = time.perf_counter()
    try:
        executable = program.ready.compile()
    except jax.errors.JaxRuntimeError as error:
        raise told(_failed(program), doing, f"{type(error).__name__}: {error}") from None
    seconds = time.perf_counter() - start
    stats = executable.memory_analysis()
    its = {field: getattr(stats, f"{name}_size_in_bytes", 0) for field, name in _STATS.items()}
    specs = specs_of([executable.input_shardings, executable.output_shardings])
    memory = DeviceMemory(**its)
    return Compiled(executable.as_text(), memory, seconds, program.platform, {}, specs)


_STATS = {
    "arguments": "argument",
    "outputs": "output",
    "temporaries": "temp",
    "aliased": "alias",
    "code": "generated_code",
}


def _failed(program: Program) -> Fault:
    fact = f"was not compiled for {program.mesh.size} devices"
    note = "what JAX says stands below this message"
    return Fault("PTK702", program.name, "", "", "", "", fact=fact, note=note)


def elsewhere(
    programs: Sequence[Program], doing: str, done: Callable[[int], None] | None = None
) -> Iterator[Compiled]:
    """Compile programs for one number of devices, one after the other, in one process.

    Args:
        programs: The programs, each as it goes there.
        doing: What is being done.
        done: What is called when one is compiled.

    Raises:
        SpecError: PTK702, if one of them is not compiled.
    """
    with tempfile.TemporaryFile() as said, _process(programs[0].mesh.size, said) as process:
        for program in programs:
            answer: dict[str, Any] | None = _asked(process, program.ready.blob)
            if answer is None:
                said.seek(0)
                lines = said.read().decode(errors="replace").strip().splitlines()
                # What ends a process says so first, and then where.
                fatal = [line for line in lines if line.startswith("F")]
                answer = {"error": [*fatal, *reversed(lines), "the process ended"][0]}
            if "error" in answer:
                raise told(_failed(program), doing, answer["error"])
            if done is not None:
                done(1)
            memory = DeviceMemory(**{to: answer["memory"][of] for to, of in _STATS.items()})
            names = dict(enumerate(program.ready.names))
            yield Compiled(answer["text"], memory, answer["seconds"], "cpu", names, answer["specs"])


def _asked(process: subprocess.Popen[bytes], blob: bytes) -> dict[str, Any] | None:
    """What the process answers; None if it has ended."""
    if process.stdin is None or process.stdout is None:
        return None
    try:
        pickle.dump(blob, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (EOFError, OSError, pickle.UnpicklingError):
        return None


@contextlib.contextmanager
def _process(devices: int, said: Any) -> Iterator[subprocess.Popen[bytes]]:
    kept = [
        flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(DEVICES)
    ]
    is_wide = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    env = {
        **os.environ,
        "XLA_FLAGS": " ".join([*kept, f"{DEVICES}={devices}"]),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": str(int(is_wide)),
    }
    pipe = subprocess.PIPE
    command = [sys.executable, "-P", str(CHILD)]
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, env=env)
    try:
        if process.stdin is not None:
            with contextlib.suppress(OSError):  # that it has ended is seen when it is asked
                pickle.dump(sys.path, process.stdin)
        yield process
    finally:
        process.kill()
        process.communicate()
