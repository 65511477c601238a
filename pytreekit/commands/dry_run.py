"""`pytreekit dry-run`: what the step that a module defines would cost."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from . import words

if TYPE_CHECKING:
    from ..dryrun.comparison import Comparison
    from ..dryrun.result import DryRun

    Found: TypeAlias = DryRun | Comparison

DONE, FAULTS, BAD_INPUT = 0, 1, 2
EXAMPLE = "train:dry, a function that returns (step, *args)"

TOLD = "compile a step for devices that need not be there, and show what it would cost"
EPILOG = "exit status: 0 done, 1 faults or too little memory, 2 wrong usage or no such function"
DESCRIPTION = """\
Compile a training step for a mesh of devices that need not be there, and show what each would
hold and send, and because of which line. Nothing is run, and no weights are needed.

`module:function` is called without arguments and returns (step, *args), the arguments as
plan.abstract() gives them; or a dict with step, args, and plan, or plans to compare."""


class NoSuchStep(ValueError):  # noqa: N818  it is told in one line, as a word to who called
    """A target that leads to no step: why."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add = parser.add_argument
    add("target", metavar="MODULE:FUNCTION", help="the function that returns the step")
    add("--mesh", type=words.mesh, metavar="AXES", help="such as data=4,model=2")
    add("--memory", type=float, metavar="BYTES", help="of a device, such as 80e9")
    add("--bandwidth", type=float, metavar="N", help="bytes per second that a device can send")
    add("--latency", type=float, default=0.0, metavar="N", help="seconds of any collective")
    add("--strict", action="store_true", help="findings are faults")
    add("--json", dest="as_json", action="store_true", help="print JSON")


def run(
    *,
    target: str,
    mesh: dict[str, int] | None = None,
    memory: float | int | None = None,
    bandwidth: float | int | None = None,
    latency: float | int = 0.0,
    as_json: bool = False,
    strict: bool = False,
) -> int:
    """Dry-run what a function returns, and print it.

    Args:
        target: `module:function`, of a module that can be imported from here. The function takes
            nothing and returns `(step, *args)`, the arguments with their shardings; or a dict of
            these: `step`, `args`, and `plan`, a `ShardingPlan`, or `plans`, a dict of some.
        mesh: The axes of the mesh; by default those of the arguments.
        memory: The bytes of a device: what does not fit is a fault.
        bandwidth: Bytes per second that a device can send.
        latency: Seconds that a collective takes at least.
        as_json: Whether to print JSON.
        strict: Whether findings are faults.

    Returns:
        The exit code: 0 for done, 1 for faults, 2 where there is no such function.
    """
    from ..show.errors import SpecError

    try:
        its = _asked(target)
    except NoSuchStep as error:
        print(f"pytreekit dry-run: {error}", file=sys.stderr)
        return BAD_INPUT
    links = {"bandwidth": bandwidth, "latency": latency, "mesh": mesh or its.get("mesh")}
    try:
        found = _found(its, memory, links)
    except SpecError as error:
        print("\n".join([str(error), *getattr(error, "__notes__", ())]), file=sys.stderr)
        return FAULTS
    print(found.to_json() if as_json else found)
    return _code(found, memory, strict=strict)


def _found(its: Mapping[str, Any], memory: Any, links: dict[str, Any]) -> Found:
    from ..dryrun.compare import compare
    from ..dryrun.dry_run import dry_run

    args = tuple(its.get("args", ()))
    if its.get("plans"):
        return compare(its["step"], args, its["plans"], memory=memory, **links)
    return dry_run(its["step"], *args, plan=its.get("plan"), **links)


def _code(found: Found, memory: float | int | None, *, strict: bool) -> int:
    runs = getattr(found, "runs", {"": found}).values()
    fits = memory is None or any(run.memory.peak <= memory for run in runs)
    if not fits:
        print(f"pytreekit dry-run: more than {memory:,.0f} bytes per device", file=sys.stderr)
    clean = not strict or not any(run.findings for run in runs)
    return DONE if fits and clean else FAULTS


def _asked(target: str) -> Mapping[str, Any]:
    """What the function returns, as a dict.

    Raises:
        NoSuchStep: If there is no such function, or it returns something else.
    """
    returned = _function(target)()
    if isinstance(returned, tuple) and returned and callable(returned[0]):
        return {"step": returned[0], "args": returned[1:]}
    if isinstance(returned, Mapping) and callable(returned.get("step")):
        return returned
    raise NoSuchStep(f"{target} returns a {type(returned).__name__}; wanted is {EXAMPLE}")


def _function(target: str) -> Callable[[], Any]:
    name, colon, path = target.partition(":")
    if not name or not colon or not path:
        raise NoSuchStep(f"{target!a} is no module and function, such as {EXAMPLE}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise NoSuchStep(f"there is no module {error.name!r}") from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise NoSuchStep(f"{name} has no {path!a}")
        found = getattr(found, part)
    if not callable(found):
        raise NoSuchStep(f"{target} is no function")
    return found
