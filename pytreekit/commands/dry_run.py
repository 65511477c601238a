"""`pytreekit dry-run`: what the step that a module defines would cost."""

from __future__ import annotations

import argparse
from typing import Any

from . import options as common
from . import words

TOLD = "compile a step for devices that need not be there, and show what it would cost"
EPILOG = "exit status: 0 done, 1 faults or too little memory, 2 wrong usage or no such function"
DESCRIPTION = """\
Compile a training step for a mesh of devices that need not be there, and show what each would
hold and send, and because of which line. Nothing is run, and no weights are needed.

`module:function` is called without arguments and returns (step, *args), the arguments as
plan.abstract() gives them; or a dict with step, args, and plan, or plans to compare."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add = parser.add_argument
    add("target", metavar="MODULE:FUNCTION", help="the function that returns the step")
    add("--mesh", type=words.mesh, metavar="AXES", help="such as data=4,model=2")
    add("--memory", type=float, metavar="BYTES", help="of a device, such as 80e9")
    add("--bandwidth", type=float, metavar="N", help="bytes per second that a device can send")
    add("--latency", type=float, default=0.0, metavar="N", help="seconds of any collective")
    add("--strict", action="store_true", help="findings are faults")
    told = "write a report of one plan that any browser opens, offline"
    common.complete(add("--html", metavar="FILE", help=told))
    common.add_json(parser)


def run(*, as_json: bool = False, **asked: Any) -> int:
    """Dry-run what a function returns, and show it."""
    from . import answers, dry_running

    answer = answers.Answer("dry-run", as_json=as_json)
    return answer.give(lambda: dry_running.show(answer, **asked), x64=False)
