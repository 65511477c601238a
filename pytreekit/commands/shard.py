"""`pytreekit shard`: the spec that rules give each leaf of a checkpoint, checked."""

from __future__ import annotations

import argparse
from typing import Any

from . import options as common
from . import saying, words

TOLD = "print the spec of each leaf by rules, checked against a mesh, and the audit of the rules"
EPILOG = common.EPILOG
DESCRIPTION = """\
Print the PartitionSpec that rules give each leaf of a checkpoint, checked against a mesh, what
it takes of each device, and what each rule took. It needs no weights and no devices.

FILE may also be a shape manifest, JSON of {path: [shape, dtype]}, flat or nested:
  {"embed": {"table": [[50304, 768], "float32"]}, "norm/scale": [[768], "float32"]}

Without FILE it is that of GPT-2, which comes with rules of its own. Try:
  pytreekit shard --mesh data=4,model=2
  pytreekit shard --mesh data=4,model=2 --html report.html"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add = parser.add_argument
    common.add_file(parser)
    add("--mesh", required=True, type=words.mesh, metavar="AXES", help="such as data=4,model=2")
    rules = add("--rules", metavar="FILE", help="rules: a file in .toml, .yaml or .json")
    add("--axes", type=words.logical, metavar="NAMES", help="logical names: embed=fsdp,norm=")
    add(
        "--stack",
        action="append",
        type=words.stacked,
        metavar="GLOB=DIM",
        help="where layers are stacked: 'layers/**=0'; may be given more than once",
    )
    add(
        "--on-indivisible",
        choices=("error", "replicate"),
        default="error",
        help="what to do with a dimension that its mesh axes do not divide (default: error)",
    )
    add(
        "--missing-axes",
        choices=("error", "drop"),
        default="error",
        help="what to do with rules that name axes that the mesh lacks (default: error)",
    )
    add("--all", dest="every_leaf", action="store_true", help="a row for each leaf")
    add(
        "--strict",
        action="store_true",
        help="rules that take nothing, and leaves with the default, are faults, too",
    )
    out = add("--out", metavar="FILE", help="write the plan as JSON, for ShardingPlan.from_json")
    html = add("--html", metavar="FILE", help="write a report that any browser opens, offline")
    for argument in (rules, out, html):
        common.complete(argument)
    common.add_json(parser)


def run(*, file: str | None, rules: str | None, as_json: bool, **options: Any) -> int:
    """Print it."""
    if file is not None and rules is None:
        why = "--rules is missing: a file of rules for this tree"
        return saying.refuse("shard", why, as_json=as_json)
    from . import answers, sharding

    answer = answers.Answer("shard", as_json=as_json)
    return answer.give(lambda: sharding.show(answer, file, rules, **options))
