"""`pytreekit dry-run`: what the step that a module defines would cost."""

from __future__ import annotations

import argparse
from typing import Any

from . import options as common
from . import words

TOLD = "compile a step for devices that need not be there, and show what it would cost"
EPILOG = """\
exit status: 0 done, 1 faults, too little memory or an error in that code, 2 wrong usage or no
such function"""
DESCRIPTION = """\
Compile a training step for a mesh of devices that need not be there, and show what each would
hold and send, and because of which line. Nothing is run, and no weights are needed.

`module:function` is called without arguments and returns (step, *args), the arguments as
plan.abstract() gives them; or a dict with step, args, and plan, or plans to compare, and mesh.

Bytes are a number, such as 80e9, or one with a unit: 80GB is 80 times 10^9, 80GiB 80 times
2^30; K, M, G and T are those of 1000."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add = parser.add_argument
    add("target", metavar="MODULE:FUNCTION", help="the function that returns the step")
    told = "such as data=4,model=2; it wins over that of a dict"
    add("--mesh", type=words.mesh, metavar="AXES", help=told)
    add("--memory", type=words.size, metavar="BYTES", help="of a device, such as 80GB")
    told = "bytes per second that a device can send, such as 450GB"
    add("--bandwidth", type=words.size, metavar="BYTES", help=told)
    told = "seconds of any collective, such as 1e-6"
    add("--latency", type=words.seconds, default=0.0, metavar="N", help=told)
    add("--strict", action="store_true", help="findings are faults")
    told = "write a report of one plan, not of several, that any browser opens, offline"
    common.complete(add("--html", metavar="FILE", help=told))
    common.add_json(parser)


def run(*, as_json: bool = False, **asked: Any) -> int:
    """Dry-run what a function returns, and show it."""
    from . import answers, dry_running

    answer = answers.Answer("dry-run", as_json=as_json)
    return answer.give(lambda: dry_running.show(answer, **asked), x64=False)
