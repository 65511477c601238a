"""The command line. JAX loads only for what needs it, so that the rest answers at once."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

COMMANDS = ("tree", "shard", "diff", "codes", "tour", "completion")
"""The commands, each a module of `commands` that says what it is, which options it has, and runs.

Such a module has `TOLD`, its line in the help; `options(parser)`; and `run(**options)`, which
returns the exit code. What is heavy it loads when it runs. A dash in a name is `_` in its module.
"""

INTERRUPTED = 130
"""What shells expect of a program that was stopped by Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after `pytreekit`; by default those of this process.

    Returns:
        The exit code: 0 for done, 1 for a failure or faults, 2 for files that are not there. Wrong
        usage exits with 2.
    """
    parser = parser_of_all()
    options = vars(parser.parse_args(arguments))
    run: Callable[..., int] | None = options.pop("run")
    if run is None:
        parser.error(f"say what to do: {', '.join(COMMANDS)} or --version")
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


def parser_of_all() -> argparse.ArgumentParser:
    """The parser of all commands and their options."""
    parser = argparse.ArgumentParser(
        prog="pytreekit", description="Spec trees for JAX, checked before tracing."
    )
    parser.add_argument(
        "--version", dest="run", action="store_const", const=_version, help="print the version"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f".commands.{name.replace('-', '_')}", __package__)
        its = commands.add_parser(
            name,
            help=module.TOLD,
            description=getattr(module, "DESCRIPTION", module.TOLD),
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        its.set_defaults(run=module.run)
        module.options(its)
    return parser


def _version() -> int:
    from . import __version__

    print(f"pytreekit {__version__}")
    return 0
