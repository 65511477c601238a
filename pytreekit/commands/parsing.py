"""The parser of the command line, and the commands that it knows."""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Sequence
from typing import Any, NoReturn

from . import saying

COMMANDS = ("tree", "shard", "diff", "dry-run", "codes", "tour", "completion")
"""The commands, each a module beside this one; a dash in a name is `_` in that of its module.

Such a module has `TOLD`, its line in the help; `options(parser)`, which adds its options; and
`run(**options)`, which returns the exit code and loads what is heavy. It may have `DESCRIPTION` and
`EPILOG`, which its own help tells.
"""


class _InJson(argparse.ArgumentParser):
    """A parser that says in JSON what is wrong."""

    def __init__(self, *args: Any, command: str, **its: Any) -> None:
        super().__init__(*args, **its)
        self._command = command

    def error(self, message: str) -> NoReturn:
        """End the program."""
        self.exit(saying.refuse(self._command, message, as_json=True))


def parser(words: Sequence[str] = (), *, brief: bool = False) -> argparse.ArgumentParser:
    """The parser of all commands and their options.

    Args:
        words: What it is to parse, as far as it says how to tell what is wrong with it.
        brief: Whether a line describes each command: shells have no room for more.
    """
    kind: Any = argparse.ArgumentParser
    if "--json" in words:
        command = next((word for word in words if word in COMMANDS), "")
        kind = functools.partial(_InJson, command=command)
    its = kind(
        prog="pytreekit",
        description="Spec trees for JAX, checked before tracing.",
        formatter_class=_help,
    )
    its.add_argument(
        "--version", dest="run", action="store_const", const=_version, help="print the version"
    )
    commands = its.add_subparsers(title="commands", metavar="COMMAND", parser_class=kind)
    for name in COMMANDS:
        module = importlib.import_module(f".{name.replace('-', '_')}", __package__)
        command = commands.add_parser(
            name,
            help=module.TOLD,
            description=module.TOLD if brief else getattr(module, "DESCRIPTION", module.TOLD),
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
