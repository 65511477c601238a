"""The command line. JAX loads only for what needs it, so that the rest answers at once."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .commands import words

SHARD = """\
Print the PartitionSpec that rules give each leaf of a shape manifest, checked
against a mesh, and what each rule took. It needs no weights and no devices.

A manifest is JSON, {path: [shape, dtype]}, flat or nested:
  {"embed": {"table": [[50304, 768], "float32"]}, "norm/scale": [[768], "float32"]}

Without FILE.json it is that of GPT-2, which comes with rules of its own. Try:
  pytreekit shard --mesh data=4,model=2"""

SHARD_CODES = "exit status: 0 all fits, 1 faults, 2 wrong usage or no such files"

INTERRUPTED = 130
"""What shells expect of a program that was stopped by Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after `pytreekit`; by default those of this process.

    Returns:
        The exit code: 0 for done, 1 for a failure or faults, 2 for what cannot be read. Wrong
        usage exits with 2.
    """
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    run: Callable[..., int] | None = options.pop("run")
    if run is None:
        parser.error("say what to do: tour, shard, codes or --version")
    try:
        code = run(**options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; at exit Python would try to write once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pytreekit", description="Spec trees for JAX, checked before tracing."
    )
    parser.add_argument(
        "--version", dest="run", action="store_const", const=_version, help="print the version"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, command, told in (
        ("tour", _tour, "train a small classifier on real data and see what pytreekit does"),
        ("codes", _codes, "list the fault codes and what each stands for"),
    ):
        commands.add_parser(name, help=told, description=told).set_defaults(run=command)
    _add_shard(commands)
    return parser


def _add_shard(commands: Any) -> None:
    told = (
        "print the spec of each leaf by rules, checked against a mesh, and the audit of the rules"
    )
    shard = commands.add_parser(
        "shard",
        help=told,
        description=SHARD,
        epilog=SHARD_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shard.set_defaults(run=_shard)
    add = shard.add_argument
    add("file", nargs="?", metavar="FILE.json", help="a shape manifest; - is the standard input")
    add("--mesh", required=True, type=words.mesh, metavar="AXES", help="such as data=4,model=2")
    add("--rules", metavar="FILE", help="rules: a file in .toml, .yaml or .json")
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


def _version() -> int:
    from . import __version__

    print(f"pytreekit {__version__}")
    return 0


def _codes() -> int:
    from .faults import CODES

    for code, title in CODES.items():
        print(f"{code}  {title}")
    return 0


def _shard(*, file: str | None, rules: str | None, **options: Any) -> int:
    if file is not None and rules is None:
        print("pytreekit shard: --rules is missing: a file of rules for this tree", file=sys.stderr)
        return 2
    from .commands.shard import run

    return run(file=file, rules=rules, **options)


def _tour() -> int:
    if importlib.util.find_spec("sklearn") is None:
        print(
            "pytreekit tour: its data come with scikit-learn, which is not installed here.\n"
            "Install it: pip install 'pytreekit[tour]'",
            file=sys.stderr,
        )
        return 1
    from .tour import run

    run()
    return 0
