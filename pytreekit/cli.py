"""The command line. JAX loads only for what needs it, so that the rest answers at once."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence

INTERRUPTED = 130
"""What shells expect of a program that was stopped by Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after `pytreekit`; by default those of this process.

    Returns:
        The exit code: 0 for done, 1 for a failure. Wrong usage exits with 2.
    """
    parser = _parser()
    run: Callable[[], int] | None = parser.parse_args(arguments).run
    if run is None:
        parser.error("say what to do: tour, codes or --version")
    try:
        code = run()
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
    return parser


def _version() -> int:
    from . import __version__

    print(f"pytreekit {__version__}")
    return 0


def _codes() -> int:
    from .faults import CODES

    for code, title in CODES.items():
        print(f"{code}  {title}")
    return 0


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
