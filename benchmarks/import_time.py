"""What `import pytreekit`, and the first use of `ptk.vmap`, add to `import jax`."""

from __future__ import annotations

import json
import subprocess
import sys

from timing import finish, machine, options, print_table

GOAL_MS = 60
RUNS = 15
QUICK_RUNS = 1

STEPS = ("import jax", "import pytreekit as ptk", "ptk.vmap")
TIMED = """
import json, time
times = []
for step in {steps}:
    start = time.perf_counter()
    exec(step)
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def one_run() -> list[float]:
    """Seconds of each step in a fresh interpreter."""
    command = [sys.executable, "-c", TIMED.format(steps=STEPS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def main() -> None:
    chosen = options(__doc__)
    runs = [one_run() for _ in range(QUICK_RUNS if chosen.quick else RUNS)]
    rows = [
        [step, f"{min(times) * 1e3:,.1f}", ""]
        for step, times in zip(STEPS, zip(*runs, strict=True), strict=True)
    ]
    added = min(sum(times[1:]) for times in runs) * 1e3
    rows.append(["pytreekit in all", f"{added:,.1f}", f"{GOAL_MS}"])
    print(machine("jax"), end="\n\n")
    print_table(["", "ms", "goal"], rows)
    missed = [f"{added:.0f} ms over import jax, not {GOAL_MS} ms"] if added > GOAL_MS else []
    finish(missed, check=chosen.check)


if __name__ == "__main__":
    main()
