"""The command line. JAX loads only for what needs it, so that the rest answers at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .commands.parsing import COMMANDS, parser

INTERRUPTED = 130
"""What shells expect of a program that was stopped by Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after `pytreekit`; by default those of this process.

    Returns:
        The exit code: 0 for done, 1 for a failure or faults, 2 for files that are not there. Wrong
        usage exits with 2, with a reason in JSON if `--json` is among the words.
    """
    _open_streams()
    words = sys.argv[1:] if arguments is None else arguments
    its = parser(words)
    options = vars(its.parse_args(words))
    run: Callable[..., int] | None = options.pop("run")
    if run is None:
        its.error(f"say what to do: {', '.join(COMMANDS)} or --version")
    try:
        code = run(**options)
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        if not isinstance(error, BrokenPipeError):  # else the reader, as `head`, has seen enough
            print(f"pytreekit: cannot write: {error.strerror}", file=sys.stderr)
        # At exit Python would try to write once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _open_streams() -> None:
    """Put something in the place of streams that the shell has closed, as by `>&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
