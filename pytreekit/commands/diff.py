"""`pytreekit diff`: everything in which two checkpoints differ, by their shapes."""

from __future__ import annotations

import argparse

from . import options as common

TOLD = "show in what two checkpoints, or two plans, differ"
EPILOG = common.EPILOG
DESCRIPTION = """\
Show in what two checkpoints differ: arrays that one of them lacks, shapes, dtypes; or, of two
plans that `pytreekit shard --out` wrote, also specs and meshes. Weights are not compared. The
two may be of different forms: arrays are told apart by their paths."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    for name in ("A", "B"):
        told = "a file or a folder, as for `pytreekit tree`"
        common.complete(parser.add_argument(name.lower(), metavar=name, help=told))
    common.add_json(parser)


def run(*, a: str, b: str, as_json: bool) -> int:
    """Show it."""
    from . import answers, comparing

    answer = answers.Answer("diff", as_json=as_json)
    return answer.give(lambda: comparing.show(answer, a, b))
