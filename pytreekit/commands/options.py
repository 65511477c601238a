"""Options that several commands have."""

from __future__ import annotations

import argparse
from typing import Any

EPILOG = "exit status: 0 all is well, 1 faults or differences, 2 wrong usage or no such file"

FILE = "a safetensors file or its index, a checkpoint of orbax, a shape manifest, a plan, or a "
FILE += "folder with one of these; - is the standard input; by default the shapes of GPT-2"

FILES: dict[Any, Any] = {}
"""What completes files in each shell: shtab knows it, and fills it in when it is loaded."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the file that a command looks at."""
    complete(parser.add_argument("file", nargs="?", metavar="FILE", help=FILE))


def complete(argument: argparse.Action) -> argparse.Action:
    """Have a shell complete an argument by the names of files."""
    argument.complete = FILES  # pyright: ignore[reportAttributeAccessIssue]  as shtab has it
    return argument
