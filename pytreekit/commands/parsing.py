"""The parser of the command line, and the commands that it knows."""

from __future__ import annotations

import argparse
import importlib

COMMANDS = ("tree", "shard", "diff", "dry-run", "codes", "tour", "completion")
"""The commands, each a module beside this one; a dash in a name is `_` in that of its module.

Such a module has `TOLD`, its line in the help; `options(parser)`, which adds its options; and
`run(**options)`, which returns the exit code and loads what is heavy. It may have `DESCRIPTION` and
`EPILOG`, which its own help tells.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands and their options."""
    its = argparse.ArgumentParser(
        prog="pytreekit",
        description="Spec trees for JAX, checked before tracing.",
        formatter_class=_help,
    )
    its.add_argument(
        "--version", dest="run", action="store_const", const=_version, help="print the version"
    )
    commands = its.add_subparsers(title="commands", metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f".{name.replace('-', '_')}", __package__)
        command = commands.add_parser(
            name,
            help=module.TOLD,
            description=getattr(module, "DESCRIPTION", module.TOLD),
            epilog=getattr(module, "EPILOG", None),
            formatter_class=_help,
        )
        command.set_defaults(run=module.run)
        module.options(command)
    return its


def _help(prog: str) -> argparse.HelpFormatter:
    """Keeps the lines of descriptions, and has room for names beside what they stand for."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)


def _version() -> int:
    from .. import __version__

    print(f"pytreekit {__version__}")
    return 0
