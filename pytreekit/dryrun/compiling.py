"""A step, compiled: here where there are devices enough, else in a process that simulates them.

What goes there is no Python. The step is traced here, over a mesh without devices, and what
`jax.export` makes of it is compiled there: closures, lambdas and what a notebook defines may go.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from ..faults import Fault
from ..show.errors import SpecError
from .programs import Program

CHILD = Path(__file__).with_name("child.py")
DEVICES = "--xla_force_host_platform_device_count"


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
    """

    text: str
    memory: DeviceMemory
    seconds: float
    platform: str
    names: dict[int, str]


def compiled(program: Program, doing: str) -> Compiled:
    """Compile one program.

    Raises:
        SpecError: PTK701, if it cannot be carried to another process; PTK702, if it was not
            compiled there.
    """
    mesh = devices_of(program)
    if mesh is not None:
        return _here(program, mesh, doing)
    carried = [carry(program, doing)]
    (its,) = elsewhere([program], carried, doing)
    return its


def devices_of(program: Program) -> Mesh | None:
    """The mesh to compile for in this process; None where it has too few devices."""
    if isinstance(program.mesh, Mesh):
        return program.mesh
    devices = jax.devices("cpu")
    count = program.mesh.size
    if len(devices) < count:
        return None
    sizes, names = program.mesh.axis_sizes, program.mesh.axis_names
    types = program.mesh.axis_types
    return Mesh(np.array(devices[:count]).reshape(sizes), names, axis_types=types)


def _here(program: Program, mesh: Mesh, doing: str) -> Compiled:
    args = jax.tree.map(lambda leaf: _on(leaf, mesh), program.args)
    start = time.perf_counter()
    lowered = program.step.lower(*args)
    try:
        executable = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        raise _told(_failed(program), doing, error) from None
    seconds = time.perf_counter() - start
    stats = executable.memory_analysis()
    its = {field: getattr(stats, f"{name}_size_in_bytes", 0) for field, name in _STATS.items()}
    platform = mesh.devices.flat[0].platform
    return Compiled(executable.as_text(), DeviceMemory(**its), seconds, platform, {})


_STATS = {
    "arguments": "argument",
    "outputs": "output",
    "temporaries": "temp",
    "aliased": "alias",
    "code": "generated_code",
}


def _on(leaf: Any, mesh: Mesh) -> Any:
    """A shape on devices, where it was on a mesh without any."""
    sharding = getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, AbstractMesh):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, sharding.spec))


class Carried(NamedTuple):
    """A program as it goes to another process: a pickle, and which arguments it uses."""

    blob: bytes
    kept: tuple[int, ...]


def carry(program: Program, doing: str) -> Carried:
    """A program as it goes to another process.

    Raises:
        SpecError: PTK701, if it cannot.
    """
    mesh = program.mesh
    traced = program.step.trace(*program.args)  # an error of the step itself is raised as it is
    try:
        exported = export.export(program.step, platforms=["cpu"])(*program.args)
        donated = [its.donated for its in jax.tree.leaves(traced.args_info, is_leaf=_is_info)]
        kept = tuple(exported.module_kept_var_idx)
        told = {
            "exported": _flat(exported),
            "kept": kept,
            "donated": tuple(place for place, number in enumerate(kept) if donated[number]),
            "mesh": (mesh.axis_names, mesh.axis_sizes, mesh.axis_types),
        }
        return Carried(pickle.dumps(told), kept)
    except Exception as error:  # noqa: BLE001  a step may hold anything
        raise _told(_stays(program), doing, error) from None


def _told(fault: Fault, doing: str, error: Exception | str) -> SpecError:
    """A fault as an error, with what JAX says as a note: its words differ between its versions."""
    told = SpecError([fault], doing=doing)
    said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    told.add_note(f"what JAX says: {said}")
    return told


def _is_info(node: Any) -> bool:
    return hasattr(node, "donated")


def _flat(exported: Any) -> Any:
    """The program over its leaves, so that no other process needs to know of any node."""
    inputs = jax.tree.structure((tuple(range(len(exported.in_avals))), {}))
    outputs = jax.tree.structure(tuple(range(len(exported.out_avals))))
    fields = {one.name: getattr(exported, one.name) for one in dataclasses.fields(exported)}
    # No pickle holds a closure, as its gradient is one.
    closures = {name: None for name, its in fields.items() if callable(its) and name[0] == "_"}
    return dataclasses.replace(exported, in_tree=inputs, out_tree=outputs, **closures)


def _stays(program: Program) -> Fault:
    count = program.mesh.size
    fact = f"the step cannot be taken to a process with {count} devices"
    note = (
        "callbacks cannot go there, nor can a Mesh of other devices; with "
        f"JAX_PLATFORMS=cpu XLA_FLAGS={DEVICES}={count} it is compiled in this process"
    )
    return Fault("PTK701", program.name, "", "", "", "", fact=fact, note=note)


def _failed(program: Program) -> Fault:
    fact = f"was not compiled for {program.mesh.size} devices"
    note = "what JAX says stands below this message"
    return Fault("PTK702", program.name, "", "", "", "", fact=fact, note=note)


def elsewhere(
    programs: Sequence[Program],
    carried: Sequence[Carried],
    doing: str,
    done: Callable[[int], None] | None = None,
) -> Iterator[Compiled]:
    """Compile programs for one number of devices, one after the other, in one process.

    Args:
        programs: The programs.
        carried: The same, as they go there.
        doing: What is being done.
        done: What is called when one is compiled.

    Raises:
        SpecError: PTK702, if one of them is not compiled.
    """
    with tempfile.TemporaryFile() as said, _process(programs[0].mesh.size, said) as process:
        for program, its in zip(programs, carried, strict=True):
            answer: dict[str, Any] | None = _asked(process, its.blob)
            if answer is None:
                said.seek(0)
                lines = said.read().decode(errors="replace").strip().splitlines()
                answer = {"error": lines[-1] if lines else "the process ended"}
            if "error" in answer:
                raise _told(_failed(program), doing, answer["error"])
            if done is not None:
                done(1)
            memory = DeviceMemory(**{to: answer["memory"][of] for to, of in _STATS.items()})
            names = {place: program.names[number] for place, number in enumerate(its.kept)}
            yield Compiled(answer["text"], memory, answer["seconds"], "cpu", names)


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
