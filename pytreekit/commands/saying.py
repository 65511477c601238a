"""How commands speak: no key and no name of a file can say more than text. It needs no JAX."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

BAD_USAGE = 2

UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Characters that count as printable, though nothing is seen of them."""

_UNSURE = re.compile(r"[^\n -~]")


def say(text: Any, *, error: bool = False) -> None:
    """Print a text; what a terminal could take for more than text is escaped, as keys are any."""
    if error:
        sys.stdout.flush()  # so that the two streams come in order where both are shown
    stream = sys.stderr if error else sys.stdout
    print(plain(text, stream), file=stream)


def plain(text: Any, stream: Any = None) -> str:
    """A text in which no character can speak to a terminal, or turn round what is beside it.

    Letters of all languages stay as they are, where there is a way to write them.

    Args:
        text: The text.
        stream: Where it is to go, None for the standard output.
    """
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    seen = _UNSURE.sub(_seen, str(text))
    return seen.encode(encoding, "backslashreplace").decode(encoding)


def line(text: Any) -> str:
    """A text as a part of one line of the standard output."""
    return plain(text).replace("\n", "\\n")


def refuse(command: str, why: Any, *, as_json: bool) -> int:
    """Say why a command cannot be run.

    Args:
        command: Its name.
        why: The reason, in one sentence.
        as_json: Whether programs are to read it.

    Returns:
        The exit code.
    """
    if as_json:
        print(json.dumps({"command": command, "error": str(why), "faults": []}, indent=1))
    else:
        say(f"pytreekit {command}: {why}", error=True)
    return BAD_USAGE


def _seen(found: re.Match[str]) -> str:
    its = found[0]
    return its if its.isprintable() and its not in UNSEEN else ascii(its)[1:-1]
