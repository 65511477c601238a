"""`pytreekit tree`: what a checkpoint holds, by its shapes."""

from __future__ import annotations

import argparse

from . import options as common
from . import words

TOLD = "show the arrays of a checkpoint, without loading its weights"
EPILOG = common.EPILOG
DESCRIPTION = """\
Show the arrays that a checkpoint holds: shapes, dtypes, elements, bytes. No weights are loaded
and nothing in the file is run. Leaves that are alike but for numbers in their paths share a row.
Try:
  pytreekit tree
  pytreekit tree model.safetensors --depth 2"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    common.add_file(parser)
    parser.add_argument(
        "--depth", type=words.number, metavar="N", help="a row for all that lies below N keys"
    )
    parser.add_argument("--all", dest="every_leaf", action="store_true", help="a row for each leaf")
    common.add_json(parser)


def run(*, file: str | None, depth: int | None, every_leaf: bool, as_json: bool) -> int:
    """Show it."""
    from . import answers, trees

    answer = answers.Answer("tree", as_json=as_json)
    return answer.give(lambda: trees.show(answer, file, depth, every_leaf=every_leaf))
