"""The command line. JAX loads only for what needs it, so that the rest answers at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from .commands.parsing import COMMANDS, parser

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
    its = parser()
    options = vars(its.parse_args(arguments))
    run: Callable[..., int] | None = options.pop("run")
    if run is None:
        its.error(f"say what to do: {', '.join(COMMANDS)} or --version")
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
