"""A process with as many simulated devices as a program needs, which compiles it there.

It is run as a file of its own and takes nothing from pytreekit: programs come over its standard
input, and what the compiler tells of them goes back over its standard output, both as pickles.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from typing import Any


def compiled(program: dict[str, Any]) -> dict[str, Any]:
    """Compile a program, and tell what became of it.

    Args:
        program: `exported`, as `jax.export` made it; `kept`, which of its arguments it uses;
            `donated`, which of these it may write into; `mesh`, its axes, sizes and types.
    """
    import jax
    import numpy as np

    exported, kept = program["exported"], program["kept"]
    names, sizes, types = program["mesh"]
    devices = np.array(jax.devices("cpu")[: exported.nr_devices])
    mesh = jax.sharding.Mesh(devices.reshape(sizes), names, axis_types=types)
    shardings = exported.in_shardings_jax(mesh)
    avals = exported.in_avals

    def main(*arrays: Any) -> Any:
        filled = dict(zip(kept, arrays, strict=True))
        # What the program makes no use of: JAX takes it out where it compiles the function itself.
        every = [
            filled[number] if number in filled else jax.numpy.zeros(aval.shape, aval.dtype)
            for number, aval in enumerate(avals)
        ]
        return exported.call(*every)

    args = [
        jax.ShapeDtypeStruct(avals[number].shape, avals[number].dtype, sharding=shardings[number])
        for number in kept
    ]
    start = time.perf_counter()
    step = jax.jit(main, donate_argnums=program["donated"], keep_unused=True)
    with jax.set_mesh(mesh):  # for arguments whose layout is left to the compiler
        executable = step.lower(*args).compile()
    seconds = time.perf_counter() - start
    stats = executable.memory_analysis()
    fields = ("argument", "output", "temp", "alias", "generated_code")
    memory = {name: int(getattr(stats, f"{name}_size_in_bytes", 0)) for name in fields}
    its_own = jax.tree.leaves([executable.input_shardings, executable.output_shardings])
    specs = [its.spec for its in its_own if isinstance(its, jax.sharding.NamedSharding)]
    return {"text": executable.as_text(), "memory": memory, "seconds": seconds, "specs": specs}


def main() -> None:
    """Compile what comes in until nothing comes any more."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # so that nothing else is written there
    sys.path[:] = pickle.load(sys.stdin.buffer)
    while True:
        try:
            program = pickle.loads(pickle.load(sys.stdin.buffer))
        except EOFError:
            return
        try:
            answer = compiled(program)
        except Exception as error:  # noqa: BLE001  it is told where the program comes from
            answer = {"error": f"{type(error).__name__}: {error}"}
        pickle.dump(answer, out)
        out.flush()


if __name__ == "__main__":
    main()
